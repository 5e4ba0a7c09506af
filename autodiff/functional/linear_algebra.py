"""Matrix products."""

from __future__ import annotations

from typing import Any

from gpu_backend import ops

from ..tensor import Tensor, apply, apply_promoted
from .method import method


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
