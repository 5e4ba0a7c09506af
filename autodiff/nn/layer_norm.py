"""Layer norm as a module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_backend import Device, ShapeError
from gpu_backend.spec import as_shape

from .. import functional
from ..tensor import Tensor
from .module import Module, Parameter


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dimensions, then weight and bias of ``normalized_shape``, from 1 and 0 on.

    ``elementwise_affine=False``: neither; ``bias=False``: the weight alone.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | Device | None = None,
    ) -> None:
        self.normalized_shape = as_shape("LayerNorm", normalized_shape)
        if not self.normalized_shape:
            raise ShapeError("LayerNorm: normalized_shape names at least one dimension")
        self.eps = eps
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        if elementwise_affine:
            self.weight = Parameter(np.ones(self.normalized_shape, np.float32), device, "weight")
            if bias:
                self.bias = Parameter(np.zeros(self.normalized_shape, np.float32), device, "bias")

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        extras = ", elementwise_affine=False" if self.weight is None else ", bias=False" if self.bias is None else ""
        return f"{self.normalized_shape}, eps={self.eps}{extras}"
