"""How exact the built-in functions of WGSL have to be: the bounds that ``assert_close`` takes by their names.

Source: WGSL specification, section "Floating Point Accuracy". Where the accuracy of a function is inherited from an
expression, the bound is propagated through that expression to first order, on the arguments at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

_EXACT = (
    *("abs", "ceil", "clamp", "floor", "frexp", "ldexp", "max", "min", "modf", "quantizeToF16", "round", "sign"),
    *("saturate", "step", "transpose", "trunc", "negate", "add", "subtract", "multiply"),
)


class Precision:
    """A float type: its ulp, its smallest normal number, and the parts of the bounds that depend on it."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        info = np.finfo(dtype)
        self.dtype = dtype
        self.is_half = dtype.itemsize == 2
        self.digits = int(info.nmant)
        self.smallest = float(info.smallest_normal)
        self.largest = float(info.max)

    def ulp(self, x: Numbers) -> Numbers:
        """The distance of the two numbers of the type around ``x``; that of subnormals is the smallest there is."""
        size = np.clip(np.abs(x), self.smallest, self.largest)
        return np.asarray(np.exp2(np.floor(np.log2(size)) - self.digits))


Bound = Callable[[Precision, Numbers, tuple[Numbers, ...]], Numbers]


def _ulps(f32: float, f16: float | None = None) -> Bound:
    return lambda p, y, args: p.ulp(y) * (f16 if p.is_half and f16 is not None else f32)


def _exponential(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    return np.asarray(p.ulp(y) * ((1 if p.is_half else 3) + 2 * np.abs(args[0])))


def _logarithm(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    near_one = (args[0] >= 0.5) & (args[0] <= 2.0)
    return np.where(near_one, 2.0**-7 if p.is_half else 2.0**-21, 3 * p.ulp(y))


def _circular(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    error = np.full(y.shape, 2.0**-7 if p.is_half else 2.0**-11)
    return np.where(np.abs(args[0]) <= np.pi, error, np.inf)


def _tangent(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """sin(x) / cos(x)"""
    error = _circular(p, y, args)
    cosine = np.maximum(np.abs(np.cos(args[0])) - error, 1e-300)
    return np.asarray(error / cosine * (1 + np.abs(y)) + 2.5 * p.ulp(y))


def _hyperbolic(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """(exp(x) -+ exp(-x)) * 0.5"""
    up, down = np.exp(args[0]), np.exp(-args[0])
    return np.asarray((_exponential(p, up, args) + _exponential(p, down, args)) * 0.5 + 2 * p.ulp(y))


def _tanh(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """sinh(x) / cosh(x), or an absolute error of 1e-5, the worse of the two"""
    sine, cosine = np.sinh(args[0]), np.cosh(args[0])
    inherited = (_hyperbolic(p, sine, args) + np.abs(y) * _hyperbolic(p, cosine, args)) / cosine + 2.5 * p.ulp(y)
    return np.maximum(np.nan_to_num(inherited, nan=np.inf), 1e-5)


def _power(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """exp2(y * log2(x))"""
    base, exponent = args
    logarithm = np.log2(base)
    product = exponent * logarithm
    error = np.abs(exponent) * _logarithm(p, logarithm, (base,)) + p.ulp(product)
    return np.asarray(np.abs(y) * np.expm1(error * np.log(2)) + _exponential(p, y, (product,)))


def _inverse_circular(absolute: float) -> Bound:
    """The worse of an absolute error and that of atan2 with sqrt(1 - x x), which loses digits near 1."""

    def bound(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
        one = p.ulp(np.ones_like(y))
        root = np.sqrt(np.maximum(1 - args[0] ** 2, 0))
        root_error = np.minimum(2 * one / np.maximum(root, 1e-300), np.sqrt(2 * one)) + 5 * p.ulp(root)
        inherited = root_error + (5 if p.is_half else 4096) * p.ulp(y)
        return np.maximum(inherited, 3.91e-3 if p.is_half else absolute)

    return bound


def _area(sign: int) -> Bound:
    """log(x + sqrt(x x + sign)): the argument of log may cancel, or overflow."""

    def bound(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
        x = np.abs(args[0])
        argument = np.exp(y)
        square_error = 2 * p.ulp(x * x + 1)
        root = np.sqrt(np.maximum(x * x + sign, 0))
        root_error = np.minimum(square_error / np.maximum(root, 1e-300), np.sqrt(square_error)) + 5 * p.ulp(root)
        lost = (root_error + p.ulp(np.maximum(x, root))) / argument
        error = _logarithm(p, y, (argument,)) + _log_error(lost)
        return np.where(x * x < p.largest, error, np.inf)

    return bound


def _area_tangent(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """log((1 + x) / (1 - x)) * 0.5"""
    argument = np.exp(2 * y)
    one = p.ulp(np.ones_like(y))
    lost = one / (1 + args[0]) + one / (1 - args[0]) + 3 * one
    return np.asarray(0.5 * (_logarithm(p, 2 * y, (argument,)) + _log_error(lost)) + p.ulp(y))


def _log_error(lost: Numbers) -> Numbers:
    """How far log may be off if its argument is off by this share of itself."""
    return np.where(lost < 1, -np.log1p(-np.minimum(lost, 1)), np.inf)


def _root(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """1 / inverseSqrt(x)"""
    size = np.maximum(np.abs(y), 1e-300)
    return np.asarray(2 * p.ulp(1 / size) * size * size + 2.5 * p.ulp(y))


def _rounded(p: Precision, y: Numbers, args: tuple[Numbers, ...]) -> Numbers:
    """Correctly rounded: exact where there is such a number, else one of its two neighbours."""
    return np.where(y.astype(p.dtype) == y, 0.0, p.ulp(y))


BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(_EXACT, _rounded),
    "divide": _ulps(2.5),
    "sqrt": _root,
    "inverseSqrt": _ulps(2.0),
    "exp": _exponential,
    "exp2": _exponential,
    "log": _logarithm,
    "log2": _logarithm,
    "sin": _circular,
    "cos": _circular,
    "tan": _tangent,
    "sinh": _hyperbolic,
    "cosh": _hyperbolic,
    "tanh": _tanh,
    "pow": _power,
    "atan": _ulps(4096.0, 5.0),
    "atan2": _ulps(4096.0, 5.0),
    "asin": _inverse_circular(6.81e-5),
    "acos": _inverse_circular(6.77e-5),
    "asinh": _area(1),
    "acosh": _area(-1),
    "atanh": _area_tangent,
    "degrees": _ulps(2.0),
    "radians": _ulps(2.0),
    "fract": _ulps(1.0),
    "unpack2x16float": _rounded,
    "unpack2x16snorm": _ulps(3.0),
    "unpack2x16unorm": _ulps(3.0),
    "unpack4x8snorm": _ulps(3.0),
    "unpack4x8unorm": _ulps(3.0),
}
"""The bound of each function, absolute, from the precision, the exact results and the arguments."""

WITHOUT_ARGUMENTS = frozenset(
    [*_EXACT, "divide", "sqrt", "fract", "inverseSqrt", "atan", "atan2", "degrees", "radians"]
    + [name for name in BOUNDS if name.startswith("unpack")]
)
"""The functions whose bound depends on the result alone."""
