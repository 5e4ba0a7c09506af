"""Activation functions: relu and its kin, and the gated ones, which halve an axis."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, float32, normalize_axis, size_of
from .broadcast import label
from .elementwise import HostFunction, unary
from .unary import erf_host, sigmoid, sigmoid_host, tanh

__all__ = [
    "celu",
    "elu",
    "geglu",
    "gelu",
    "gelu_tanh",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "reglu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softsign",
    "swiglu",
]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_SCALE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


def _log1p_exp(x: HostArray) -> HostArray:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _cdf(x: HostArray) -> HostArray:
    return np.asarray(0.5 * (1 + erf_host(np.asarray(x / math.sqrt(2)))))


def _gelu(x: HostArray) -> HostArray:
    return x * _cdf(x)


def _gelu_slope(x: HostArray) -> HostArray:
    return _cdf(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu_tanh(x: HostArray) -> HostArray:
    return x * sigmoid_host(np.asarray(2 * GELU_SCALE * (x + GELU_CUBE * x**3)))


def _gelu_tanh_slope(x: HostArray) -> HostArray:
    s = sigmoid_host(np.asarray(2 * GELU_SCALE * (x + GELU_CUBE * x**3)))
    inner = 2 * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x)
    return np.asarray(np.where(np.abs(x) > 15, x > 0, s + x * s * (1 - s) * inner))


def _silu(x: HostArray) -> HostArray:
    return x * sigmoid_host(x)


def _silu_slope(x: HostArray) -> HostArray:
    s = sigmoid_host(x)
    return np.asarray(s * (1 + x * (1 - s)))


def _elu(x: HostArray, alpha: float) -> HostArray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _elu_slope(x: HostArray, alpha: float) -> HostArray:
    return np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0)))


def _softplus(x: HostArray, beta: float, threshold: float) -> HostArray:
    return np.where(beta * x > threshold, x, _log1p_exp(beta * x) / beta)


def _softplus_slope(x: HostArray, beta: float, threshold: float) -> HostArray:
    return np.asarray(np.where(beta * x > threshold, 1.0, sigmoid_host(np.asarray(beta * x))))


def _hardsigmoid(x: HostArray) -> HostArray:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def _hardswish_slope(x: HostArray) -> HostArray:
    return np.where(np.abs(x) >= 3, (x > 0).astype(x.dtype), (2 * x + 3) / 6)


def _mish_slope(x: HostArray) -> HostArray:
    t = np.tanh(_log1p_exp(x))
    return np.asarray(t + x * (1 - t * t) * sigmoid_host(x))


def _positive(op: str, name: str, number: float) -> None:
    if not number > 0:
        raise ValueError(f"{op}: {name} is above 0, not {number}")


relu = unary(
    "relu",
    "y = max(x, 0); dx = dy where y > 0, else 0",
    lambda x: np.maximum(x, 0),
    lambda y: (y > 0) | np.isnan(y),
    saves="y",
)
relu6 = unary(
    "relu6",
    "y = min(max(x, 0), 6); dx = dy where 0 < x < 6, else 0",
    lambda x: np.clip(x, 0, 6),
    lambda x: (x > 0) & (x < 6),
    library="activation",
)
leaky_relu = unary(
    "leaky_relu",
    "y = x where x > 0, else negative_slope x; dx = dy or negative_slope dy",
    lambda x, slope: np.where(x > 0, x, slope * x),
    lambda x, slope: np.where(x > 0, 1.0, slope),
    library="activation",
    numbers={"negative_slope": 0.01},
)
elu = unary(
    "elu",
    "y = x where x > 0, else alpha (e^x - 1); dx = dy or alpha e^x dy (Clevert et al. 2016)",
    _elu,
    _elu_slope,
    library="activation",
    numbers={"alpha": 1.0},
)
selu = unary(
    "selu",
    "y = 1.0507 elu(x, 1.6733); dx = dy times its slope (Klambauer et al. 2017)",
    lambda x: SELU_SCALE * _elu(x, SELU_ALPHA),
    lambda x: SELU_SCALE * _elu_slope(x, SELU_ALPHA),
    library="activation",
)
celu = unary(
    "celu",
    "y = x where x > 0, else alpha (e^(x / alpha) - 1); dx = dy or e^(x / alpha) dy (Barron 2017)",
    lambda x, alpha: _elu(x / alpha, alpha) + np.where(x > 0, x - x / alpha, 0),
    lambda x, alpha: _elu_slope(x / alpha, 1.0),
    library="activation",
    numbers={"alpha": 1.0},
    check=lambda alpha: _positive("celu", "alpha", alpha),
)
softplus = unary(
    "softplus",
    "y = log(1 + e^(beta x)) / beta, x where beta x > threshold; dx = dy sigmoid(beta x) or dy",
    _softplus,
    _softplus_slope,
    library="activation",
    numbers={"beta": 1.0, "threshold": 20.0},
    check=lambda beta, threshold: _positive("softplus", "beta", beta),
)
logsigmoid = unary(
    "logsigmoid",
    "y = log(sigmoid(x)), without overflow; dx = dy sigmoid(-x)",
    lambda x: -_log1p_exp(-x),
    lambda x: sigmoid_host(-x),
    library="activation",
)
softsign = unary(
    "softsign",
    "y = x / (1 + |x|); dx = dy / (1 + |x|)^2",
    lambda x: x / (1 + np.abs(x)),
    lambda x: 1 / (1 + np.abs(x)) ** 2,
    library="activation",
)


def _check_hardtanh(low: float, high: float) -> None:
    if not low <= high:
        raise ValueError(f"hardtanh: min_val {low} is above max_val {high}")


hardtanh = unary(
    "hardtanh",
    "y = min(max(x, min_val), max_val); dx = dy where min_val < x < max_val, else 0",
    lambda x, low, high: np.clip(x, low, high),
    lambda x, low, high: (x > low) & (x < high),
    library="activation",
    numbers={"min_val": -1.0, "max_val": 1.0},
    check=_check_hardtanh,
)
hardsigmoid = unary(
    "hardsigmoid",
    "y = min(max(x + 3, 0), 6) / 6; dx = dy / 6 where -3 < x < 3, else 0 (Howard et al. 2019)",
    _hardsigmoid,
    lambda x: (np.abs(x) < 3) / 6,
    library="activation",
)
hardswish = unary(
    "hardswish",
    "y = x hardsigmoid(x); dx = dy (2 x + 3) / 6 where -3 < x < 3, 0 below, dy above (Howard et al. 2019)",
    lambda x: x * _hardsigmoid(x),
    _hardswish_slope,
    library="activation",
)
silu = unary(
    "silu",
    "y = x s, s = sigmoid(x); dx = dy s (1 + x (1 - s)) (Elfwing et al. 2017)",
    _silu,
    _silu_slope,
    library="activation",
)
mish = unary(
    "mish",
    "y = x t, t = tanh(log(1 + e^x)); dx = dy (t + x (1 - t^2) sigmoid(x)) (Misra 2019)",
    lambda x: x * np.tanh(_log1p_exp(x)),
    _mish_slope,
    library="activation",
)
gelu = unary(
    "gelu",
    "y = x P(x), P the distribution function of the standard normal and p its density; dx = dy (P + x p) "
    "(Hendrycks and Gimpel 2016)",
    _gelu,
    _gelu_slope,
    library="activation",
)
gelu_tanh = unary(
    "gelu_tanh",
    "y = x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3); dx = dy y' (Hendrycks and Gimpel 2016)",
    _gelu_tanh,
    _gelu_tanh_slope,
    library="activation",
)

# What linear may apply to its result: functions whose slope is told from y.
ACTIVATIONS = {op.name: op for op in (tanh, sigmoid, relu)}


# Gated activations: x is halved along an axis into a and b; y = a f(b).


def _gated(name: str, inner: str, formula: str, value: HostFunction, slope: HostFunction) -> Op:
    """y = a f(b); da = dy f(b), db = dy a f'(b), with f the ``<inner>_value`` of wgsl/lib/activation."""

    def spec(x: HasSpec, axis: int = -1) -> Spec:
        require_float(name, x)
        place = normalize_axis(name, axis, len(x.shape))
        if x.shape[place] % 2:
            raise ShapeError(
                f"{name}: axis {axis} of shape {x.shape} is halved, but its extent {x.shape[place]} is odd"
            )
        return Spec((*x.shape[:place], x.shape[place] // 2, *x.shape[place + 1 :]), float32)

    def host_forward(x: HostArray, axis: int = -1) -> tuple[HostArray, Saved]:
        place = normalize_axis(name, axis, x.ndim)
        a, b = np.split(x, 2, axis=place)
        return np.asarray(a * value(b), x.dtype), (x, place)

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        x, place = saved
        a, b = np.split(x, 2, axis=place)
        return (np.asarray(np.concatenate([dy * value(b), dy * a * slope(b)], axis=place), dy.dtype),)

    def forward(out: Spec, x: Array, axis: int = -1) -> tuple[Array, Saved]:
        place = normalize_axis(name, axis, x.ndim)
        y = allocate(out.shape, float32, x.device, name)
        _record_gated(name, inner, "forward", x.shape, place, x=x, y=y)
        return y, (x, place)

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        x, place = saved
        dx = allocate(x.shape, float32, x.device, name)
        _record_gated(name, inner, "backward", x.shape, place, x=x, dy=dy, dx=dx)
        return (dx,)

    spec.__doc__ = (
        f"y = a f(b) for the two halves a and b of x along ``axis``, f = {formula}; da = dy f(b), db = dy a f'(b), "
        "dx = both.\n\nShazeer, GLU variants improve transformer, 2020, and torch's order of the halves. "
        "ShapeError where the extent is odd."
    )
    return Op(name, spec, host_forward, forward, host_backward, backward)


@lru_cache(maxsize=16)
def _gate(inner: str) -> str:
    b = "sigmoid_value(b)" if inner == "sigmoid" else "b"  # whose slope takes y
    return (
        "// uses: lib/activation\n"
        f"fn gate(b: f32) -> f32 {{ return {inner}_value(b); }}\n"
        f"fn gate_slope(b: f32) -> f32 {{ return {inner}_slope({b}); }}\n"
    )


def _record_gated(name: str, inner: str, entry: str, shape: Shape, axis: int, **arrays: Array) -> None:
    device = arrays["x"].device
    kernel = device.kernel("gated", entry, _gate(inner), (), label(name, entry, float32))
    size = size_of(shape) // 2
    device.recorder.record_over(kernel, size, size=size, half=size_of(shape[axis:]) // 2, **arrays)


glu = _gated("glu", "sigmoid", "sigmoid", sigmoid_host, lambda b: sigmoid_host(b) * (1 - sigmoid_host(b)))
swiglu = _gated("swiglu", "silu", "silu", _silu, _silu_slope)
geglu = _gated("geglu", "gelu", "gelu", _gelu, _gelu_slope)
reglu = _gated("reglu", "relu", "relu", lambda b: np.maximum(b, 0), lambda b: (b > 0).astype(b.dtype))
