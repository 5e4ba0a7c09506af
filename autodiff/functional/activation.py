"""Activation functions."""

from __future__ import annotations

from gpu_backend import ShapeError, ops

from ..tensor import Tensor, apply
from .method import accepts_dim, method


@method
def relu(x: Tensor) -> Tensor:
    """max(x, 0); its slope at 0 is 0."""
    return apply(ops.relu, x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return apply(ops.relu6, x)


def selu(x: Tensor) -> Tensor:
    """1.0507 x where x > 0, else 1.7581 (exp(x) - 1)."""
    return apply(ops.selu, x)


def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return apply(ops.logsigmoid, x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + abs(x))."""
    return apply(ops.softsign, x)


def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return apply(ops.hardsigmoid, x)


def hardswish(x: Tensor) -> Tensor:
    """x hardsigmoid(x)."""
    return apply(ops.hardswish, x)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x), also called swish."""
    return apply(ops.silu, x)


def mish(x: Tensor) -> Tensor:
    """x tanh(log(1 + exp(x)))."""
    return apply(ops.mish, x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope x."""
    return apply(ops.leaky_relu, x, negative_slope=negative_slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x) - 1)."""
    return apply(ops.elu, x, alpha=alpha)


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x / alpha) - 1)."""
    return apply(ops.celu, x, alpha=alpha)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    return apply(ops.softplus, x, beta=beta, threshold=threshold)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """min(max(x, min_val), max_val); at a bound the slope is 0."""
    return apply(ops.hardtanh, x, min_val=min_val, max_val=max_val)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the standard normal distribution function; ``approximate="tanh"`` takes the form with tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return apply(ops.gelu_tanh if approximate == "tanh" else ops.gelu, x)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight x, for a weight of one element, or one for each channel, axis 1 of x."""
    if weight.size == 1:
        return apply(ops.prelu, x, apply(ops.reshape, weight, shape=()))
    if x.ndim < 2 or weight.shape != (x.shape[1],):
        raise ShapeError(
            f"prelu: the weight has shape {weight.shape}, for x {x.shape} it is (1,) or one for each of axis 1"
        )
    return apply(ops.prelu, x, apply(ops.reshape, weight, shape=(-1, *(1,) * (x.ndim - 2))))


@accepts_dim
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """a sigmoid(b), a and b the two halves of x along ``axis``."""
    return apply(ops.glu, x, axis=axis)


@accepts_dim
def swiglu(x: Tensor, axis: int = -1) -> Tensor:
    """a silu(b), a and b the two halves of x along ``axis``."""
    return apply(ops.swiglu, x, axis=axis)


@accepts_dim
def geglu(x: Tensor, axis: int = -1) -> Tensor:
    """a gelu(b), a and b the two halves of x along ``axis``."""
    return apply(ops.geglu, x, axis=axis)


@accepts_dim
def reglu(x: Tensor, axis: int = -1) -> Tensor:
    """a relu(b), a and b the two halves of x along ``axis``."""
    return apply(ops.reglu, x, axis=axis)
