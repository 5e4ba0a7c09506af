"""Movement between regions of arrays: what slices, concat, padding and setitem are made of."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..spec import Shape, contiguous_strides, size_of
from .broadcast import label, walk

WORD = 2**32


class Region(NamedTuple):
    """Elements of an array: where the first lies, and the step along each dimension of a box, in elements."""

    offset: int
    strides: Shape


def dense(shape: Shape) -> Region:
    """All elements of an array of ``shape``, in their order."""
    return Region(0, contiguous_strides(shape))


def move(name: str, shape: Shape, x: Array, source: Region, y: Array, target: Region) -> None:
    """Record y[target] = x[source] for a box of ``shape``. The two are different memory, of 4-byte elements."""
    rank, extents, (x_strides, y_strides) = walk(name, shape, (source.strides, target.strides))
    size = size_of(shape)
    kernel = x.device.kernel("region", "forward", label=label(name, "region", x.dtype))
    x.device.recorder.record_over(
        kernel,
        size,
        x=x,
        y=y,
        shape=extents,
        x_strides=tuple(step % WORD for step in x_strides),
        y_strides=tuple(step % WORD for step in y_strides),
        size=size,
        rank=rank,
        x_offset=source.offset,
        y_offset=target.offset,
    )
