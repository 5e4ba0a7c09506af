"""Reductions of several steps."""

from __future__ import annotations

from gpu_backend import composite, ops
from gpu_backend.spec import Axis

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
@accepts_dim
def var(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over ``axis``: the sum of squared deviations over n - ``correction``.

    The correction is 0 unless given, as in numpy and the array API; PyTorch's is 1.
    """
    return apply(ops.var, x, axis=axis, correction=correction, keepdims=keepdims)


@method
@accepts_dim
def std(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of ``var``, whose ``correction`` is 0 unless given; its gradient is 0 where all are equal."""
    return apply(ops.std, x, axis=axis, correction=correction, keepdims=keepdims)


@method
@accepts_dim
def logsumexp(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log sum exp(x) over ``axis``, without overflow; -inf over nothing, or over -inf alone."""
    return apply(ops.logsumexp, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def norm(x: Tensor, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """(sum |x|^ord)^(1/ord) over ``axis``, for inf the largest |x|, without overflow; the gradient of a 0 is 0."""
    return apply(ops.norm, x, ord=ord, axis=axis, keepdims=keepdims)


vector_norm = accepts_dim(composite.vector_norm)
