"""pad: more elements around an array, constant, mirrored or replicated."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import HasSpec, Scalar, Shape, Spec, as_scalar, contiguous_strides, float32, size_of
from .broadcast import label
from .creation import full
from .region import Region, dense, move

__all__ = ["pad"]

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}  # and what numpy calls them
Widths = Sequence[Sequence[int]]


def _widths(shape: Shape, pad_width: Any, mode: str) -> tuple[tuple[int, int], ...]:
    """Before and after for each axis; checked."""
    if mode not in MODES:
        raise ValueError(f"pad: no mode {mode!r}; there are {', '.join(MODES)}")
    if isinstance(pad_width, int | np.integer):
        pad_width = ((pad_width, pad_width),) * len(shape)
    if len(pad_width) == 2 and all(isinstance(n, int | np.integer) for n in pad_width):
        pad_width = (pad_width,)
    pairs = [tuple(pair) for pair in pad_width]
    if len(pairs) == 1 and len(shape) > 1:
        pairs *= len(shape)
    if len(pairs) != len(shape) or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(f"pad: {pad_width} is not a pair (before, after) for each dimension of shape {shape}")
    found = tuple((operator.index(before), operator.index(after)) for before, after in pairs)
    for axis, (pair, extent) in enumerate(zip(found, shape, strict=True)):
        if min(pair) < 0:
            raise ShapeError(f"pad: a width is not negative, as {pair} of axis {axis}; slices make an array smaller")
        if mode == "reflect" and max(pair) >= max(extent, 1):
            raise ShapeError(f"pad: reflect by {pair} needs more than the {extent} elements of axis {axis}")
        if mode == "replicate" and max(pair) and not extent:
            raise ShapeError(f"pad: there is nothing to replicate in axis {axis} of shape {shape}")
    return found


def _grown(shape: Shape, widths: tuple[tuple[int, int], ...]) -> Shape:
    return tuple(before + extent + after for extent, (before, after) in zip(shape, widths, strict=True))


def pad_spec(x: HasSpec, pad_width: int | Widths, mode: str = "constant", value: Scalar = 0.0) -> Spec:
    """x with ``pad_width`` elements around it: a pair (before, after) for each axis, one pair or number for all.

    ``mode`` "constant" puts ``value`` there, "reflect" the mirror image without the edge, "replicate" the nearest
    element. dx = the sum of dy at every place that shows the element. ShapeError for a reflection past the extent.
    """
    widths = _widths(x.shape, pad_width, mode)
    if mode == "constant":
        as_scalar("pad", value, x.dtype)
    return Spec(_grown(x.shape, widths), x.dtype)


def pad_host_forward(
    x: HostArray, pad_width: Any, mode: str = "constant", value: Scalar = 0.0
) -> tuple[HostArray, Saved]:
    widths = _widths(x.shape, pad_width, mode)
    if not widths:  # numpy wants one
        return x.copy(), (x.shape, widths, mode)
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, widths, MODES[mode], **options), (x.shape, widths, mode)  # type: ignore[call-overload]


def pad_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, widths, mode = saved
    dx = dy
    for axis, (before, after) in enumerate(widths):
        moved = np.moveaxis(dx, axis, 0)
        inner = moved[before : before + shape[axis]].copy()
        if mode == "reflect":
            inner[1 : before + 1] += moved[:before][::-1]
            inner[shape[axis] - 1 - after : shape[axis] - 1] += moved[before + shape[axis] :][::-1]
        elif mode == "replicate" and shape[axis]:
            inner[0] += moved[:before].sum(axis=0)
            inner[-1] += moved[before + shape[axis] :].sum(axis=0)
        dx = np.moveaxis(inner, 0, axis)
    return (np.array(dx, dy.dtype, order="C"),)


def pad_forward(
    out: Spec, x: Array, pad_width: Any, mode: str = "constant", value: Scalar = 0.0
) -> tuple[Array, Saved]:
    widths = _widths(x.shape, pad_width, mode)
    if mode == "constant":
        y = full(out.shape, as_scalar("pad", value, x.dtype), x.dtype, x.device)
        move("pad", x.shape, x, dense(x.shape), y, _inside(out.shape, widths))
    else:
        y = x
        for axis, (before, after) in enumerate(widths):
            if before or after:
                shape = (*y.shape[:axis], before + x.shape[axis] + after, *y.shape[axis + 1 :])
                made = allocate(shape, x.dtype, x.device, "pad")
                _record_axis("forward", mode, axis, widths[axis], x.shape[axis], made, x=y, y=made)
                y = made
        if y is x:
            y = allocate(x.shape, x.dtype, x.device, "pad")
            move("pad", x.shape, x, dense(x.shape), y, dense(x.shape))
    return y, (x.shape, widths, mode)


def _inside(shape: Shape, widths: tuple[tuple[int, int], ...]) -> Region:
    """Where the elements of x lie in an array of the padded ``shape``."""
    strides = contiguous_strides(shape)
    return Region(sum(before * step for (before, _), step in zip(widths, strides, strict=True)), strides)


def _record_axis(
    entry: str, mode: str, axis: int, width: tuple[int, int], length: int, made: Array, **arrays: Array
) -> None:
    kernel = made.device.kernel("pad", entry, "", (("reflects", mode == "reflect"),), label("pad", entry, made.dtype))
    made.device.recorder.record_over(
        kernel,
        made.size,
        size=made.size,
        length=length,
        inner=size_of(made.shape[axis + 1 :]),
        before=width[0],
        after=width[1],
        **arrays,
    )


def pad_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shape, widths, mode = saved
    if mode == "constant":
        dx = allocate(shape, float32, dy.device, "pad")
        move("pad", shape, dy, _inside(dy.shape, widths), dx, dense(shape))
        return (dx,)
    dx = dy
    for axis in reversed(range(len(shape))):
        if widths[axis] != (0, 0):
            made = allocate((*dx.shape[:axis], shape[axis], *dx.shape[axis + 1 :]), float32, dy.device, "pad")
            _record_axis("backward", mode, axis, widths[axis], shape[axis], made, dy=dx, dx=made)
            dx = made
    return (dx,)


pad = Op("pad", pad_spec, pad_host_forward, pad_forward, pad_host_backward, pad_backward)
