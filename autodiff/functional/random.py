"""Functions that draw random numbers."""

from __future__ import annotations

from gpu_backend import ShapeError, ops

from ..random import draw
from ..tensor import Tensor, apply
from .binary import multiply
from .creation import ones


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """0 with probability ``p``, else x / (1 - p), from this thread's random numbers; x itself outside training."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: a probability lies between 0 and 1, not {p}")
    if not training or p == 0:
        return x
    numbers = draw(x.size, x.device)
    return apply(ops.dropout, x, Tensor(numbers.pop("base")), p=p, **numbers)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each channel of x (N, C, H, W) 0 with probability ``p``, else x / (1 - p); x itself outside training."""
    if x.ndim != 4:
        raise ShapeError(f"dropout2d: the input has shape {x.shape}, not (N, C, H, W)")
    if not training or p == 0:
        return dropout(x, p, training)
    return multiply(x, dropout(ones((*x.shape[:2], 1, 1), device=x.device), p))
