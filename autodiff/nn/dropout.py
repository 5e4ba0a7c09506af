"""Dropout as modules: of elements, and of channels."""

from __future__ import annotations

from .. import functional
from ..tensor import Tensor
from .module import Module


class Dropout(Module):
    """In training, each element is 0 with probability ``p``, else divided by 1 - p; otherwise x itself."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: a probability lies between 0 and 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout2d(Dropout):
    """In training, each channel of x (N, C, H, W) is 0 with probability ``p``, else divided by 1 - p; otherwise x
    itself."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout2d(x, self.p, self.training)
