"""Group norm as a module."""

from __future__ import annotations

import numpy as np

from gpu_backend import Device

from ..functional import group_norm
from ..tensor import Tensor
from .module import Module, Parameter


class GroupNorm(Module):
    """``functional.group_norm`` of num_channels channels in num_groups groups. Weight and bias start at 1 and 0;
    without ``affine`` there are none.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | Device | None = None,
    ) -> None:
        if num_groups < 1 or num_channels < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter(np.ones(num_channels, np.float32), device, "weight") if affine else None
        self.bias = Parameter(np.zeros(num_channels, np.float32), device, "bias") if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}" + (
            "" if self.weight is not None else ", affine=False"
        )
