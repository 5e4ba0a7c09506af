"""Functions that norm a row."""

from __future__ import annotations

from gpu_backend import ops

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
@accepts_dim
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) over the sum of exp(x) along ``axis``; a slice of -inf alone gives NaN."""
    return apply(ops.softmax, x, axis=axis)


@method
@accepts_dim
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of softmax, without overflow."""
    return apply(ops.log_softmax, x, axis=axis)
