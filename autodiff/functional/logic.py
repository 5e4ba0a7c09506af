"""Comparisons, logical functions, and functions of bits; none has a gradient."""

from __future__ import annotations

from typing import Any

from gpu_backend import ops

from ..tensor import Tensor, apply_promoted
from .method import method


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


@method
def logical_and(a: Any, b: Any) -> Tensor:
    """Whether both are true; what is not 0 is, NaN too."""
    return apply_promoted(ops.logical_and, a, b)


@method
def logical_or(a: Any, b: Any) -> Tensor:
    """Whether one of them is true."""
    return apply_promoted(ops.logical_or, a, b)


@method
def logical_xor(a: Any, b: Any) -> Tensor:
    """Whether just one of them is true."""
    return apply_promoted(ops.logical_xor, a, b)


@method
def bitwise_and(a: Any, b: Any) -> Tensor:
    """The bits that both integers or bools have."""
    return apply_promoted(ops.bitwise_and, a, b)


@method
def bitwise_or(a: Any, b: Any) -> Tensor:
    """The bits that one of them has."""
    return apply_promoted(ops.bitwise_or, a, b)


@method
def bitwise_xor(a: Any, b: Any) -> Tensor:
    """The bits in which they differ."""
    return apply_promoted(ops.bitwise_xor, a, b)


@method
def bitwise_left_shift(a: Any, b: Any) -> Tensor:
    """The bits of a moved up by b; 0 past the last."""
    return apply_promoted(ops.bitwise_left_shift, a, b)


@method
def bitwise_right_shift(a: Any, b: Any) -> Tensor:
    """The bits of a moved down by b; the sign of an int32 moves in."""
    return apply_promoted(ops.bitwise_right_shift, a, b)
