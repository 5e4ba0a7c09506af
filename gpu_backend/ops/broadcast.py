"""What elementwise kernels of several operands share: the walk over broadcast operands, as Params."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Operand
from ..spec import DType, Shape, Spec, as_scalar, broadcast_strides, collapse, size_of

MAX_RANK = 8

FLAT, STRIDED, NUMBER = 0, 1, 2


def padded(extents: Shape, fill: int) -> Shape:
    """Eight numbers for a Params field of two vec4: ``extents``, then ``fill``."""
    return extents + (fill,) * (MAX_RANK - len(extents))


@lru_cache(maxsize=4096)
def walk(op: str, shape: Shape, strides: tuple[Shape, ...]) -> tuple[int, Shape, tuple[Shape, ...]]:
    """Rank, extents and strides, innermost first and padded to eight, of a walk over ``shape`` with these strides."""
    extents, steps = collapse(shape, *strides)
    if len(extents) > MAX_RANK:
        raise ShapeError(f"{op}: shape {shape} has {len(extents)} dimensions that do not merge; at most {MAX_RANK}")
    return len(extents), padded(extents, 1), tuple(padded(step, 0) for step in steps)


@lru_cache(maxsize=4096)
def _pair_walk(op: str, out: Shape, a: Shape | None, b: Shape | None) -> dict[str, Any]:
    """Shape, strides, rank and modes for binary.wgsl; a shape of None stands for a number."""
    strides = tuple(broadcast_strides(shape, out) if shape is not None else (0,) * len(out) for shape in (a, b))
    rank, extents, (a_strides, b_strides) = walk(op, out, strides)
    modes = [NUMBER if shape is None else FLAT if size_of(shape) == size_of(out) else STRIDED for shape in (a, b)]
    return {
        "shape": extents,
        "a_strides": a_strides,
        "b_strides": b_strides,
        "size": size_of(out),
        "rank": rank,
        "a_mode": modes[0],
        "b_mode": modes[1],
    }


@lru_cache(maxsize=1024)
def _prelude(name: str, library: str, elem: str, result: str, sides: tuple[str, ...], takes_constant: bool) -> str:
    operands = "p, q, params.constant" if takes_constant else "p, q"
    lines = [
        f"// uses: lib/{library}",
        f"alias elem = {elem};",
        f"alias result = {result};",
        f"fn value(p: elem, q: elem) -> result {{ return {name}_value({operands}); }}",
    ]
    for side in ("left", "right"):
        body = f"{name}_{side}({operands})" if side in sides else "0.0"
        lines.append(f"fn {side}(p: elem, q: elem) -> f32 {{ return {body}; }}")
    return "\n".join(lines) + "\n"


def record_pair(
    name: str,
    entry: str,
    out: Spec,
    a: Operand,
    b: Operand,
    sides: tuple[str, ...] = (),
    dy: Array | None = None,
    library: str = "arithmetic",
    constant: float | None = None,
) -> Array:
    """Record an entry point of binary.wgsl for the function ``name`` on two operands, one of which may be a number.

    ``forward`` makes y of ``out``; ``left_backward`` and ``right_backward`` make dx of ``out`` from ``dy``. The
    function is ``<name>_value`` of the file ``library`` in wgsl/lib, and ``sides`` says which of ``<name>_left`` and
    ``<name>_right`` it has. With a ``constant`` they take three numbers.
    """
    array = a if isinstance(a, Array) else b
    assert isinstance(array, Array)
    number = b if array is a else a
    elem = array.dtype.wgsl
    made = allocate(out.shape, out.dtype, array.device, name)
    result = out.dtype.wgsl if entry == "forward" else "f32"
    prelude = _prelude(name, library, elem, result, sides, constant is not None)
    kernel = array.device.kernel("binary", entry, prelude, (), _label(name, entry, elem))
    params = _pair_walk(
        name, out.shape, a.shape if isinstance(a, Array) else None, b.shape if isinstance(b, Array) else None
    )
    arrays = {
        "a": a if isinstance(a, Array) else array,
        "b": b if isinstance(b, Array) else array,
        "number": 0 if isinstance(number, Array) else as_scalar(name, number, array.dtype),
        "constant": constant or 0.0,
    }
    arrays |= {"y": made} if dy is None else {"dy": dy, "dx": made}
    array.device.recorder.record_over(kernel, -(-params["size"] // 4), **params, **arrays)
    return made


@lru_cache(maxsize=1024)
def _label(name: str, entry: str, elem: str) -> str:
    return f"{name}.{entry}[{elem}]"


def label(name: str, entry: str, dtype: DType) -> str:
    """What a kernel is called: op, entry point, element type."""
    return _label(name, entry, dtype.wgsl)


def gather(name: str, x: Array, shape: Shape, strides: Shape) -> Array:
    """A new array of ``shape`` whose elements are those of ``x`` met when walking its memory with ``strides``."""
    y = allocate(shape, x.dtype, x.device, name)
    rank, extents, (steps,) = walk(name, shape, (strides,))
    entry, items = "gather", -(-y.size // 4)
    if _is_transpose(rank, extents, steps):
        entry, items = "transpose", -(-extents[0] // 4) * -(-extents[1] // 4) * extents[2]
    kernel = x.device.kernel("copy", entry, label=label(name, entry, x.dtype))
    arrays = {"x": x, "y_words" if entry == "transpose" else "y": y}
    params = {"shape": extents, "strides": steps, "size": y.size, "rank": rank, "number": 0}
    x.device.recorder.record_over(kernel, items, **arrays, **params)
    return y


def _is_transpose(rank: int, extents: Shape, steps: Shape) -> bool:
    """Whether a walk goes down the columns of one matrix after the other."""
    return rank in (2, 3) and steps[:2] == (extents[1], 1) and (rank == 2 or steps[2] == extents[0] * extents[1])
