"""Arithmetic of two operands, tensors, numbers or numpy arrays, brought to a common element type."""

from __future__ import annotations

from typing import Any

from gpu_backend import composite, ops

from ..tensor import Tensor, apply_promoted
from .method import method


@method
def add(a: Any, b: Any) -> Tensor:
    """a + b, broadcast."""
    return apply_promoted(ops.add, a, b)


@method
def subtract(a: Any, b: Any) -> Tensor:
    """a - b, broadcast."""
    return apply_promoted(ops.subtract, a, b)


@method
def multiply(a: Any, b: Any) -> Tensor:
    """a b, elementwise, broadcast."""
    return apply_promoted(ops.multiply, a, b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b, broadcast; integers are divided as float32."""
    return apply_promoted(ops.divide, a, b)


@method
def floor_divide(a: Any, b: Any) -> Tensor:
    """a / b rounded down; of integers, 0 where b is 0. The gradient is 0."""
    return apply_promoted(ops.floor_divide, a, b)


@method
def remainder(a: Any, b: Any) -> Tensor:
    """a - b floor(a / b), with the sign of b, as numpy and Python."""
    return apply_promoted(ops.remainder, a, b)


@method
def fmod(a: Any, b: Any) -> Tensor:
    """a - b trunc(a / b), with the sign of a, as C."""
    return apply_promoted(ops.fmod, a, b)


def power(a: Any, b: Any) -> Tensor:
    """a to the power b: NaN where a < 0 and b is not whole."""
    return apply_promoted(ops.power, a, b)


@method
def maximum(a: Any, b: Any) -> Tensor:
    """The larger of a and b, NaN if either is; where they tie, each has half of the gradient."""
    return apply_promoted(ops.maximum, a, b)


@method
def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of a and b, NaN if either is; where they tie, each has half of the gradient."""
    return apply_promoted(ops.minimum, a, b)


@method
def atan2(a: Any, b: Any) -> Tensor:
    """The angle of the point (b, a), between -pi and pi."""
    return apply_promoted(ops.atan2, a, b)


@method
def hypot(a: Any, b: Any) -> Tensor:
    """The root of a^2 + b^2, without overflow."""
    return apply_promoted(ops.hypot, a, b)


@method
def logaddexp(a: Any, b: Any) -> Tensor:
    """log(exp(a) + exp(b)), without overflow."""
    return apply_promoted(ops.logaddexp, a, b)


@method
def copysign(a: Any, b: Any) -> Tensor:
    """a with the sign of b."""
    return apply_promoted(ops.copysign, a, b)


pow = method(composite.pow)
positive = composite.positive
