"""Images of another size or form, with PyTorch's names and order of arguments."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_backend import composite, ops
from gpu_backend.ops.convolution_geometry import Extents

from ..tensor import Tensor, apply


def interpolate(
    x: Tensor,
    size: Extents | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """x (N, C, L) or (N, C, H, W) to another ``size``, or ``scale_factor`` times as large: "nearest", "linear" of L,
    "bilinear" of H and W."""
    attributes = {"size": size, "scale_factor": scale_factor, "mode": mode, "align_corners": align_corners}
    return apply(ops.interpolate, x, **attributes)


def unfold(x: Tensor, kernel_size: Extents, dilation: Extents = 1, padding: Extents = 0, stride: Extents = 1) -> Tensor:
    """The windows of x (N, C, H, W) as columns: (N, C taps, positions)."""
    return apply(ops.unfold, x, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


def fold(
    x: Tensor,
    output_size: Extents,
    kernel_size: Extents,
    dilation: Extents = 1,
    padding: Extents = 0,
    stride: Extents = 1,
) -> Tensor:
    """The columns of x (N, C taps, positions) added up where their windows lie: (N, C, *output_size)."""
    attributes = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return apply(ops.fold, x, output_size=output_size, **attributes)


pixel_shuffle = composite.pixel_shuffle
pixel_unshuffle = composite.pixel_unshuffle
