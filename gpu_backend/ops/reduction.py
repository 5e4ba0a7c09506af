"""Reductions over axes: sum, mean, max, min, any, all, count_nonzero; and sum_to, the backward of broadcasting."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..cast import cast
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import (
    Axis,
    DType,
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

__all__ = ["all", "amax", "amin", "any", "count_nonzero", "max", "mean", "min", "sum"]

Lines = tuple[int, int, int]

SHORT_AXIS = 128
COLUMN_CHUNK = 256
ROW_CHUNK = 2048

_COMBINE = {
    "sum": "a + b",
    "product": "a * b",
    "max": "max(a, b)",
    "min": "min(a, b)",
    "any": "a | b",
    "all": "a & b",
}
_START = {
    "sum": ("0.0", "0", "0u"),
    "product": ("1.0", "1", "1u"),
    "max": ("-infinity()", "-2147483648", "0u"),
    "min": ("infinity()", "2147483647", "4294967295u"),
    "any": ("", "", "0u"),
    "all": ("", "", "1u"),
}
_KEEPS_NAN = {"max": "larger(a, b)", "min": "smaller(a, b)"}


@lru_cache(maxsize=64)
def monoid(kind: str, elem: str) -> str:
    """``elem``, ``combine`` and ``start`` for a prelude: what reductions and scans put together, and its neutral one.

    ``kind`` is "sum", "product", "max", "min", or, of the words of bools, "any" or "all".
    """
    combine = _KEEPS_NAN.get(kind, _COMBINE[kind]) if elem == "f32" else _COMBINE[kind]
    return (
        f"alias elem = {elem};\n"
        f"fn combine(a: elem, b: elem) -> elem {{ return {combine}; }}\n"
        f"fn start() -> elem {{ return {_START[kind][('f32', 'i32', 'u32').index(elem)]}; }}\n"
    )


@lru_cache(maxsize=64)
def _prelude(kind: str, elem: str, divided: bool) -> str:
    return f"{monoid(kind, elem)}fn finish(v: elem) -> elem {{ return {'v / params.divisor' if divided else 'v'}; }}\n"


@lru_cache(maxsize=4096)
def _middle(shape: Shape, axes: Shape) -> Lines | None:
    """(outer, length, inner) where the reduced axes lie side by side, unit axes left aside; None where they do not."""
    kept = [axis for axis, extent in enumerate(shape) if extent != 1]
    places = [place for place, axis in enumerate(kept) if axis in axes]
    if places and places != list(range(places[0], places[-1] + 1)):
        return None
    extents = [shape[axis] for axis in kept]
    first, last = (places[0], places[-1] + 1) if places else (len(extents), len(extents))
    return size_of(tuple(extents[:first])), size_of(tuple(extents[first:last])), size_of(tuple(extents[last:]))


def as_lines(name: str, x: Array, axes: Shape) -> tuple[Array, Lines, Shape | None]:
    """``x``, its (outer, length, inner) with ``axes`` as the middle, and the order of its dimensions if it was copied
    so that they lie side by side.
    """
    lines = _middle(x.shape, axes)
    if lines is not None:
        return x, lines, None
    order = tuple(axis for axis in range(x.ndim) if axis not in axes) + axes
    strides = contiguous_strides(x.shape)
    shape = tuple(x.shape[axis] for axis in order)
    moved = gather(name, x, shape, tuple(strides[axis] for axis in order))
    kept = x.ndim - len(axes)
    return moved, (size_of(shape[:kept]), size_of(shape[kept:]), 1), order


def reduce_chunks(
    name: str, kind: str, x: Array, lines: Lines, entry: str, chunk: int, out: Shape, divisor: float | None = None
) -> Array:
    """Each chunk of the middle of ``lines`` reduced to one element, by ``entry`` of reduction.wgsl."""
    outer, length, inner = lines
    chunks = -(-length // chunk) or 1
    prelude = _prelude(kind, x.dtype.wgsl, divisor is not None)
    kernel = x.device.kernel("reduction", entry, prelude, (), label(name, entry, x.dtype))
    count = outer * chunks * inner
    y = allocate(out, x.dtype, x.device, name)
    x.device.recorder.record(
        kernel,
        count if entry == "rows" else -(-count // kernel.invocations),
        x=x,
        y=y,
        count=count,
        length=length,
        inner=inner,
        chunk=chunk,
        chunks=chunks,
        divisor=1.0 if divisor is None else divisor,
    )
    return y


def reduce_axes(name: str, kind: str, x: Array, axes: Shape, out: Shape, divisor: float | None = None) -> Array:
    """``x`` reduced over ``axes`` by a ``kind`` of ``monoid`` into shape ``out``, and divided by ``divisor``."""
    x, (outer, length, inner), _ = as_lines(name, x, axes)
    while True:
        entry = "rows" if inner == 1 and length > SHORT_AXIS else "columns"
        chunk = ROW_CHUNK if entry == "rows" else COLUMN_CHUNK
        chunks = -(-length // chunk)
        if chunks <= 1:
            return reduce_chunks(name, kind, x, (outer, length, inner), entry, chunk, out, divisor)
        x = reduce_chunks(name, kind, x, (outer, length, inner), entry, chunk, (outer * chunks * inner,))
        length = chunks


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


def _extreme(name: str, kind: str) -> Op:
    """The largest or smallest element, by ``kind``."""
    word, choose = ("largest", np.max) if kind == "max" else ("smallest", np.min)

    def spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
        axes = normalize_axes(name, axis, len(x.shape))
        if x.dtype is bool_:
            raise DtypeError(f"{name}: takes numbers, not bool; convert with astype")
        shape = reduced_shape(x.shape, axes, keepdims)
        if size_of(shape) and not size_of(x.shape):
            raise ShapeError(f"{name}: nothing to choose from in axes {axes} of shape {x.shape}")
        return Spec(shape, x.dtype)

    spec.__doc__ = f"""y = the {word} x over ``axis``, NaN if there is one; dx = dy shared equally by what reaches it.

    The convention for ties is that of PyTorch's amax. ShapeError over nothing.
    """

    def host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
        axes = normalize_axes(name, axis, x.ndim)
        if not x.size:
            return np.empty(reduced_shape(x.shape, axes, keepdims), x.dtype), (x, x, axes)
        y = np.array(choose(x, axis=axes, keepdims=keepdims))
        return y, (x, y, axes)

    def forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
        axes = normalize_axes(name, axis, x.ndim)
        y = reduce_axes(name, kind, x, axes, out.shape)
        return y, (x, y, axes)

    return Op(name, spec, host_forward, forward, extreme_host_backward, extreme_backward)


def extreme_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, y, axes = saved
    kept = reduced_shape(x.shape, axes, keepdims=True)
    extreme = y.reshape(kept)
    ties = ((x == extreme) | (np.isnan(x) & np.isnan(extreme))).astype(x.dtype)
    return (ties * (dy.reshape(kept) / ties.sum(axis=axes, keepdims=True)),)


def extreme_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, y, axes = saved
    kept = Spec(reduced_shape(x.shape, axes, keepdims=True), float32)
    whole = Spec(x.shape, float32)
    ties = record_pair("tie", "forward", whole, x, y.reshape(kept.shape))
    count = reduce_axes("tie", "sum", ties, axes, kept.shape)
    share = record_pair("divide", "forward", kept, dy.reshape(kept.shape), count)
    return (record_pair("multiply", "forward", whole, ties, share),)


max = _extreme("max", "max")
min = _extreme("min", "min")
amax = _extreme("amax", "max")
amin = _extreme("amin", "min")


def _quantifier(name: str, formula: str, function: Any, dtype: DType) -> Op:
    """What is said of truths: of what is not 0, NaN too."""

    def spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
        return Spec(reduced_shape(x.shape, normalize_axes(name, axis, len(x.shape)), keepdims), dtype)

    spec.__doc__ = f"{formula} What is not 0 is true, NaN too; any element type, no gradient."

    def host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
        axes = normalize_axes(name, axis, x.ndim)
        return np.array(function(x != 0, axis=axes, keepdims=keepdims), dtype.numpy), ()

    def forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
        axes = normalize_axes(name, axis, x.ndim)
        truths = cast(x, bool_)
        kind = "sum" if dtype is int32 else name
        return reduce_axes(name, kind, Array(truths.storage, x.shape, dtype, x.device), axes, out.shape), ()

    return Op(name, spec, host_forward, forward)


any = _quantifier("any", "y = whether any x over ``axis`` is true, as bool; false over nothing.", np.any, bool_)
all = _quantifier("all", "y = whether all x over ``axis`` are true, as bool; true over nothing.", np.all, bool_)
count_nonzero = _quantifier("count_nonzero", "y = how many x over ``axis`` are true, as int32.", np.sum, int32)
