"""Arithmetic of two operands that broadcast, either of which may be a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import HostArray
from .elementwise import FLOAT, binary
from .unary import sigmoid_host

__all__ = [
    "add",
    "atan2",
    "copysign",
    "divide",
    "floor_divide",
    "fmod",
    "hypot",
    "logaddexp",
    "maximum",
    "minimum",
    "multiply",
    "power",
    "prelu",
    "remainder",
    "subtract",
]


def _whole(function: Any) -> Any:
    """A numpy division of integers without its warnings; divided by 0 it is 0 there, as on an adapter."""

    def silent(a: HostArray, b: HostArray) -> HostArray:
        with np.errstate(all="ignore"):
            return np.asarray(function(a, b))

    return silent


def _power_host(a: HostArray, b: HostArray) -> HostArray:
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    y = np.asarray(np.power(a, np.maximum(b, 0)))  # numpy refuses negative powers of integers
    if a.dtype.kind == "u":
        return y
    odd = np.where(b & 1 == 1, a, 1)
    return np.asarray(np.where(b < 0, np.where(a == 1, 1, np.where(a == -1, odd, 0)), y), a.dtype)


def _power_left(a: HostArray, b: HostArray) -> HostArray:
    return np.where(b == 0, 0, b * np.power(a, b - 1))


def _power_right(a: HostArray, b: HostArray) -> HostArray:
    return np.where((a == 0) & (b >= 0), 0, np.power(a, b) * np.log(a))


def _larger_share(a: HostArray, b: HostArray) -> HostArray:
    return np.asarray(np.where(a == b, 0.5, np.where(a < b, 0.0, 1.0)))


def _turn(a: HostArray, b: HostArray) -> HostArray:
    square = a * a + b * b
    return np.asarray(np.divide(b, square, out=np.zeros_like(square), where=square != 0))


def _cosine(a: HostArray, b: HostArray) -> HostArray:
    largest = np.maximum(np.abs(a), np.abs(b))
    scale = np.where(largest == 0, 1, largest)
    return np.asarray(a / scale / np.maximum(np.hypot(a / scale, b / scale), np.finfo(largest.dtype).tiny))


def _share(a: HostArray, b: HostArray) -> HostArray:
    return np.where(a == b, 0.5, sigmoid_host(np.asarray(np.where(a == b, 0, a - b))))


add = binary("add", "y = a + b; da = dy, db = dy", np.add, 1, 1)
subtract = binary("subtract", "y = a - b; da = dy, db = -dy", np.subtract, 1, -1)
multiply = binary("multiply", "y = a b; da = dy b, db = dy a", np.multiply, lambda a, b: b, lambda a, b: a)
divide = binary(
    "divide",
    "y = a / b; da = dy / b, db = -dy a / b^2",
    np.divide,
    lambda a, b: 1 / b,
    lambda a, b: -(a / b) / b,
    takes=FLOAT,
)
floor_divide = binary(
    "floor_divide",
    "y = a / b rounded down; of integers 0 where b is 0; da = 0, db = 0",
    _whole(np.floor_divide),
    0,
    0,
    library="division",
    whole="whole_division",
)
remainder = binary(
    "remainder",
    "y = a - b floor(a / b), with the sign of b; of integers 0 where b is 0; da = dy, db = -dy floor(a / b)",
    _whole(np.remainder),
    lambda a, b: np.ones_like(a),
    lambda a, b: -np.floor_divide(a, b),
    library="division",
    whole="whole_division",
)
fmod = binary(
    "fmod",
    "y = a - b trunc(a / b), with the sign of a; of integers 0 where b is 0; da = dy, db = -dy trunc(a / b)",
    _whole(np.fmod),
    lambda a, b: np.ones_like(a),
    lambda a, b: -np.trunc(a / b),
    library="division",
    whole="whole_division",
)
power = binary(
    "power",
    "y = a^b, 1 where b is 0, NaN where a < 0 and b is not whole; da = dy b a^(b-1), 0 where b is 0; db = dy y log(a), "
    "0 where a is 0 and NaN below, as in PyTorch; integers wrap around, and a negative power is 0 but for 1 and -1",
    _power_host,
    _power_left,
    _power_right,
    library="pairs",
    whole="whole_division",
)
maximum = binary(
    "maximum",
    "y = the larger of a and b, NaN if either is; da = dy where a > b, dy / 2 where they tie, else 0; db likewise",
    np.maximum,
    _larger_share,
    lambda a, b: _larger_share(b, a),
)
minimum = binary(
    "minimum",
    "y = the smaller of a and b, NaN if either is; da = dy where a < b, dy / 2 where they tie, else 0; db likewise",
    np.minimum,
    lambda a, b: _larger_share(-a, -b),
    lambda a, b: _larger_share(-b, -a),
)
atan2 = binary(
    "atan2",
    "y = the angle of the point (b, a), in -pi .. pi; da = dy b / (a^2 + b^2), db = -dy a / (a^2 + b^2), 0 at "
    "the origin",
    np.arctan2,
    _turn,
    lambda a, b: -_turn(b, a),
    library="pairs",
    takes=FLOAT,
)
hypot = binary(
    "hypot",
    "y = sqrt(a^2 + b^2) without overflow; da = dy a / y, db = dy b / y, 0 at the origin",
    np.hypot,
    _cosine,
    lambda a, b: _cosine(b, a),
    library="pairs",
    takes=FLOAT,
)
logaddexp = binary(
    "logaddexp",
    "y = log(e^a + e^b) without overflow; da = dy e^(a-y), db = dy e^(b-y), half each for equal infinities",
    np.logaddexp,
    _share,
    lambda a, b: _share(b, a),
    library="pairs",
    takes=FLOAT,
)
copysign = binary(
    "copysign",
    "y = |a| with the sign of b, that of zeros too; da = dy where the signs are equal, else -dy, 0 at 0; db = 0",
    np.copysign,
    lambda a, b: np.where(a == 0, 0, np.copysign(1, a) * np.copysign(1, b)),
    0,
    library="pairs",
    takes=FLOAT,
)
prelu = binary(
    "prelu",
    "y = a where a > 0, else b a, b the slope; da = dy or b dy, db = 0 or a dy (He et al. 2015)",
    lambda a, b: np.where(a > 0, a, b * a),
    lambda a, b: np.where(a > 0, 1, b),
    lambda a, b: np.where(a > 0, 0, a),
    library="pairs",
    takes=FLOAT,
)
