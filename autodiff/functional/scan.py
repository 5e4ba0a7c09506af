"""Scans along an axis, and the product."""

from __future__ import annotations

from gpu_backend import composite, ops
from gpu_backend.spec import Axis

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
@accepts_dim
def cumsum(x: Tensor, axis: int | None = None) -> Tensor:
    """The sums of the elements up to each, along ``axis``; without one, of all elements as a vector."""
    return apply(ops.cumsum, x, axis=axis)


cumulative_sum = accepts_dim(composite.cumulative_sum)


@method
@accepts_dim
def cumprod(x: Tensor, axis: int | None = None) -> Tensor:
    """The products of the elements up to each, along ``axis``; without one, of all elements as a vector."""
    return apply(ops.cumprod, x, axis=axis)


cumulative_prod = accepts_dim(composite.cumulative_prod)


@method
@accepts_dim
def prod(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over ``axis``, over all by default; its gradient is right with zeros too."""
    return apply(ops.prod, x, axis=axis, keepdims=keepdims)
