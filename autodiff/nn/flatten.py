"""Flatten as a module."""

from __future__ import annotations

from ..functional import flatten
from ..tensor import Tensor
from .module import Module


class Flatten(Module):
    """The dimensions from ``start_dim`` to ``end_dim`` as one: by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
