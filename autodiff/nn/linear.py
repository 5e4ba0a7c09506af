"""Linear: an affine map of the last dimension."""

from __future__ import annotations

import math

from gpu_backend import Device
from gpu_backend.ops.activation import ACTIVATIONS

from .. import random
from ..functional import linear
from ..tensor import Tensor
from .module import Module, Parameter


class Linear(Module):
    """y = activation(x weight^T + bias), x (..., in_features), y (..., out_features).

    ``activation`` None, "relu", "tanh" or "sigmoid" is applied inside the same kernel. Weight and bias start uniform in
    +-1/sqrt(in_features), made on the host from ``manual_seed``: the bound is that of He et al. 2015 with a = sqrt(5),
    PyTorch's default.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str | None = None,
        device: str | Device | None = None,
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise ValueError(f"Linear: features are positive numbers, not {in_features} and {out_features}")
        if activation is not None and activation not in ACTIVATIONS:
            raise ValueError(f"Linear: no activation {activation!r}; there are {', '.join(ACTIVATIONS)}")
        self.in_features = in_features
        self.out_features = out_features
        self.activation = activation
        bound = 1 / math.sqrt(in_features)
        self.weight = Parameter(random.host_uniform(-bound, bound, (out_features, in_features)), device, "weight")
        self.bias = Parameter(random.host_uniform(-bound, bound, out_features), device, "bias") if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        extras = "" if self.bias is not None else ", bias=False"
        extras += f", activation={self.activation!r}" if self.activation else ""
        return f"{self.in_features}, {self.out_features}{extras}"
