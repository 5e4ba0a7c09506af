"""Functions made of ops alone, for arrays and for tensors alike: what they are given decides.

``gpu_backend`` has them for arrays, ``autodiff.functional`` for tensors, where what they are made of is on the tape.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

from .errors import ShapeError
from .operators import Operators
from .spec import Axis, broadcast_shapes, normalize_axis, size_of

__all__ = [
    "broadcast_arrays",
    "chunk",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "pixel_shuffle",
    "pixel_unshuffle",
    "positive",
    "pow",
    "split",
    "trace",
    "unstack",
    "vector_norm",
]

X = TypeVar("X", bound=Operators)


def positive(x: X) -> X:
    """+x, which is x itself."""
    return x


def pow(a: Any, b: Any) -> Any:
    """a to the power b: the name of ``power`` in the array API and in PyTorch."""
    return a**b


def matrix_transpose(x: X) -> X:
    """A copy with the last two axes exchanged."""
    return x._apply("swapaxes", axis1=-2, axis2=-1)


def moveaxis(x: X, source: int | Sequence[int], destination: int | Sequence[int]) -> X:
    """A copy with the axes ``source`` at the places ``destination``, the others in their order."""
    rank = len(x.shape)
    origins, goals = (
        [normalize_axis("moveaxis", axis, rank) for axis in (given if isinstance(given, Sequence) else (given,))]
        for given in (source, destination)
    )
    if len(origins) != len(goals) or len(set(origins)) != len(origins) or len(set(goals)) != len(goals):
        raise ShapeError(f"moveaxis: {source} and {destination} are not as many axes, each once")
    rest = iter(axis for axis in range(rank) if axis not in origins)
    places = dict(zip(goals, origins, strict=True))
    return x._apply("permute_dims", axes=[places[axis] if axis in places else next(rest) for axis in range(rank)])


def split(x: X, size_or_sections: int | Sequence[int], axis: int = 0) -> tuple[X, ...]:
    """Pieces along ``axis``, of one size, the last one smaller, or of the sizes listed, as in PyTorch."""
    place = normalize_axis("split", axis, len(x.shape))
    extent = x.shape[place]
    if isinstance(size_or_sections, int):
        if size_or_sections < 1:
            raise ShapeError(f"split: a size is at least 1, not {size_or_sections}")
        sizes = [min(size_or_sections, extent - start) for start in range(0, extent, size_or_sections)] or [0]
    else:
        sizes = list(size_or_sections)
        if builtins.sum(sizes) != extent or min(sizes, default=0) < 0:
            raise ShapeError(f"split: sizes {sizes} do not fill axis {place} of shape {x.shape}")
    ends = itertools.accumulate(sizes)
    before = (slice(None),) * place
    return tuple(
        x._apply("getitem", key=(*before, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)
    )


def chunk(x: X, chunks: int, axis: int = 0) -> tuple[X, ...]:
    """At most ``chunks`` pieces of one size along ``axis``, the last one smaller, as in PyTorch."""
    if chunks < 1:
        raise ShapeError(f"chunk: at least 1 piece, not {chunks}")
    extent = x.shape[normalize_axis("chunk", axis, len(x.shape))]
    return split(x, max(-(-extent // chunks), 1), axis)


def unstack(x: X, axis: int = 0) -> tuple[X, ...]:
    """The slices along ``axis``, one by one, without it."""
    place = normalize_axis("unstack", axis, len(x.shape))
    before = (slice(None),) * place
    return tuple(x._apply("getitem", key=(*before, index)) for index in range(x.shape[place]))


def broadcast_arrays(*arrays: X) -> list[X]:
    """Each in their common shape."""
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in arrays))
    return [x if x.shape == shape else x._apply("broadcast_to", shape=shape) for x in arrays]


def meshgrid(*vectors: X, indexing: str = "xy") -> list[X]:
    """Coordinates of a grid, one for each vector: "xy" has the first run along axis 1, "ij" along axis 0."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    for x in vectors:
        if len(x.shape) > 1:
            raise ShapeError(f"meshgrid: takes vectors, not shape {x.shape}")
    rank = len(vectors)
    axes = list(range(rank))  # along which each vector runs
    if indexing == "xy" and rank > 1:
        axes[:2] = [1, 0]
    sizes = [size_of(x.shape) for x in vectors]
    shape = [sizes[axes.index(axis)] for axis in range(rank)]
    made = []
    for x, axis, size in zip(vectors, axes, sizes, strict=True):
        column = x._apply("reshape", shape=[size if place == axis else 1 for place in range(rank)])
        made.append(column._apply("broadcast_to", shape=shape))
    return made


def taken(x: X, indices: X, axis: int) -> X:
    """Slices of x by index along ``axis``, which the dimensions of ``indices`` replace."""
    rank = len(x.shape)
    place = normalize_axis("take", axis, rank)
    if place == 0:
        return x._meet("embedding", indices, x)
    rest = [other for other in range(rank) if other != place]
    rows = x._meet("embedding", indices, x._apply("permute_dims", axes=(place, *rest)))
    new = len(indices.shape)
    before, after = range(new, new + place), range(new + place, len(rows.shape))
    return rows._apply("permute_dims", axes=(*before, *range(new), *after))


def trace(x: X, offset: int = 0) -> X:
    """The sum of the diagonal of the last two axes."""
    return x._apply("diagonal", offset=offset, axis1=-2, axis2=-1)._apply("sum", axis=-1)


def cumulative_sum(x: X, axis: int | None = None) -> X:
    """The array API's name of ``cumsum``."""
    return x._apply("cumsum", axis=axis)


def cumulative_prod(x: X, axis: int | None = None) -> X:
    """The array API's name of ``cumprod``."""
    return x._apply("cumprod", axis=axis)


def vector_norm(x: X, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> X:
    """The array API's name of ``norm``."""
    return x._apply("norm", ord=ord, axis=axis, keepdims=keepdims)


def diff(x: X, axis: int = -1, n: int = 1) -> X:
    """Differences of neighbours along ``axis``, ``n`` times."""
    place = normalize_axis("diff", axis, len(x.shape))
    before = (slice(None),) * place
    for _ in range(n):
        x = x._apply("getitem", key=(*before, slice(1, None))) - x._apply("getitem", key=(*before, slice(None, -1)))
    return x


def pixel_shuffle(x: X, upscale_factor: int) -> X:
    """x (N, C r r, H, W) as (N, C, H r, W r), r = ``upscale_factor``: channel c r r + i r + j becomes row i and column
    j of each block. Shi et al., Real-time single image super-resolution, 2016."""
    r = _factor("pixel_shuffle", x, upscale_factor)
    N, channels, H, W = x.shape
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels do not divide by {r} x {r}")
    blocks = x._apply("reshape", shape=(N, channels // (r * r), r, r, H, W))
    return blocks._apply("permute_dims", axes=(0, 1, 4, 2, 5, 3))._apply(
        "reshape", shape=(N, channels // (r * r), H * r, W * r)
    )


def pixel_unshuffle(x: X, downscale_factor: int) -> X:
    """x (N, C, H r, W r) as (N, C r r, H, W): the inverse of pixel_shuffle."""
    r = _factor("pixel_unshuffle", x, downscale_factor)
    N, channels, H, W = x.shape
    if H % r or W % r:
        raise ShapeError(f"pixel_unshuffle: planes of {(H, W)} do not divide by {r}")
    blocks = x._apply("reshape", shape=(N, channels, H // r, r, W // r, r))
    wide = (N, channels * r * r, H // r, W // r)
    return blocks._apply("permute_dims", axes=(0, 1, 3, 5, 2, 4))._apply("reshape", shape=wide)


def _factor(name: str, x: X, factor: int) -> int:
    if len(x.shape) != 4:
        raise ShapeError(f"{name}: the input has shape {x.shape}, not (N, C, H, W)")
    if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
        raise ShapeError(f"{name}: a factor is a number from 1 on, not {factor!r}")
    return factor
