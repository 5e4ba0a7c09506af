"""Reductions over axes: sum, mean, max; and sum_to, the backward of broadcasting."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import (
    Axis,
    HasSpec,
    Shape,
    Spec,
    bool_,
    broadcast_strides,
    contiguous_strides,
    float32,
    int32,
    normalize_axes,
    reduced_shape,
    size_of,
)
from .broadcast import gather, label, record_pair

__all__ = ["max", "mean", "sum"]

SHORT_AXIS = 128
COLUMN_CHUNK = 256
CHUNK_PER_INVOCATION = 32

_COMBINE = {"sum": "a + b", "max": "max(a, b)"}
_START = {
    ("sum", "f32"): "0.0",
    ("sum", "i32"): "0",
    ("sum", "u32"): "0u",
    ("max", "f32"): "-infinity()",
    ("max", "i32"): "-2147483648",
    ("max", "u32"): "0u",
}


@lru_cache(maxsize=64)
def _prelude(kind: str, elem: str, divided: bool) -> str:
    combine = "larger(a, b)" if (kind, elem) == ("max", "f32") else _COMBINE[kind]
    finish = "v / params.divisor" if divided else "v"
    return (
        f"alias elem = {elem};\n"
        f"fn combine(a: elem, b: elem) -> elem {{ return {combine}; }}\n"
        f"fn start() -> elem {{ return {_START[kind, elem]}; }}\n"
        f"fn finish(v: elem) -> elem {{ return {finish}; }}\n"
    )


@lru_cache(maxsize=4096)
def _middle(shape: Shape, axes: Shape) -> tuple[int, int, int] | None:
    """(outer, length, inner) where the reduced axes lie side by side, unit axes left aside; None where they do not."""
    kept = [axis for axis, extent in enumerate(shape) if extent != 1]
    places = [place for place, axis in enumerate(kept) if axis in axes]
    if places and places != list(range(places[0], places[-1] + 1)):
        return None
    extents = [shape[axis] for axis in kept]
    first, last = (places[0], places[-1] + 1) if places else (len(extents), len(extents))
    return size_of(tuple(extents[:first])), size_of(tuple(extents[first:last])), size_of(tuple(extents[last:]))


def reduce_axes(name: str, kind: str, x: Array, axes: Shape, out: Shape, divisor: int | None = None) -> Array:
    """``x`` reduced over ``axes`` by ``kind``, "sum" or "max", into shape ``out``, and divided by ``divisor``."""
    middle = _middle(x.shape, axes)
    if middle is None:
        order = tuple(axis for axis in range(x.ndim) if axis not in axes) + axes
        strides = contiguous_strides(x.shape)
        shape = tuple(x.shape[axis] for axis in order)
        x = gather(name, x, shape, tuple(strides[axis] for axis in order))
        middle = size_of(shape[: x.ndim - len(axes)]), size_of(shape[x.ndim - len(axes) :]), 1
    outer, length, inner = middle
    while True:
        entry = "rows" if inner == 1 and length > SHORT_AXIS else "columns"
        called = label(name, entry, x.dtype)
        plain = x.device.kernel("reduction", entry, _prelude(kind, x.dtype.wgsl, False), (), called)
        chunk = plain.invocations * CHUNK_PER_INVOCATION if entry == "rows" else COLUMN_CHUNK
        chunks = -(-length // chunk) or 1
        kernel = plain
        if chunks == 1 and divisor is not None:
            kernel = x.device.kernel("reduction", entry, _prelude(kind, x.dtype.wgsl, True), (), called)
        count = outer * chunks * inner
        y = allocate(out if chunks == 1 else (count,), x.dtype, x.device, name)
        groups = count if entry == "rows" else -(-count // kernel.invocations)
        x.device.recorder.record(
            kernel,
            groups,
            x=x,
            y=y,
            count=count,
            length=length,
            inner=inner,
            chunk=chunk,
            chunks=chunks,
            divisor=1.0 if divisor is None else divisor,
        )
        if chunks == 1:
            return y
        x, length = y, chunks


def sum_to(dy: Array, shape: Shape | None) -> Array:
    """``dy`` summed over the dimensions that broadcasting added to or stretched in an array of ``shape``."""
    if shape is None or dy.shape == shape:
        return dy
    return reduce_axes("sum_to", "sum", dy, _broadcast_axes(shape, dy.shape), shape)


def sum_to_host(dy: HostArray, shape: Shape | None) -> HostArray:
    """The twin of ``sum_to``."""
    if shape is None or dy.shape == shape:
        return dy
    return _total(dy, _broadcast_axes(shape, dy.shape), keepdims=True).reshape(shape)


def _total(x: HostArray, axes: Shape, keepdims: bool) -> HostArray:
    """The sum in the type of ``x``; floats are added up in float64, since numpy adds along leading axes naively."""
    kind: np.dtype[np.generic] = np.dtype(np.int32) if x.dtype == np.bool_ else x.dtype
    total = np.sum(x, axis=axes, keepdims=keepdims, dtype=np.float64 if kind.kind == "f" else kind)
    return np.asarray(total, kind)


@lru_cache(maxsize=4096)
def _broadcast_axes(shape: Shape, target: Shape) -> Shape:
    lead = len(target) - len(shape)
    return tuple(axis for axis in range(len(target)) if axis < lead or (shape[axis - lead] == 1 and target[axis] != 1))


def _spread(dy: Array, shape: Shape, axes: Shape) -> Array:
    """``dy`` of a reduction repeated along the reduced axes."""
    kept = reduced_shape(shape, axes, keepdims=True)
    return gather("broadcast_to", dy, shape, broadcast_strides(kept, shape))


def _spread_host(dy: HostArray, shape: Shape, axes: Shape) -> HostArray:
    return np.broadcast_to(dy.reshape(reduced_shape(shape, axes, keepdims=True)), shape).copy()


def sum_spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = the sum of x over ``axis`` (one, several, or None for all); dx = dy repeated along it.

    bool is counted as int32; integers wrap around. 0 over nothing.
    """
    axes = normalize_axes("sum", axis, len(x.shape))
    return Spec(reduced_shape(x.shape, axes, keepdims), int32 if x.dtype is bool_ else x.dtype)


def sum_host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
    axes = normalize_axes("sum", axis, x.ndim)
    return _total(x, axes, keepdims), (x.shape, axes)


def sum_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (_spread_host(dy, *saved),)


def sum_forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes = normalize_axes("sum", axis, x.ndim)
    counted = Array(x.storage, x.shape, int32, x.device) if x.dtype is bool_ else x
    return reduce_axes("sum", "sum", counted, axes, out.shape), (x.shape, axes)


def sum_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (_spread(dy, *saved),)


sum = Op("sum", sum_spec, sum_host_forward, sum_forward, sum_host_backward, sum_backward)


def mean_spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = the sum of x over ``axis`` divided by their number n, float32; dx = dy / n repeated along it.

    NaN over nothing.
    """
    require_float("mean", x)
    return Spec(reduced_shape(x.shape, normalize_axes("mean", axis, len(x.shape)), keepdims), float32)


def mean_host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
    axes = normalize_axes("mean", axis, x.ndim)
    total = _total(x, axes, keepdims)
    return np.asarray(total / total.dtype.type(_count(x.shape, axes))), (x.shape, axes)


def mean_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (_spread_host(np.asarray(dy / dy.dtype.type(_count(*saved))), *saved),)


def mean_forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes = normalize_axes("mean", axis, x.ndim)
    return reduce_axes("mean", "sum", x, axes, out.shape, _count(x.shape, axes)), (x.shape, axes)


def mean_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    share = record_pair("divide", "forward", Spec(dy.shape, dy.dtype), dy, float(_count(*saved)))
    return (_spread(share, *saved),)


mean = Op("mean", mean_spec, mean_host_forward, mean_forward, mean_host_backward, mean_backward)


def _count(shape: Shape, axes: Shape) -> int:
    return size_of(tuple(shape[axis] for axis in axes))


def max_spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = the largest x over ``axis``, NaN if there is one; dx = dy shared equally by the elements that reach it.

    The convention for ties is that of PyTorch's amax. ShapeError over nothing.
    """
    axes = normalize_axes("max", axis, len(x.shape))
    if x.dtype is bool_:
        raise DtypeError("max: takes numbers, not bool; convert with astype")
    shape = reduced_shape(x.shape, axes, keepdims)
    if size_of(shape) and not size_of(x.shape):
        raise ShapeError(f"max: nothing to choose from in axes {axes} of shape {x.shape}")
    return Spec(shape, x.dtype)


def max_host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
    axes = normalize_axes("max", axis, x.ndim)
    if not x.size:
        return np.empty(reduced_shape(x.shape, axes, keepdims), x.dtype), (x, x, axes)
    y = np.asarray(np.max(x, axis=axes, keepdims=keepdims))
    return y, (x, y, axes)


def max_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, y, axes = saved
    kept = reduced_shape(x.shape, axes, keepdims=True)
    largest = y.reshape(kept)
    ties = ((x == largest) | (np.isnan(x) & np.isnan(largest))).astype(x.dtype)
    return (ties * (dy.reshape(kept) / ties.sum(axis=axes, keepdims=True)),)


def max_forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes = normalize_axes("max", axis, x.ndim)
    y = reduce_axes("max", "max", x, axes, out.shape)
    return y, (x, y, axes)


def max_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, y, axes = saved
    kept = Spec(reduced_shape(x.shape, axes, keepdims=True), float32)
    whole = Spec(x.shape, float32)
    ties = record_pair("tie", "forward", whole, x, y.reshape(kept.shape))
    count = reduce_axes("max", "sum", ties, axes, kept.shape)
    share = record_pair("divide", "forward", kept, dy.reshape(kept.shape), count)
    return (record_pair("multiply", "forward", whole, ties, share),)


max = Op("max", max_spec, max_host_forward, max_forward, max_host_backward, max_backward)
