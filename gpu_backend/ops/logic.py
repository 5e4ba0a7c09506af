"""Comparisons, logical functions, and functions of bits. None has a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import HostArray, Op
from ..spec import bool_
from .elementwise import ANY, BITS, INTEGERS, binary

__all__ = [
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def _comparison(name: str, sign: str, value: Any) -> Op:
    nan = "true" if name == "not_equal" else "false"
    formula = f"y = a {sign} b as bool, {nan} where an operand is NaN"
    return binary(name, formula, value, library="comparison", takes=ANY, result=bool_)


equal = _comparison("equal", "==", np.equal)
not_equal = _comparison("not_equal", "!=", np.not_equal)
less = _comparison("less", "<", np.less)
less_equal = _comparison("less_equal", "<=", np.less_equal)
greater = _comparison("greater", ">", np.greater)
greater_equal = _comparison("greater_equal", ">=", np.greater_equal)


def _logical(name: str, word: str, value: Any) -> Op:
    formula = f"y = a {word} b as bool; what is not 0 is true, NaN too"
    return binary(name, formula, value, library="comparison", takes=ANY, result=bool_)


logical_and = _logical("logical_and", "and", np.logical_and)
logical_or = _logical("logical_or", "or", np.logical_or)
logical_xor = _logical("logical_xor", "either", np.logical_xor)

bitwise_and = binary("bitwise_and", "y = the bits that a and b have", np.bitwise_and, library="bitwise", takes=BITS)
bitwise_or = binary("bitwise_or", "y = the bits that a or b has", np.bitwise_or, library="bitwise", takes=BITS)
bitwise_xor = binary(
    "bitwise_xor", "y = the bits in which a and b differ", np.bitwise_xor, library="bitwise", takes=BITS
)


def _left_shift(a: HostArray, b: HostArray) -> HostArray:
    count = b.astype(np.uint32)
    return np.asarray(np.where(count < 32, np.left_shift(a, (count & 31).astype(a.dtype)), 0), a.dtype)


def _right_shift(a: HostArray, b: HostArray) -> HostArray:
    count = b.astype(np.uint32)
    whole = np.right_shift(a, np.minimum(count, 31).astype(a.dtype))
    return np.asarray(np.where(count < 32, whole, np.right_shift(whole, 1)), a.dtype)


bitwise_left_shift = binary(
    "bitwise_left_shift",
    "y = a 2^b, the bits of a moved up; 0 past the last bit, for which a negative b counts",
    _left_shift,
    library="bitwise",
    takes=INTEGERS,
)
bitwise_right_shift = binary(
    "bitwise_right_shift",
    "y = a / 2^b rounded down, the bits of a moved down; past the last bit, for which a negative b counts, 0 or -1",
    _right_shift,
    library="bitwise",
    takes=INTEGERS,
)
