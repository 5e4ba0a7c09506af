"""Ops that put arrays together, or one several times: concat, stack, tile, repeat."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import HasSpec, Shape, Spec, contiguous_strides, normalize_axis, size_of
from .broadcast import gather
from .reduction import reduce_axes
from .region import Region, dense, move

__all__ = ["concat", "repeat", "stack", "tile"]


def _same_type(name: str, arrays: Sequence[HasSpec]) -> None:
    if not arrays:
        raise ShapeError(f"{name}: takes at least one array")
    for x in arrays:
        if x.dtype is not arrays[0].dtype:
            raise DtypeError(f"{name}: element types differ: {arrays[0].dtype} and {x.dtype}; convert one with astype")


def concat_spec(*arrays: HasSpec, axis: int = 0) -> Spec:
    """The arrays one after the other along ``axis``, equal in the other extents; each dx = its piece of dy."""
    _same_type("concat", arrays)
    first = arrays[0].shape
    place = normalize_axis("concat", axis, len(first))
    for x in arrays:
        if len(x.shape) != len(first) or x.shape[:place] + x.shape[place + 1 :] != first[:place] + first[place + 1 :]:
            raise ShapeError(f"concat: shapes {first} and {x.shape} differ in more than axis {place}")
    total = sum(x.shape[place] for x in arrays)
    return Spec((*first[:place], total, *first[place + 1 :]), arrays[0].dtype)


def concat_host_forward(*arrays: HostArray, axis: int = 0) -> tuple[HostArray, Saved]:
    place = normalize_axis("concat", axis, arrays[0].ndim)
    return np.concatenate(arrays, place), (place, tuple(x.shape for x in arrays))


def concat_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    axis, shapes = saved
    ends = np.cumsum([shape[axis] for shape in shapes])[:-1]
    return tuple(piece.copy() if need else None for piece, need in zip(np.split(dy, ends, axis), needs, strict=True))


def concat_forward(out: Spec, *arrays: Array, axis: int = 0) -> tuple[Array, Saved]:
    place = normalize_axis("concat", axis, arrays[0].ndim)
    return _joined("concat", arrays, place, out), (place, tuple(x.shape for x in arrays))


def _joined(name: str, arrays: Sequence[Array], axis: int, out: Spec) -> Array:
    y = allocate(out.shape, out.dtype, arrays[0].device, name)
    strides, start = contiguous_strides(out.shape), 0
    for x in arrays:
        move(name, x.shape, x, dense(x.shape), y, Region(start * strides[axis], strides))
        start += x.shape[axis]
    return y


def concat_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    axis, shapes = saved
    return _parted("concat", dy, axis, shapes, needs)


def _parted(name: str, dy: Array, axis: int, shapes: Sequence[Shape], needs: Needs) -> Gradients:
    strides, start = contiguous_strides(dy.shape), 0
    made: list[Array | None] = []
    for shape, need in zip(shapes, needs, strict=True):
        dx = allocate(shape, dy.dtype, dy.device, name) if need else None
        if dx is not None:
            move(name, shape, dy, Region(start * strides[axis], strides), dx, dense(shape))
        made.append(dx)
        start += shape[axis]
    return tuple(made)


concat = Op(
    "concat",
    concat_spec,
    concat_host_forward,
    concat_forward,
    concat_host_backward,
    concat_backward,
    promotion="common",
)


def stack_spec(*arrays: HasSpec, axis: int = 0) -> Spec:
    """The arrays, of one shape, side by side along a new axis, ``axis`` of the result; each dx = its slice of dy."""
    _same_type("stack", arrays)
    first = arrays[0].shape
    place = normalize_axis("stack", axis, len(first) + 1)
    for x in arrays:
        if x.shape != first:
            raise ShapeError(f"stack: shapes differ: {first} and {x.shape}; concat joins along an axis that is there")
    return Spec((*first[:place], len(arrays), *first[place:]), arrays[0].dtype)


def stack_host_forward(*arrays: HostArray, axis: int = 0) -> tuple[HostArray, Saved]:
    place = normalize_axis("stack", axis, arrays[0].ndim + 1)
    return np.stack(arrays, place), (place,)


def stack_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return tuple(np.take(dy, n, saved[0]).copy() if need else None for n, need in enumerate(needs))


def stack_forward(out: Spec, *arrays: Array, axis: int = 0) -> tuple[Array, Saved]:
    place = normalize_axis("stack", axis, arrays[0].ndim + 1)
    return _joined("stack", [_with_unit(x, place) for x in arrays], place, out), (place,)


def _with_unit(x: Array, axis: int) -> Array:
    return x.reshape(*x.shape[:axis], 1, *x.shape[axis:])


def stack_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    place = saved[0]
    shape = (*dy.shape[:place], 1, *dy.shape[place + 1 :])
    slices = _parted("stack", dy, place, [shape] * len(needs), needs)
    return tuple(None if dx is None else dx.reshape(*shape[:place], *shape[place + 1 :]) for dx in slices)


stack = Op(
    "stack",
    stack_spec,
    stack_host_forward,
    stack_forward,
    stack_host_backward,
    stack_backward,
    promotion="common",
)


def _repetitions(shape: Shape, repetitions: int | Sequence[int]) -> tuple[Shape, Shape]:
    """The shape with leading ones, and a count for each of its dimensions."""
    given = repetitions if isinstance(repetitions, Sequence) else (repetitions,)
    counts = tuple(operator.index(count) for count in given)
    if any(count < 0 for count in counts):
        raise ShapeError(f"tile: repetitions are not negative, as in {counts}")
    rank = max(len(shape), len(counts))
    return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(counts)) + counts


def tile_spec(x: HasSpec, repetitions: int | Sequence[int]) -> Spec:
    """x laid side by side ``repetitions`` times along each axis, the last ones if they are fewer, new ones if more.

    dx = dy summed over the copies.
    """
    shape, counts = _repetitions(x.shape, repetitions)
    return Spec(tuple(extent * count for extent, count in zip(shape, counts, strict=True)), x.dtype)


def tile_host_forward(x: HostArray, repetitions: int | Sequence[int]) -> tuple[HostArray, Saved]:
    return np.tile(x, repetitions).copy(), (x.shape, *_repetitions(x.shape, repetitions))


def _interleaved(one: Shape, other: Shape) -> Shape:
    return tuple(number for pair in zip(one, other, strict=True) for number in pair)


def tile_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    own, shape, counts = saved
    pairs = dy.reshape(_interleaved(counts, shape)).astype(np.float64)
    return (pairs.sum(axis=tuple(range(0, pairs.ndim, 2))).reshape(own).astype(dy.dtype),)


def tile_forward(out: Spec, x: Array, repetitions: int | Sequence[int]) -> tuple[Array, Saved]:
    shape, counts = _repetitions(x.shape, repetitions)
    strides = _interleaved((0,) * len(shape), contiguous_strides(shape))
    y = gather("tile", x, _interleaved(counts, shape), strides)
    return y.reshape(out.shape), (x.shape, shape, counts)


def tile_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    own, shape, counts = saved
    if size_of(counts) == 1:
        return (dy.reshape(own),)
    pairs = dy.reshape(_interleaved(counts, shape))
    return (reduce_axes("tile", "sum", pairs, tuple(range(0, pairs.ndim, 2)), own),)


tile = Op("tile", tile_spec, tile_host_forward, tile_forward, tile_host_backward, tile_backward)


def repeat_spec(x: HasSpec, repeats: int, axis: int | None = None) -> Spec:
    """Each element ``repeats`` times in a row along ``axis``, or of x flattened; dx = dy summed over them."""
    if operator.index(repeats) < 0:
        raise ShapeError(f"repeat: repeats are not negative, as {repeats}")
    if axis is None:
        return Spec((size_of(x.shape) * repeats,), x.dtype)
    place = normalize_axis("repeat", axis, len(x.shape))
    return Spec((*x.shape[:place], x.shape[place] * repeats, *x.shape[place + 1 :]), x.dtype)


def _lines(shape: Shape, axis: int | None) -> tuple[int, int]:
    """How many elements are repeated one by one, and how many lie within each."""
    if axis is None:
        return size_of(shape), 1
    place = normalize_axis("repeat", axis, len(shape))
    return size_of(shape[: place + 1]), size_of(shape[place + 1 :])


def repeat_host_forward(x: HostArray, repeats: int, axis: int | None = None) -> tuple[HostArray, Saved]:
    return np.repeat(x, repeats, axis), (x.shape, repeats, axis)


def repeat_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, repeats, axis = saved
    lines, inner = _lines(shape, axis)
    return (dy.reshape(lines, repeats, inner).astype(np.float64).sum(axis=1).reshape(shape).astype(dy.dtype),)


def repeat_forward(out: Spec, x: Array, repeats: int, axis: int | None = None) -> tuple[Array, Saved]:
    lines, inner = _lines(x.shape, axis)
    y = gather("repeat", x, (lines, repeats, inner), (inner, 0, 1))
    return y.reshape(out.shape), (x.shape, repeats, axis)


def repeat_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shape, repeats, axis = saved
    lines, inner = _lines(shape, axis)
    return (reduce_axes("repeat", "sum", dy.reshape(lines, repeats, inner), (1,), shape),)


repeat = Op("repeat", repeat_spec, repeat_host_forward, repeat_forward, repeat_host_backward, repeat_backward)
