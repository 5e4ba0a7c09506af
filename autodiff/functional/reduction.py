"""Reductions over axes."""

from __future__ import annotations

from gpu_backend import ops
from gpu_backend.spec import Axis

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
@accepts_dim
def sum(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over ``axis``, over all by default."""
    return apply(ops.sum, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def mean(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over ``axis``, over all by default."""
    return apply(ops.mean, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def max(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over ``axis``, NaN if there is one; elements that tie share the gradient equally."""
    return apply(ops.max, x, axis=axis, keepdims=keepdims)
