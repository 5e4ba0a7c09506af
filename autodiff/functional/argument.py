"""Where the largest and smallest elements are."""

from __future__ import annotations

from gpu_backend import ops

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
@accepts_dim
def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element along ``axis``, the first of several; without one, among all, as int32."""
    return apply(ops.argmax, x, axis=axis, keepdims=keepdims)


@method
@accepts_dim
def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element along ``axis``, the first of several; without one, among all, as int32."""
    return apply(ops.argmin, x, axis=axis, keepdims=keepdims)
