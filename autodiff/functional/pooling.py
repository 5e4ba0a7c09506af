"""Pools, with PyTorch's names and order of arguments."""

from __future__ import annotations

from typing import Any

from gpu_backend import Op, ops
from gpu_backend.ops.convolution_geometry import Extents
from gpu_backend.ops.pooling import Size

from ..tensor import Tensor, apply

Pooled = Tensor | tuple[Tensor, Tensor]


def _max_pool(op: Op, places: Op, x: Tensor, return_indices: bool, **attributes: Any) -> Pooled:
    y = apply(op, x, **attributes)
    return (y, apply(places, x.detach(), **attributes)) if return_indices else y


def max_pool1d(
    x: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pooled:
    """The largest of each window of x (N, C, L). ``return_indices``: their places as well, int32, without gradient."""
    attributes = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return _max_pool(ops.max_pool1d, ops.max_pool1d_indices, x, return_indices, ceil_mode=ceil_mode, **attributes)


def max_pool2d(
    x: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pooled:
    """The largest of each window of x (N, C, H, W). ``return_indices``: their places h W + w as well, int32, without
    gradient."""
    attributes = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return _max_pool(ops.max_pool2d, ops.max_pool2d_indices, x, return_indices, ceil_mode=ceil_mode, **attributes)


def adaptive_max_pool1d(x: Tensor, output_size: Size, return_indices: bool = False) -> Pooled:
    """The largest of each of ``output_size`` windows that divide L evenly. None keeps it."""
    places = ops.adaptive_max_pool1d_indices
    return _max_pool(ops.adaptive_max_pool1d, places, x, return_indices, output_size=output_size)


def adaptive_max_pool2d(x: Tensor, output_size: Size, return_indices: bool = False) -> Pooled:
    """The largest of each of ``output_size`` windows that divide H and W evenly. None keeps an extent."""
    places = ops.adaptive_max_pool2d_indices
    return _max_pool(ops.adaptive_max_pool2d, places, x, return_indices, output_size=output_size)


def avg_pool1d(
    x: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of x (N, C, L)."""
    attributes = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return apply(ops.avg_pool1d, x, kernel_size=kernel_size, stride=stride, padding=padding, **attributes)


def avg_pool2d(
    x: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of x (N, C, H, W), or its sum over ``divisor_override``."""
    attributes = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor_override": divisor_override}
    return apply(ops.avg_pool2d, x, kernel_size=kernel_size, stride=stride, padding=padding, **attributes)


def adaptive_avg_pool1d(x: Tensor, output_size: Size) -> Tensor:
    """The mean of each of ``output_size`` windows that divide L evenly. None keeps it."""
    return apply(ops.adaptive_avg_pool1d, x, output_size=output_size)


def adaptive_avg_pool2d(x: Tensor, output_size: Size) -> Tensor:
    """The mean of each of ``output_size`` windows that divide H and W evenly. None keeps an extent."""
    return apply(ops.adaptive_avg_pool2d, x, output_size=output_size)


def global_avg_pool(x: Tensor) -> Tensor:
    """The mean of each plane of x (N, C, L) or (N, C, H, W), which becomes one element."""
    return (adaptive_avg_pool1d if x.ndim == 3 else adaptive_avg_pool2d)(x, 1)


def global_max_pool(x: Tensor) -> Tensor:
    """The largest element of each plane of x (N, C, L) or (N, C, H, W), which becomes one element; of several, the
    first gets the gradient."""
    return apply(ops.adaptive_max_pool1d if x.ndim == 3 else ops.adaptive_max_pool2d, x, output_size=1)
