"""Strategies for hypothesis: problem sizes where kernels fail, and floats that they forget.

    from hypothesis import given
    from gpu_backend.testing.strategies import float_arrays, sizes

    @given(x=float_arrays(sizes(workgroup=64)))
    def test_relu(x): ...

Fixtures of a function live through all examples: with ``run_wgsl`` as a fixture, hypothesis wants
``suppress_health_check=[HealthCheck.function_scoped_fixture]``, or take the plain function ``run_wgsl``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover
    raise ImportError("gpu_backend.testing.strategies needs hypothesis: pip install 'shadertape[testing]'") from error

__all__ = ["SPECIAL_FLOATS", "float_arrays", "floats", "shapes", "sizes"]

SPECIAL_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 88.8, -88.8, 100.0, -104.0, 2.0**24, 2.0**24 + 2, 1e-30, 1e30),
    *(1.1754944e-38, -1.1754944e-38, 1e-40, 3.4028235e38, -3.4028235e38),
    *(float("inf"), float("-inf"), float("nan")),
)
"""Zeros, what exp and tanh overflow at, the end of whole numbers, the ends of the range, a subnormal, inf, NaN."""


def sizes(workgroup: int = 64, max_size: int = 1000, min_size: int = 1) -> st.SearchStrategy[int]:
    """Problem sizes between ``min_size`` and ``max_size``: those around multiples of the workgroup size and of four,
    the least, and any other.
    """
    if not 0 <= min_size <= max_size or workgroup < 1:
        raise ValueError(f"sizes: no sizes from {min_size} to {max_size} with a workgroup of {workgroup}")
    edges = {min_size, max_size, 1, 2, 3, 4, 5}
    for step in (workgroup, workgroup // 4, 4 * workgroup):
        for multiple in range(step, max_size + 2, max(step, 1)):
            edges |= {multiple - 1, multiple, multiple + 1}
    within = sorted(size for size in edges if min_size <= size <= max_size)
    return st.one_of(st.sampled_from(within), st.integers(min_size, max_size))


def shapes(rank: int = 2, workgroup: int = 64, max_extent: int = 130) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes whose extents are ``sizes``, at most one of them large."""
    large = sizes(workgroup, max_extent)
    small = st.sampled_from([1, 2, 3, 4, 5, 8])

    def place(axis: int) -> st.SearchStrategy[tuple[int, ...]]:
        return st.tuples(*(large if axis == one else small for one in range(rank)))

    return st.integers(0, rank - 1).flatmap(place)


def floats(dtype: Any = np.float32, *, special: bool = True, bound: float | None = None) -> st.SearchStrategy[float]:
    """Numbers that ``dtype`` holds. ``special``: the special values among them; ``bound``: none larger than that."""
    kind = np.dtype(dtype)
    largest = float(np.finfo(kind).max) if bound is None else min(bound, float(np.finfo(kind).max))
    limit = float(kind.type(largest))
    ordinary = st.floats(-limit, limit, width=8 * kind.itemsize, allow_subnormal=True)
    if not special:
        return ordinary
    kept = [x for x in SPECIAL_FLOATS if bound is None or abs(x) <= limit]
    with np.errstate(over="ignore"):
        held = [float(kind.type(x)) for x in kept]
    return st.one_of(ordinary, st.sampled_from(held))


@st.composite
def float_arrays(
    draw: st.DrawFn, /, shape: st.SearchStrategy[Any] | Any = None, dtype: Any = np.float32, **options: Any
) -> npt.NDArray[Any]:
    """Arrays of a shape, an int or a strategy for either; elements as in ``floats``, special ones at a few places."""
    chosen = draw(shape if isinstance(shape, st.SearchStrategy) else st.just(shape) if shape is not None else sizes())
    extents = (chosen,) if isinstance(chosen, int) else tuple(chosen)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = rng.standard_normal(extents).astype(dtype)
    if options.get("bound") is not None:
        made = made.clip(-options["bound"], options["bound"])
    places = draw(st.lists(st.tuples(st.integers(0, max(made.size - 1, 0)), floats(dtype, **options)), max_size=8))
    for place, value in places:
        if made.size:
            made.flat[place] = value
    return made
