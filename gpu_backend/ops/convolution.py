"""Convolutions: conv1d, conv2d, conv3d, and conv_transpose1d, conv_transpose2d, which are their gradients turned round.

Their numpy twins view the input through the windows of the kernel and multiply matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import Array
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Spec, float32, size_of
from .conv_kernels import add_bias, bias_gradient, convolve, input_gradient, weight_gradient
from .convolution_geometry import (
    Extents,
    Geometry,
    Padding,
    convolution_geometry,
    hashable,
    transposed_geometry,
)

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"]


def host_convolve(g: Geometry, x: HostArray, weight: HostArray) -> HostArray:
    """y: a matrix product for each group of channels."""
    windows = _windows(g, x)
    kernels = weight.reshape(g.groups, g.rows, g.terms * size_of(g.taps))
    y = kernels @ windows  # (N, groups, rows, positions)
    return np.ascontiguousarray(y.reshape(g.made_shape))


def host_weight_gradient(g: Geometry, x: HostArray, dy: HostArray) -> HostArray:
    """dweight: for each group dy times the windows, summed over images."""
    windows = _windows(g, x)
    rows = dy.reshape(g.batch, g.groups, g.rows, size_of(g.made))
    left = np.moveaxis(rows, 0, 2).reshape(g.groups, g.rows, -1)
    right = np.moveaxis(windows, 0, 2).reshape(g.groups, g.terms * size_of(g.taps), -1)
    return np.ascontiguousarray((left @ np.swapaxes(right, 1, 2)).reshape(g.weight_shape))


def host_input_gradient(g: Geometry, dy: HostArray, weight: HostArray) -> HostArray:
    """dx: the convolution of dy, its elements a stride apart, with the kernel turned round and its channels swapped."""
    reach = [spacing * (taps - 1) for spacing, taps in zip(g.dilation, g.taps, strict=True)]
    spread = [(extent - 1) * step + 1 for extent, step in zip(g.made, g.stride, strict=True)]
    apart = np.zeros((g.batch, g.groups * g.rows, *spread), dy.dtype)
    a, b, c = g.stride
    apart[:, :, ::a, ::b, ::c] = dy.reshape(*dy.shape[:2], *g.made)
    kernels = weight.reshape(g.groups, g.rows, g.terms, *g.taps)[..., ::-1, ::-1, ::-1]
    turned = np.swapaxes(kernels, 1, 2).reshape(g.groups * g.terms, g.rows, *g.taps)
    before = tuple(r - pad for r, pad in zip(reach, g.pad, strict=True))
    after = tuple(
        extent - (wide + low - r) for extent, wide, low, r in zip(g.source, spread, before, reach, strict=True)
    )
    back = Geometry(
        3, g.batch, g.groups, g.rows, g.terms, tuple(spread), g.source, g.taps, (1, 1, 1), before, after, g.dilation
    )
    return host_convolve(back, apart, turned).reshape(g.source_shape)


def _windows(g: Geometry, x: HostArray) -> HostArray:
    """What each tap meets at each position: (N, groups, channels times taps, positions)."""
    volume = x.reshape(*x.shape[:2], *g.source)
    sides = list(zip(g.pad, g.pad_after, strict=True))
    for axis, (low, high) in enumerate(sides, 2):  # a negative padding cuts off
        kept = range(max(-low, 0), volume.shape[axis] - max(-high, 0))
        volume = volume if len(kept) == volume.shape[axis] else volume.take(kept, axis)
    padded = np.pad(volume, [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in sides)])
    reach = tuple(spacing * (taps - 1) + 1 for spacing, taps in zip(g.dilation, g.taps, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3, 4))
    (a, b, c), (i, j, k), (d, h, w) = g.stride, g.dilation, g.made
    view = view[:, :, ::a, ::b, ::c, ::i, ::j, ::k][:, :, :d, :h, :w]
    columns = np.moveaxis(view, (2, 3, 4), (5, 6, 7))
    return columns.reshape(g.batch, g.groups, g.terms * size_of(g.taps), size_of(g.made))


def _host_bias(y: HostArray, bias: HostArray | None) -> HostArray:
    return y if bias is None else y + bias.reshape(-1, *(1,) * (y.ndim - 2))


def _host_bias_gradient(dy: HostArray) -> HostArray:
    axes = (0, *range(2, dy.ndim))
    return np.asarray(dy.sum(axis=axes, dtype=np.float64), dy.dtype)


def _check_operands(name: str, x: Any, weight: Any, bias: Any) -> None:
    for what, given in (("input", x), ("weight", weight)):
        if isinstance(given, int | float):
            raise ShapeError(f"{name}: the {what} is an array, not the number {given}")
    require_float(name, x, weight, bias)


def _check_bias(name: str, bias: HasSpec | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"{name}: the bias has shape {bias.shape}, {channels} channels want ({channels},)")


def _op(name: str, spec: Callable[..., Spec], geometry: Callable[..., Geometry], is_transposed: bool) -> Op:
    """The op of a convolution of some ``geometry``, or of its transpose: the gradient of its input, as a layer."""

    def host_forward(
        x: HostArray, weight: HostArray, bias: HostArray | None = None, **attributes: Any
    ) -> tuple[HostArray, Saved]:
        g = geometry(x, weight, **attributes)
        y = host_input_gradient(g, x, weight) if is_transposed else host_convolve(g, x, weight)
        return _host_bias(y, bias), (x, weight, g)

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        x, weight, g = saved
        dx = dweight = dbias = None
        if needs[0]:
            dx = host_convolve(g, dy, weight) if is_transposed else host_input_gradient(g, dy, weight)
        if needs[1]:
            dweight = host_weight_gradient(g, dy, x) if is_transposed else host_weight_gradient(g, x, dy)
        if len(needs) > 2 and needs[2]:
            dbias = _host_bias_gradient(dy)
        return (dx, dweight, dbias)[: len(needs)]

    def forward(
        out: Spec, x: Array, weight: Array, bias: Array | None = None, **attributes: Any
    ) -> tuple[Array, Saved]:
        g = geometry(x, weight, **attributes)
        if is_transposed:
            return add_bias(name, input_gradient(name, g, x, weight), bias), (x, weight, g)
        return convolve(name, g, x, weight, bias), (x, weight, g)

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        x, weight, g = saved
        dx = dweight = dbias = None
        if needs[0]:
            dx = convolve(name, g, dy, weight) if is_transposed else input_gradient(name, g, dy, weight)
        if needs[1]:
            dweight = weight_gradient(name, g, *((dy, x) if is_transposed else (x, dy)))
        if len(needs) > 2 and needs[2]:
            dbias = bias_gradient(name, dy)
        return (dx, dweight, dbias)[: len(needs)]

    return Op(name, spec, host_forward, forward, host_backward, backward)


def _convolution(name: str, dims: int) -> Op:
    """The op of the convolution over ``dims`` dimensions."""

    def geometry(x: Any, weight: Any, **attributes: Any) -> Geometry:
        given = {key: hashable(value) for key, value in attributes.items()}
        return convolution_geometry(name, dims, x.shape, weight.shape, **given)

    def spec(
        x: HasSpec,
        weight: HasSpec,
        bias: HasSpec | None = None,
        stride: Extents = 1,
        padding: Padding = 0,
        dilation: Extents = 1,
        groups: int = 1,
    ) -> Spec:
        _check_operands(name, x, weight, bias)
        found = geometry(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
        _check_bias(name, bias, weight.shape[0])
        return Spec(found.made_shape, float32)

    layout = ("L", "H, W", "D, H, W")[dims - 1]
    spec.__doc__ = f"""y_no(p) = bias_o + sum over c and t of weight_oc(t) x_nc(q), q = p stride - padding + t dilation.

    Of float32: x (N, C, {layout}), 0 outside; weight (O, C / groups, {layout} of the kernel);
    bias (O,) or None. Each group of channels makes its own part of the O. ``stride``, ``dilation``: a number or one per
    dimension. ``padding``: the same, or a pair (before, after) per dimension, or "valid" (none), or "same" (as much as
    keeps the extents; stride 1; an odd one goes behind). The kernel is not turned round. dx_nc(q) = sum of weight_oc(t)
    dy_no(p) over the t and p that meet q; dweight_oc(t) = sum of dy_no(p) x_nc(q); dbias_o = sum of dy_no(p).
    ShapeError if the channels do not fit, or the kernel is larger than the padded input.
    """
    return _op(name, spec, geometry, is_transposed=False)


def _transposed(name: str, dims: int) -> Op:
    """The op of the transposed convolution over ``dims`` dimensions; its geometry is that of what it transposes."""

    def geometry(x: Any, weight: Any, **attributes: Any) -> Geometry:
        given = {key: hashable(value) for key, value in attributes.items()}
        return transposed_geometry(name, dims, x.shape, weight.shape, **given)

    def spec(
        x: HasSpec,
        weight: HasSpec,
        bias: HasSpec | None = None,
        stride: Extents = 1,
        padding: Padding = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        dilation: Extents = 1,
    ) -> Spec:
        _check_operands(name, x, weight, bias)
        given = {"stride": stride, "padding": padding, "output_padding": output_padding}
        found = geometry(x, weight, groups=groups, dilation=dilation, **given)
        _check_bias(name, bias, found.source_shape[1])
        return Spec(found.source_shape, float32)

    layout = ("L", "H, W")[dims - 1]
    spec.__doc__ = f"""The gradient of conv{dims}d's input as a layer: y_no(q) = bias_o + sum of weight_co(t) x_nc(p),
    over c and the p and t with p stride - padding + t dilation = q.

    Of float32: x (N, C, {layout}); weight (C, O / groups, {layout} of the kernel); bias (O,) or None.
    An extent e becomes (e - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. dx = conv{dims}d(dy,
    weight) by the same arguments; dweight_co(t) = sum of x_nc(p) dy_no(q); dbias_o = sum of dy_no(q). ShapeError if the
    channels do not fit, nothing is left, or ``output_padding`` is not smaller than stride or dilation.
    """
    return _op(name, spec, geometry, is_transposed=True)


conv1d = _convolution("conv1d", 1)
conv2d = _convolution("conv2d", 2)
conv3d = _convolution("conv3d", 3)
conv_transpose1d = _transposed("conv_transpose1d", 1)
conv_transpose2d = _transposed("conv_transpose2d", 2)
