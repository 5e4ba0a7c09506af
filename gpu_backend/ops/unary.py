"""Functions of one array: y = value(x); dx = dy slope(x), or of what it saves."""

from __future__ import annotations

import math

import numpy as np

from ..array import Array
from ..op import HostArray, Op, Saved
from ..spec import HasSpec, Spec, bool_
from .elementwise import ANY, INTEGERS, NUMBERS, unary

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_invert",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "nan_to_num",
    "negative",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

LN2 = math.log(2)
FLOAT32_MAX = float(np.finfo(np.float32).max)


def sigmoid_host(x: HostArray) -> HostArray:
    """1 / (1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1.0 + small), x.dtype)


def erf_host(x: HostArray) -> HostArray:
    """The error function, element by element: numpy has none."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), x.dtype)


def _clip_host(x: HostArray, low: float, high: float) -> HostArray:
    return np.clip(x, low, high) if x.dtype.kind == "f" else np.clip(x.astype(np.float64), low, high)


def _nan_to_num_host(x: HostArray, nan: float, posinf: float, neginf: float) -> HostArray:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# Sign and size. A slope at a corner is the mean of both sides.

abs = unary("abs", "y = |x|; dx = dy sign(x), 0 at 0", np.abs, np.sign, takes=NUMBERS)
sign = unary("sign", "y = -1, 0 or 1, NaN for NaN; dx = 0", np.sign, np.zeros_like, takes=NUMBERS)
negative = unary(
    "negative",
    "y = -x, for integers 0 - x, which wraps around; dx = -dy",
    np.negative,
    lambda x: np.full_like(x, -1),
    takes=NUMBERS,
)
square = unary("square", "y = x^2; dx = 2 x dy", np.square, lambda x: 2 * x, takes=NUMBERS)
reciprocal = unary("reciprocal", "y = 1 / x, infinite at 0; dx = -dy y^2", np.reciprocal, lambda y: -y * y, saves="y")
clip = unary(
    "clip",
    "y = x where min <= x <= max, else the bound it passed, max where they cross; NaN stays. dx = dy where "
    "min <= x <= max, else 0",
    _clip_host,
    lambda x, low, high: (x >= low) & (x <= high),
    numbers={"min": -math.inf, "max": math.inf},
)

# Powers and logarithms.

sqrt = unary("sqrt", "y = the square root of x, NaN below 0; dx = dy / (2 y)", np.sqrt, lambda y: 0.5 / y, saves="y")
rsqrt = unary(
    "rsqrt",
    "y = 1 / sqrt(x), infinite at 0, NaN below; dx = -dy y^3 / 2",
    lambda x: 1 / np.sqrt(x),
    lambda y: -0.5 * y**3,
    saves="y",
)
exp = unary("exp", "y = e^x; dx = dy y", np.exp, lambda y: y, saves="y", library="exponential")
exp2 = unary("exp2", "y = 2^x; dx = dy y log 2", np.exp2, lambda y: LN2 * y, saves="y", library="exponential")
expm1 = unary("expm1", "y = e^x - 1; dx = dy (y + 1)", np.expm1, lambda y: y + 1, saves="y", library="exponential")
log = unary(
    "log",
    "y = the natural logarithm of x, -inf at 0, NaN below; dx = dy / x",
    np.log,
    lambda x: 1 / x,
    library="exponential",
)
log2 = unary(
    "log2",
    "y = the logarithm of x to base 2, -inf at 0, NaN below; dx = dy / (x log 2)",
    np.log2,
    lambda x: 1 / (x * LN2),
    library="exponential",
)
log10 = unary(
    "log10",
    "y = the logarithm of x to base 10, -inf at 0, NaN below; dx = dy / (x log 10)",
    np.log10,
    lambda x: 1 / (x * math.log(10)),
    library="exponential",
)
log1p = unary(
    "log1p",
    "y = log(1 + x), -inf at -1, NaN below; dx = dy / (1 + x)",
    np.log1p,
    lambda x: 1 / (1 + x),
    library="exponential",
)

# Trigonometric and hyperbolic functions; angles in radians, NaN for an infinite angle.

sin = unary("sin", "y = sin(x); dx = dy cos(x)", np.sin, np.cos, library="trigonometric")
cos = unary("cos", "y = cos(x); dx = -dy sin(x)", np.cos, lambda x: -np.sin(x), library="trigonometric")
tan = unary("tan", "y = tan(x); dx = dy (1 + y^2)", np.tan, lambda y: 1 + y * y, saves="y", library="trigonometric")
asin = unary(
    "asin",
    "y = the angle in -pi/2 .. pi/2 whose sine is x, NaN past 1; dx = dy / sqrt(1 - x^2)",
    np.arcsin,
    lambda x: 1 / np.sqrt((1 - x) * (1 + x)),
    library="trigonometric",
)
acos = unary(
    "acos",
    "y = the angle in 0 .. pi whose cosine is x, NaN past 1; dx = -dy / sqrt(1 - x^2)",
    np.arccos,
    lambda x: -1 / np.sqrt((1 - x) * (1 + x)),
    library="trigonometric",
)
atan = unary(
    "atan",
    "y = the angle in -pi/2 .. pi/2 whose tangent is x; dx = dy / (1 + x^2)",
    np.arctan,
    lambda x: 1 / (1 + x * x),
    library="trigonometric",
)
sinh = unary("sinh", "y = sinh(x); dx = dy cosh(x)", np.sinh, np.cosh, library="exponential")
cosh = unary("cosh", "y = cosh(x); dx = dy sinh(x)", np.cosh, np.sinh, library="exponential")
tanh = unary("tanh", "y = tanh(x); dx = dy (1 - y^2)", np.tanh, lambda y: 1 - y * y, saves="y", library="exponential")
asinh = unary(
    "asinh",
    "y = asinh(x); dx = dy / sqrt(1 + x^2)",
    np.arcsinh,
    lambda x: 1 / np.hypot(1, x),
    library="exponential",
)
acosh = unary(
    "acosh",
    "y = acosh(x), NaN below 1; dx = dy / sqrt(x^2 - 1)",
    np.arccosh,
    lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    library="exponential",
)
atanh = unary(
    "atanh",
    "y = atanh(x), infinite at 1, NaN past it; dx = dy / (1 - x^2)",
    np.arctanh,
    lambda x: 1 / ((1 - x) * (1 + x)),
    library="exponential",
)
sigmoid = unary(
    "sigmoid",
    "y = 1 / (1 + e^-x); dx = dy y (1 - y)",
    sigmoid_host,
    lambda y: y * (1 - y),
    saves="y",
    library="exponential",
)
erf = unary(
    "erf",
    "y = 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x; dx = dy 2 / sqrt(pi) e^(-x^2)",
    erf_host,
    lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    library="activation",
)

# Rounding. The slope of a step is 0.

floor = unary("floor", "y = the largest whole number up to x; dx = 0", np.floor, np.zeros_like)
ceil = unary("ceil", "y = the smallest whole number from x on; dx = 0", np.ceil, np.zeros_like)
round = unary("round", "y = the nearest whole number, of two the even one; dx = 0", np.round, np.zeros_like)
trunc = unary("trunc", "y = x cut towards zero; dx = 0", np.trunc, np.zeros_like)
frac = unary("frac", "y = x - trunc(x), with the sign of x; dx = dy", lambda x: x - np.trunc(x), np.ones_like)

# Tests: bool, without a gradient.

isnan = unary("isnan", "whether x is NaN", np.isnan, takes=NUMBERS, result=bool_)
isinf = unary("isinf", "whether x is infinite", np.isinf, takes=NUMBERS, result=bool_)
isfinite = unary("isfinite", "whether x is neither infinite nor NaN", np.isfinite, takes=NUMBERS, result=bool_)
signbit = unary(
    "signbit", "whether the sign of x is negative, also of -0 and NaN", np.signbit, takes=NUMBERS, result=bool_
)
nan_to_num = unary(
    "nan_to_num",
    "y = x where it is finite, else nan, posinf or neginf; dx = dy where x is finite, else 0",
    _nan_to_num_host,
    lambda x, *_: np.isfinite(x),
    numbers={"nan": 0.0, "posinf": FLOAT32_MAX, "neginf": -FLOAT32_MAX},
)
logical_not = unary("logical_not", "whether x is 0 or false; NaN is true", np.logical_not, takes=ANY, result=bool_)
_invert = unary("bitwise_invert", "every bit of x inverted", np.invert, takes=INTEGERS)


def bitwise_invert_spec(x: HasSpec) -> Spec:
    """y = every bit of x inverted; of a bool, its opposite. Elementwise, integers and bool."""
    return Spec(x.shape, bool_) if x.dtype is bool_ else _invert.spec(x)


def bitwise_invert_forward(out: Spec, x: Array) -> tuple[Array, Saved]:
    return (logical_not if x.dtype is bool_ else _invert)(x), ()


bitwise_invert = Op("bitwise_invert", bitwise_invert_spec, _invert.host_forward, bitwise_invert_forward)
