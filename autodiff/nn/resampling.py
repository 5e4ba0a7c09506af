"""Layers that change the number of pixels: Upsample, PixelShuffle."""

from __future__ import annotations

from collections.abc import Sequence

from ..functional import interpolate, pixel_shuffle
from ..tensor import Tensor
from .module import Module


class Upsample(Module):
    """x (N, C, L) or (N, C, H, W) to another size, or by a factor: ``functional.interpolate``."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        given = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{given}, mode={self.mode!r}"


class PixelShuffle(Module):
    """x (N, C r^2, H, W) to (N, C, H r, W r): ``functional.pixel_shuffle``."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        return str(self.upscale_factor)
