"""Ops that norm a row: softmax, log_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array, allocate
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, contiguous_strides, float32, normalize_axis
from .broadcast import gather, label

__all__ = ["log_softmax", "softmax"]


def _axis_last(x: Array, axis: int) -> Array:
    """``x`` with ``axis`` swapped to the end; itself if it is there."""
    if axis == x.ndim - 1:
        return x
    strides, order = contiguous_strides(x.shape), _swap(x.ndim, axis)
    return gather("swapaxes", x, tuple(x.shape[a] for a in order), tuple(strides[a] for a in order))


def _swap(rank: int, axis: int) -> Shape:
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return tuple(order)


def _record_rows(name: str, entry: str, axis: int, made: str, **operands: Array) -> Array:
    """Record an entry point of softmax.wgsl over the rows along ``axis``; ``made`` names its result."""
    rows = {key: _axis_last(x, axis) for key, x in operands.items()}
    first = next(iter(rows.values()))
    y = allocate(first.shape, float32, first.device, name)
    cols = first.shape[-1]
    count = first.size // cols if cols else 0
    kernel = first.device.kernel("softmax", entry, label=label(name, entry, float32))
    arguments: dict[str, Any] = {made: y, "rows": count, "cols": cols, **rows}
    first.device.recorder.record(kernel, count, **arguments)
    return _axis_last(y, axis)


def _spec(name: str, x: HasSpec, axis: int) -> Spec:
    require_float(name, x)
    normalize_axis(name, axis, len(x.shape))
    return Spec(x.shape, float32)


def softmax_spec(x: HasSpec, axis: int = -1) -> Spec:
    """y = exp(x - m) / sum exp(x - m) along ``axis``, m = max x; dx = y (dy - sum(dy y)).

    A slice of -inf alone has no distribution and gives NaN, as in PyTorch.
    """
    return _spec("softmax", x, axis)


def softmax_host_forward(x: HostArray, axis: int = -1) -> tuple[HostArray, Saved]:
    if not x.size:
        return x.copy(), (x, normalize_axis("softmax", axis, x.ndim))
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    y = shifted / shifted.sum(axis=axis, keepdims=True)
    return y, (y, normalize_axis("softmax", axis, x.ndim))


def softmax_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    y, axis = saved
    return (y * (dy - (dy * y).sum(axis=axis, keepdims=True)),)


def softmax_forward(out: Spec, x: Array, axis: int = -1) -> tuple[Array, Saved]:
    place = normalize_axis("softmax", axis, x.ndim)
    y = _record_rows("softmax", "forward", place, "y", x=x)
    return y, (y, place)


def softmax_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    y, axis = saved
    return (_record_rows("softmax", "backward", axis, "dx", dy=dy, saved_y=y),)


softmax = Op("softmax", softmax_spec, softmax_host_forward, softmax_forward, softmax_host_backward, softmax_backward)


def log_softmax_spec(x: HasSpec, axis: int = -1) -> Spec:
    """y = x - m - log sum exp(x - m) along ``axis``, m = max x; dx = dy - exp(y) sum(dy)."""
    return _spec("log_softmax", x, axis)


def log_softmax_host_forward(x: HostArray, axis: int = -1) -> tuple[HostArray, Saved]:
    if not x.size:
        return x.copy(), (x, normalize_axis("log_softmax", axis, x.ndim))
    shifted = x - x.max(axis=axis, keepdims=True)
    y = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return y, (y, normalize_axis("log_softmax", axis, x.ndim))


def log_softmax_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    y, axis = saved
    return (dy - np.exp(y) * dy.sum(axis=axis, keepdims=True),)


def log_softmax_forward(out: Spec, x: Array, axis: int = -1) -> tuple[Array, Saved]:
    place = normalize_axis("log_softmax", axis, x.ndim)
    y = _record_rows("log_softmax", "log_forward", place, "y", x=x)
    return y, (y, place)


def log_softmax_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    y, axis = saved
    return (_record_rows("log_softmax", "log_backward", axis, "dx", dy=dy, saved_y=y),)


log_softmax = Op(
    "log_softmax",
    log_softmax_spec,
    log_softmax_host_forward,
    log_softmax_forward,
    log_softmax_host_backward,
    log_softmax_backward,
)
