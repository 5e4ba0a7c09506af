"""Convolutions, with PyTorch's names and order of arguments."""

from __future__ import annotations

from gpu_backend import Op, ops
from gpu_backend.ops.convolution_geometry import Extents, Padding

from ..tensor import Tensor, apply


def _convolve(
    op: Op,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Extents,
    padding: Padding,
    dilation: Extents,
    groups: int,
) -> Tensor:
    operands = (x, weight) if bias is None else (x, weight, bias)
    return apply(op, *operands, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve x (N, C, L) with weight (O, C / groups, taps): (N, O, positions). ``padding``: a number, a pair in a
    tuple, ((before, after),), "same" or "valid"."""
    return _convolve(ops.conv1d, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve x (N, C, H, W) with weight (O, C / groups, kernel H, kernel W). ``padding``: a number, one per
    dimension, a pair (before, after) per dimension, "same" or "valid"."""
    return _convolve(ops.conv2d, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve x (N, C, D, H, W) with weight (O, C / groups, kernel D, H, W), as conv2d does."""
    return _convolve(ops.conv3d, x, weight, bias, stride, padding, dilation, groups)


def _convolve_transposed(
    op: Op,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Extents,
    padding: Padding,
    output_padding: Extents,
    groups: int,
    dilation: Extents,
) -> Tensor:
    operands = (x, weight) if bias is None else (x, weight, bias)
    attributes = {"output_padding": output_padding, "groups": groups, "dilation": dilation}
    return apply(op, *operands, stride=stride, padding=padding, **attributes)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """The gradient of conv1d's input as a layer: x (N, C, L), weight (C, O / groups, taps)."""
    return _convolve_transposed(
        ops.conv_transpose1d, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """The gradient of conv2d's input as a layer: x (N, C, H, W), weight (C, O / groups, kernel H, kernel W)."""
    return _convolve_transposed(
        ops.conv_transpose2d, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
