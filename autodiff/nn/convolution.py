"""Convolution layers: Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gpu_backend import Device
from gpu_backend.ops.convolution_geometry import Extents, Padding, hashable, numbers
from gpu_backend.spec import size_of

from .. import functional as F
from .. import random
from ..tensor import Tensor
from .module import Module, Parameter


class _Convolution(Module):
    """What all have in common: a weight and perhaps a bias, uniform in +-1/sqrt(fan), made on the host from
    ``manual_seed``; fan is the second extent of the weight times the taps. That is the bound of He et al. 2015 with
    a = sqrt(5), PyTorch's default.
    """

    dims: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    arguments: ClassVar[dict[str, int]]  # of the function, with what they are unless given
    is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        groups: int,
        bias: bool,
        device: str | Device | None,
        **given: Any,
    ) -> None:
        name = type(self).__name__
        if min(in_channels, out_channels, groups) < 1:
            raise ValueError(
                f"{name}: channels and groups are positive numbers, not {in_channels}, {out_channels} and {groups}"
            )
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: {in_channels} and {out_channels} channels do not both divide into {groups} groups"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = numbers(name, "kernel_size", kernel_size, self.dims)
        self.groups = groups
        for argument, value in given.items():
            setattr(self, argument, hashable(value))
        first, second = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        bound = 1 / math.sqrt(size_of(shape[1:]))
        self.weight = Parameter(random.host_uniform(-bound, bound, shape), device, "weight")
        self.bias = Parameter(random.host_uniform(-bound, bound, out_channels), device, "bias") if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return type(self).function(x, self.weight, self.bias, **{name: getattr(self, name) for name in self.arguments})

    def extra_repr(self) -> str:
        shown = [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}"]
        for name, usual in self.arguments.items():
            if getattr(self, name) != usual:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown) + ("" if self.bias is not None else ", bias=False")


class _Forward(_Convolution):
    arguments = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}  # noqa: RUF012

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Padding = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        device: str | Device | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, groups, bias, device,
            stride=stride, padding=padding, dilation=dilation,
        )  # fmt: skip


class Conv1d(_Forward):
    """y = ``functional.conv1d``(x, weight, bias): x (N, in_channels, L), weight (out_channels, in_channels / groups,
    kernel_size)."""

    dims = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    """y = ``functional.conv2d``(x, weight, bias): x (N, in_channels, H, W), weight (out_channels, in_channels / groups,
    *kernel_size). ``padding`` may be "same"."""

    dims = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    """y = ``functional.conv3d``(x, weight, bias): x (N, in_channels, D, H, W), weight (out_channels, in_channels /
    groups, *kernel_size)."""

    dims = 3
    function = staticmethod(F.conv3d)


class _Transposed(_Convolution):
    arguments = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}  # noqa: RUF012
    is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: int | Sequence[int] = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        device: str | Device | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, groups, bias, device,
            stride=stride, padding=padding, output_padding=output_padding, dilation=dilation,
        )  # fmt: skip


class ConvTranspose1d(_Transposed):
    """y = ``functional.conv_transpose1d``(x, weight, bias): x (N, in_channels, L), weight (in_channels, out_channels /
    groups, kernel_size)."""

    dims = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """y = ``functional.conv_transpose2d``(x, weight, bias): x (N, in_channels, H, W), weight (in_channels,
    out_channels / groups, *kernel_size)."""

    dims = 2
    function = staticmethod(F.conv_transpose2d)
