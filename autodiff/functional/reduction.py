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
    """The largest element over ``axis``, NaN if there is one; elements that tie share the gradient equally.

    The values alone, where PyTorch's ``max`` over a dimension gives the places too; ``argmax`` gives those.
    """
    return apply(ops.max, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def min(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over ``axis``, NaN if there is one; elements that tie share the gradient equally.

    The values alone, where PyTorch's ``min`` over a dimension gives the places too; ``argmin`` gives those.
    """
    return apply(ops.min, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def amax(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """``max`` by the name that PyTorch and numpy share."""
    return apply(ops.amax, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def amin(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """``min`` by the name that PyTorch and numpy share."""
    return apply(ops.amin, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def any(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element over ``axis`` is true, as bool: not 0, or NaN."""
    return apply(ops.any, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def all(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over ``axis`` are true, as bool: not 0, or NaN."""
    return apply(ops.all, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def count_nonzero(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements over ``axis`` are not 0, as int32."""
    return apply(ops.count_nonzero, x, axis=axis, keepdims=keepdims)
