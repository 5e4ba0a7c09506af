"""Activations as modules."""

from __future__ import annotations

from .. import functional
from ..tensor import Tensor
from .module import Module


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class GELU(Module):
    """x times the probability that a standard normal number is below it; ``approximate`` "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ValueError(f'GELU: approximate is "none" or "tanh", not {approximate!r}')
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x)
