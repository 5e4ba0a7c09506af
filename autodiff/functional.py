"""Every differentiable function: primitives in one line, composites in full.

Two-operand functions take tensors, Python numbers and numpy arrays, and bring them to a common element type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpu_backend import DtypeError, ShapeError, ops
from gpu_backend.ops.loss import check_class_indices
from gpu_backend.spec import Axis, DTypeLike

from .random import draw
from .tensor import Tensor, apply, apply_promoted, promoted, tensor

# Elementwise.


def add(a: Any, b: Any) -> Tensor:
    """a + b, broadcast."""
    return apply_promoted(ops.add, a, b)


def subtract(a: Any, b: Any) -> Tensor:
    """a - b, broadcast."""
    return apply_promoted(ops.subtract, a, b)


def multiply(a: Any, b: Any) -> Tensor:
    """a b, elementwise, broadcast."""
    return apply_promoted(ops.multiply, a, b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b, broadcast; integers are divided as float32."""
    return apply_promoted(ops.divide, a, b)


def negative(x: Tensor) -> Tensor:
    """-x."""
    return apply(ops.negative, x)


def exp(x: Tensor) -> Tensor:
    """e to the power of each element."""
    return apply(ops.exp, x)


def log(x: Tensor) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below."""
    return apply(ops.log, x)


def sqrt(x: Tensor) -> Tensor:
    """The square root: NaN below 0."""
    return apply(ops.sqrt, x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return apply(ops.tanh, x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return apply(ops.sigmoid, x)


def relu(x: Tensor) -> Tensor:
    """max(x, 0); its slope at 0 is 0."""
    return apply(ops.relu, x)


def equal(a: Any, b: Any) -> Tensor:
    """a == b as bool."""
    return apply_promoted(ops.equal, a, b)


def not_equal(a: Any, b: Any) -> Tensor:
    """a != b as bool; true where an operand is NaN."""
    return apply_promoted(ops.not_equal, a, b)


def less(a: Any, b: Any) -> Tensor:
    """a < b as bool."""
    return apply_promoted(ops.less, a, b)


def less_equal(a: Any, b: Any) -> Tensor:
    """a <= b as bool."""
    return apply_promoted(ops.less_equal, a, b)


def greater(a: Any, b: Any) -> Tensor:
    """a > b as bool."""
    return apply_promoted(ops.greater, a, b)


def greater_equal(a: Any, b: Any) -> Tensor:
    """a >= b as bool."""
    return apply_promoted(ops.greater_equal, a, b)


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b, broadcast. As in PyTorch, a NaN slope in the branch not taken stays NaN."""
    device = next((x.device for x in (condition, a, b) if isinstance(x, Tensor)), None)
    if not isinstance(condition, Tensor):
        condition = tensor(condition, device=device)
    if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
        a = tensor(a, device=condition.device)
    left, right = promoted("where", a, b)
    return apply(ops.where, condition, left, right)


def astype(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The nearest values of another element type."""
    return x.astype(dtype)


# Reductions.


def sum(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over ``axis``, over all by default."""
    return apply(ops.sum, x, axis=axis, keepdims=keepdims)


def mean(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over ``axis``, over all by default."""
    return apply(ops.mean, x, axis=axis, keepdims=keepdims)


def max(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over ``axis``, NaN if there is one; elements that tie share the gradient equally."""
    return apply(ops.max, x, axis=axis, keepdims=keepdims)


# Movement.


def clone(x: Tensor) -> Tensor:
    """The same elements, copied when either tensor is first written."""
    return apply(ops.clone, x)


def reshape(x: Tensor, shape: int | Iterable[int]) -> Tensor:
    """The same memory in another shape; one extent may be -1."""
    return apply(ops.reshape, x, shape=shape)


def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A copy with the dimensions in the order ``axes``."""
    return apply(ops.permute_dims, x, axes=axes)


def broadcast_to(x: Tensor, shape: int | Iterable[int]) -> Tensor:
    """A copy repeated along new and unit dimensions."""
    return apply(ops.broadcast_to, x, shape=shape)


# Linear algebra.


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The matrix product of the last two dimensions, (..., M, K) @ (..., K, N); the others broadcast.

    ``transpose_a`` and ``transpose_b`` swap the last two dimensions of an operand without a copy of the tensor.
    """
    return apply_promoted(ops.matmul, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """activation(x weight^T + bias): x (..., in), weight (out, in), bias (out,); in one kernel.

    ``activation``: None, "relu", "tanh" or "sigmoid".
    """
    return apply(ops.linear, x, weight, bias, activation=activation)


# Random.


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """0 with probability ``p``, else x / (1 - p), from this thread's random numbers; x itself outside training."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: a probability lies between 0 and 1, not {p}")
    if not training or p == 0:
        return x
    numbers = draw(x.size, x.device)
    return apply(ops.dropout, x, Tensor(numbers.pop("base")), p=p, **numbers)


# Normalization and losses.


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) over the sum of exp(x) along ``axis``; a slice of -inf alone gives NaN."""
    return apply(ops.softmax, x, axis=axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of softmax, without overflow."""
    return apply(ops.log_softmax, x, axis=axis)


def cross_entropy(logits: Tensor, targets: Any, reduction: str = "mean") -> Tensor:
    """-log softmax(logits)[target] of logits (N, C) and class indices (N,); ``reduction`` "mean", "sum" or "none".

    Class indices are int32 tensors, or anything numpy understands as integers. IndexError for one outside 0 .. C-1: at
    once if it comes from the host, at the next read-back if it lives on a device.
    """
    if not isinstance(targets, Tensor):
        indices = np.asarray(targets)
        if indices.dtype.kind not in "iu" and indices.size:
            raise DtypeError(f"cross_entropy: class indices are integers, not {indices.dtype}")
        if logits.ndim == 2:
            check_class_indices(indices, logits.shape[1])
        targets = tensor(indices.astype(np.int32), device=logits.device)
    return apply(ops.cross_entropy, logits, targets, reduction=reduction)


def mse(x: Tensor, target: Any) -> Tensor:
    """The mean of (x - target)^2 over all elements; its gradient is 2 (x - target) / N. The shapes must be equal."""
    goal = target if isinstance(target, Tensor) else tensor(target, device=x.device)
    if x.shape != goal.shape:
        raise ShapeError(f"mse: shapes differ: {x.shape} and {goal.shape}")
    difference = subtract(x, goal)
    return mean(multiply(difference, difference))
