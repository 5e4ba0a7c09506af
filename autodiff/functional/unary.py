"""Functions of one tensor, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_backend import ops

from ..tensor import Tensor, apply, apply_promoted
from .method import method


@method
def abs(x: Tensor) -> Tensor:
    """The absolute value; its slope at 0 is 0."""
    return apply(ops.abs, x)


@method
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1, NaN for NaN; its gradient is 0."""
    return apply(ops.sign, x)


def negative(x: Tensor) -> Tensor:
    """-x; integers wrap around."""
    return apply(ops.negative, x)


@method
def square(x: Tensor) -> Tensor:
    """x times x."""
    return apply(ops.square, x)


@method
def reciprocal(x: Tensor) -> Tensor:
    """1 / x, infinite at 0."""
    return apply(ops.reciprocal, x)


@method
def sqrt(x: Tensor) -> Tensor:
    """The square root: NaN below 0."""
    return apply(ops.sqrt, x)


@method
def rsqrt(x: Tensor) -> Tensor:
    """1 over the square root: infinite at 0, NaN below."""
    return apply(ops.rsqrt, x)


@method
def exp(x: Tensor) -> Tensor:
    """e to the power of each element."""
    return apply(ops.exp, x)


@method
def exp2(x: Tensor) -> Tensor:
    """2 to the power of each element."""
    return apply(ops.exp2, x)


@method
def expm1(x: Tensor) -> Tensor:
    """e^x - 1, precise near 0."""
    return apply(ops.expm1, x)


@method
def log(x: Tensor) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below."""
    return apply(ops.log, x)


@method
def log2(x: Tensor) -> Tensor:
    """The logarithm to base 2: -inf at 0, NaN below."""
    return apply(ops.log2, x)


@method
def log10(x: Tensor) -> Tensor:
    """The logarithm to base 10: -inf at 0, NaN below."""
    return apply(ops.log10, x)


@method
def log1p(x: Tensor) -> Tensor:
    """log(1 + x), precise near 0."""
    return apply(ops.log1p, x)


@method
def sin(x: Tensor) -> Tensor:
    """The sine of angles in radians."""
    return apply(ops.sin, x)


@method
def cos(x: Tensor) -> Tensor:
    """The cosine of angles in radians."""
    return apply(ops.cos, x)


@method
def tan(x: Tensor) -> Tensor:
    """The tangent of angles in radians."""
    return apply(ops.tan, x)


@method
def asin(x: Tensor) -> Tensor:
    """The angle between -pi/2 and pi/2 whose sine is x; NaN past 1."""
    return apply(ops.asin, x)


@method
def acos(x: Tensor) -> Tensor:
    """The angle between 0 and pi whose cosine is x; NaN past 1."""
    return apply(ops.acos, x)


@method
def atan(x: Tensor) -> Tensor:
    """The angle between -pi/2 and pi/2 whose tangent is x."""
    return apply(ops.atan, x)


@method
def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine."""
    return apply(ops.sinh, x)


@method
def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine."""
    return apply(ops.cosh, x)


@method
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return apply(ops.tanh, x)


@method
def asinh(x: Tensor) -> Tensor:
    """The inverse of the hyperbolic sine."""
    return apply(ops.asinh, x)


@method
def acosh(x: Tensor) -> Tensor:
    """The inverse of the hyperbolic cosine; NaN below 1."""
    return apply(ops.acosh, x)


@method
def atanh(x: Tensor) -> Tensor:
    """The inverse of the hyperbolic tangent; infinite at 1, NaN past it."""
    return apply(ops.atanh, x)


@method
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return apply(ops.sigmoid, x)


@method
def erf(x: Tensor) -> Tensor:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return apply(ops.erf, x)


@method
def floor(x: Tensor) -> Tensor:
    """The largest whole number up to x; its gradient is 0."""
    return apply(ops.floor, x)


@method
def ceil(x: Tensor) -> Tensor:
    """The smallest whole number from x on; its gradient is 0."""
    return apply(ops.ceil, x)


@method
def round(x: Tensor) -> Tensor:
    """The nearest whole number, of two the even one; its gradient is 0."""
    return apply(ops.round, x)


@method
def trunc(x: Tensor) -> Tensor:
    """x cut towards zero; its gradient is 0."""
    return apply(ops.trunc, x)


@method
def frac(x: Tensor) -> Tensor:
    """x - trunc(x), with the sign of x."""
    return apply(ops.frac, x)


@method
def isnan(x: Tensor) -> Tensor:
    """Whether each element is NaN."""
    return apply(ops.isnan, x)


@method
def isinf(x: Tensor) -> Tensor:
    """Whether each element is infinite."""
    return apply(ops.isinf, x)


@method
def isfinite(x: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN."""
    return apply(ops.isfinite, x)


@method
def signbit(x: Tensor) -> Tensor:
    """Whether the sign is negative, also of -0 and NaN."""
    return apply(ops.signbit, x)


@method
def logical_not(x: Tensor) -> Tensor:
    """Whether each element is 0 or false; NaN is true."""
    return apply(ops.logical_not, x)


def bitwise_invert(x: Tensor) -> Tensor:
    """Every bit inverted; of a bool, its opposite."""
    return apply(ops.bitwise_invert, x)


@method
def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """x between two bounds, each None, a number or what broadcasts; NaN stays. At a bound the slope is 1.

    Bounds that are tensors share the gradient as in ``maximum`` and ``minimum``.
    """
    min, max = (bound.item() if isinstance(bound, np.generic) else bound for bound in (min, max))
    if all(bound is None or isinstance(bound, int | float) for bound in (min, max)) and x.dtype.is_float:
        bounds = {name: float(bound) for name, bound in (("min", min), ("max", max)) if bound is not None}
        return apply(ops.clip, x, **bounds)
    low = x if min is None else apply_promoted(ops.maximum, x, min)
    return low if max is None else apply_promoted(ops.minimum, low, max)


@method
def clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """PyTorch's name of ``clip``."""
    return clip(x, min, max)


@method
def nan_to_num(x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x where it is finite, else ``nan``, ``posinf`` or ``neginf``: by default 0 and the ends of float32's range."""
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    return apply(ops.nan_to_num, x, **{name: number for name, number in given.items() if number is not None})
