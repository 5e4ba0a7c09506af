"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from gpu_backend import contraction, ops

from ..tensor import Tensor, apply, apply_promoted, tensor
from .method import accepts_dim, method


@method
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The matrix product of the last two dimensions, (..., M, K) @ (..., K, N); the others broadcast.

    A vector on the left is a row, on the right a column, and the result lacks that dimension.
    ``transpose_a`` and ``transpose_b`` swap the last two dimensions of an operand without a copy of the tensor.
    """
    return apply_promoted(ops.matmul, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """activation(x weight^T + bias): x (..., in), weight (out, in), bias (out,); in one kernel.

    ``activation``: None, "relu", "tanh" or "sigmoid".
    """
    return apply(ops.linear, x, weight, bias, activation=activation)


@accepts_dim
def vecdot(a: Any, b: Any, axis: int = -1) -> Tensor:
    """The dot products of vectors along ``axis``, the sum of a b; the other dimensions broadcast."""
    return apply_promoted(ops.vecdot, a, b, axis=axis)


@method
def outer(a: Any, b: Any) -> Tensor:
    """The matrix of the products a_i b_j of two vectors."""
    return apply_promoted(ops.outer, a, b)


def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T weight_o x2 + bias_o for each o: x1 (..., in1), x2 (..., in2), weight (out, in1, in2), bias (out,)."""
    return apply(ops.bilinear, x1, x2, weight, bias)


tensordot = contraction.tensordot


def einsum(subscripts: str, *operands: Any) -> Tensor:
    """Sums of products over named indices, in numpy's notation: ``einsum("bij,bjk->bik", a, b)``.

    See ``gpu_backend.einsum``; operands may be numpy arrays too.
    """
    one = next((x for x in operands if isinstance(x, Tensor)), None)
    device = None if one is None else one.device
    given = (x if isinstance(x, Tensor) else tensor(x, device=device) for x in operands)
    return contraction.einsum(subscripts, *given)
