"""Scans along an axis: cumsum, cumprod; and prod, whose gradient is made of scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array, allocate
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import (
    Axis,
    DType,
    HasSpec,
    Shape,
    Spec,
    bool_,
    contiguous_strides,
    float32,
    int32,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    size_of,
)
from .broadcast import gather, label, record_pair
from .reduction import Lines, as_lines, monoid, reduce_axes, reduce_chunks

__all__ = ["cumprod", "cumsum", "prod"]

ROW_CHUNK = 960  # that of scan.wgsl
COLUMN_CHUNK = 16


def scan(name: str, kind: str, x: Array, lines: Lines, is_reversed: bool = False, is_exclusive: bool = False) -> Array:
    """The scan of ``x`` along the middle of ``lines``, (outer, length, inner), by a ``kind`` of ``monoid``."""
    outer, length, inner = lines
    entry = "rows" if inner == 1 and length > COLUMN_CHUNK else "columns"
    chunk = ROW_CHUNK if entry == "rows" else COLUMN_CHUNK
    chunks = -(-length // chunk)
    count = outer * chunks * inner
    carry = x
    if chunks > 1:
        carry = reduce_chunks(name, kind, x, lines, entry, chunk, (count,))
        carry = scan(name, kind, carry, (outer, chunks, inner), is_reversed, is_exclusive=True)
    y = allocate(x.shape, x.dtype, x.device, name)
    kernel = x.device.kernel("scan", entry, monoid(kind, x.dtype.wgsl), (), label(name, entry, x.dtype))
    x.device.recorder.record(
        kernel,
        count if entry == "rows" else -(-count // kernel.invocations),
        x=x,
        carry=carry,
        y=y,
        count=count,
        length=length,
        inner=inner,
        chunk=chunk,
        chunks=chunks,
        exclusive=is_exclusive,
        reversed=is_reversed,
    )
    return y


def _lines(shape: Shape, axis: int | None) -> Lines:
    """(outer, length, inner) with ``axis`` as the middle; None for all elements in a row."""
    if axis is None:
        return 1, size_of(shape), 1
    return size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1 :])


def _place(name: str, axis: int | None, shape: Shape) -> int | None:
    return None if axis is None else normalize_axis(name, axis, len(shape))


def _counted(x: Array) -> Array:
    """``x``, of bools as int32."""
    return Array(x.storage, x.shape, int32, x.device) if x.dtype is bool_ else x


def _whole(dtype: DType) -> DType:
    return int32 if dtype is bool_ else dtype


def _scan_spec(name: str, x: HasSpec, axis: int | None) -> Spec:
    place = _place(name, axis, x.shape)
    return Spec((size_of(x.shape),) if place is None else x.shape, _whole(x.dtype))


def _accumulated(function: Any, x: HostArray, axis: Any, **options: Any) -> HostArray:
    """A numpy sum or product in the type of x, bool as int32; floats by way of float64."""
    kind = np.dtype(np.int32) if x.dtype == np.bool_ else x.dtype
    made = function(x, axis=axis, dtype=np.float64 if kind.kind == "f" else kind, **options)
    return np.array(made, kind)


def cumsum_spec(x: HasSpec, axis: int | None = None) -> Spec:
    """y_i = the sum of x_k for k <= i along ``axis``; dx_k = the sum of dy_i for i >= k.

    Without an axis, of all elements in row-major order, as a vector. bool is counted as int32; integers wrap around.
    """
    return _scan_spec("cumsum", x, axis)


def cumsum_host_forward(x: HostArray, axis: int | None = None) -> tuple[HostArray, Saved]:
    return _accumulated(np.cumsum, x, axis), (x.shape, _place("cumsum", axis, x.shape))


def cumsum_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, axis = saved
    place = axis or 0
    return (np.flip(_accumulated(np.cumsum, np.flip(dy, place), place), place).reshape(shape).copy(),)


def cumsum_forward(out: Spec, x: Array, axis: int | None = None) -> tuple[Array, Saved]:
    place = _place("cumsum", axis, x.shape)
    y = scan("cumsum", "sum", _counted(x), _lines(x.shape, place))
    return y.reshape(out.shape), (x.shape, place)


def cumsum_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shape, axis = saved
    return (scan("cumsum", "sum", dy, _lines(shape, axis), is_reversed=True).reshape(shape),)


cumsum = Op("cumsum", cumsum_spec, cumsum_host_forward, cumsum_forward, cumsum_host_backward, cumsum_backward)


def cumprod_spec(x: HasSpec, axis: int | None = None) -> Spec:
    """y_i = the product of x_k for k <= i along ``axis``; dx_k = h_k y_(k-1), h_k = dy_k + x_(k+1) h_(k+1).

    h is the gradient of y_k with all that follows from it: no division, so zeros do no harm. Without an axis, of all
    elements in row-major order, as a vector. bool is taken for int32; integers wrap around. Floats are multiplied in
    parts, which may overflow where the whole does not.
    """
    return _scan_spec("cumprod", x, axis)


def cumprod_host_forward(x: HostArray, axis: int | None = None) -> tuple[HostArray, Saved]:
    y = _accumulated(np.cumprod, x, axis)
    return y, (x, y, _place("cumprod", axis, x.shape))


def cumprod_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, y, axis = saved
    a, b, dx = (np.moveaxis(v.reshape(y.shape), axis or 0, 0).astype(np.float64) for v in (x, dy, x))
    before = np.moveaxis(y, axis or 0, 0)
    for k in range(len(a) - 1, -1, -1):
        if k + 1 < len(a):
            b[k] += a[k + 1] * b[k + 1]
        dx[k] = b[k] * before[k - 1] if k else b[k]
    return (np.moveaxis(dx, 0, axis or 0).reshape(x.shape).astype(dy.dtype),)


def cumprod_forward(out: Spec, x: Array, axis: int | None = None) -> tuple[Array, Saved]:
    place = _place("cumprod", axis, x.shape)
    y = scan("cumprod", "product", _counted(x), _lines(x.shape, place)).reshape(out.shape)
    return y, (x, y, place)


def cumprod_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, y, axis = saved
    return (_solve("cumprod", x, dy, _lines(x.shape, axis), y).reshape(x.shape),)


def _solve(name: str, a: Array, b: Array, lines: Lines, weight: Array | None) -> Array:
    """The recurrence of recurrence.wgsl; with a ``weight`` its last round, whose ``a`` is shifted by one."""
    outer, length, inner = lines
    chunks = -(-length // COLUMN_CHUNK)
    count = outer * chunks * inner
    recorder = b.device.recorder
    params = {
        "count": count,
        "length": length,
        "inner": inner,
        "chunk": COLUMN_CHUNK,
        "chunks": chunks,
        "shift": weight is not None,
        "weighted": weight is not None,
    }
    carry = b
    if chunks > 1:
        a_parts, b_parts = (allocate((count,), float32, b.device, name) for _ in range(2))
        kernel = b.device.kernel("recurrence", "parts", label=label(name, "parts", float32))
        recorder.record_over(kernel, count, a=a, b=b, a_parts=a_parts, b_parts=b_parts, **params)
        carry = _solve(name, a_parts, b_parts, (outer, chunks, inner), None)
    h = allocate(b.shape, float32, b.device, name)
    kernel = b.device.kernel("recurrence", "solve", label=label(name, "solve", float32))
    recorder.record_over(kernel, count, a=a, b=b, carry=carry, weight=b if weight is None else weight, h=h, **params)
    return h


cumprod = Op("cumprod", cumprod_spec, cumprod_host_forward, cumprod_forward, cumprod_host_backward, cumprod_backward)


def prod_spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = the product of x over ``axis`` (one, several, or None for all); dx = dy times the product of the others.

    That is the product of those before and of those after, without a division, so zeros do no harm. bool is taken for
    int32; integers wrap around. 1 over nothing. Floats are multiplied in parts, which may overflow where the whole does
    not.
    """
    axes = normalize_axes("prod", axis, len(x.shape))
    return Spec(reduced_shape(x.shape, axes, keepdims), _whole(x.dtype))


def prod_host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
    axes = normalize_axes("prod", axis, x.ndim)
    return _accumulated(np.prod, x, axes, keepdims=keepdims), (x, axes)


def prod_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, axes = saved
    order = _order(x.ndim, axes)
    moved = x.transpose(order)
    lines = moved.reshape(dy.size, size_of(moved.shape[x.ndim - len(axes) :])).astype(np.float64)
    before, after = np.ones_like(lines), np.ones_like(lines)
    before[:, 1:] = np.cumprod(lines, axis=1)[:, :-1]
    after[:, :-1] = np.cumprod(lines[:, ::-1], axis=1)[:, -2::-1]
    others = (before * after).reshape(moved.shape).transpose(np.argsort(order))
    return (np.asarray(others * dy.reshape(reduced_shape(x.shape, axes, keepdims=True)), dy.dtype),)


def _order(rank: int, axes: Shape) -> Shape:
    """The dimensions with ``axes`` last."""
    return tuple(axis for axis in range(rank) if axis not in axes) + axes


def prod_forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes = normalize_axes("prod", axis, x.ndim)
    return reduce_axes("prod", "product", _counted(x), axes, out.shape), (x, axes)


def prod_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, axes = saved
    moved, lines, order = as_lines("prod", x, axes)
    before, after = (
        scan("prod", "product", moved, lines, is_reversed=side, is_exclusive=True) for side in (False, True)
    )
    others = record_pair("multiply", "forward", Spec(moved.shape, float32), before, after)
    if order is not None:
        strides = contiguous_strides(moved.shape)
        others = gather("prod", others, x.shape, tuple(strides[order.index(axis)] for axis in range(x.ndim)))
    kept = reduced_shape(x.shape, axes, keepdims=True)
    return (record_pair("multiply", "forward", Spec(x.shape, float32), others, dy.reshape(kept)),)


prod = Op("prod", prod_spec, prod_host_forward, prod_forward, prod_host_backward, prod_backward)
