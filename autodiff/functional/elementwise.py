"""Elementwise functions: arithmetic, comparisons, activations, where."""

from __future__ import annotations

from typing import Any

from gpu_backend import ops
from gpu_backend.spec import DTypeLike

from ..tensor import Tensor, apply, apply_promoted, promoted, tensor
from .method import method


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


@method
def exp(x: Tensor) -> Tensor:
    """e to the power of each element."""
    return apply(ops.exp, x)


@method
def log(x: Tensor) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below."""
    return apply(ops.log, x)


@method
def sqrt(x: Tensor) -> Tensor:
    """The square root: NaN below 0."""
    return apply(ops.sqrt, x)


@method
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return apply(ops.tanh, x)


@method
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return apply(ops.sigmoid, x)


@method
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
