"""Reductions of several steps: var, std, logsumexp, norm."""

from __future__ import annotations

import math

import numpy as np

from ..array import Array
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import Axis, HasSpec, Shape, Spec, float32, normalize_axes, reduced_shape, size_of
from .broadcast import record_pair
from .reduction import reduce_axes
from .unary import abs, sqrt

__all__ = ["logsumexp", "norm", "std", "var"]


def _kept(shape: Shape, axes: Shape) -> Shape:
    return reduced_shape(shape, axes, keepdims=True)


def _count(shape: Shape, axes: Shape) -> int:
    return size_of(tuple(shape[axis] for axis in axes))


def _pair(name: str, shape: Shape, a: Array, b: Array | float, constant: float | None = None) -> Array:
    """A function of wgsl/lib/reduction_pairs.wgsl, elementwise."""
    spec = Spec(shape, float32)
    return record_pair(name, "forward", spec, a, b, library="reduction_pairs", constant=constant)


def _spec(name: str, x: HasSpec, axis: Axis, keepdims: bool, correction: float = 0.0) -> Spec:
    require_float(name, x)
    if isinstance(correction, bool) or not isinstance(correction, int | float | np.number) or not correction >= 0:
        raise ValueError(f"{name}: the correction is a number from 0 on, not {correction!r}")
    return Spec(reduced_shape(x.shape, normalize_axes(name, axis, len(x.shape)), keepdims), float32)


# var and std. What is saved is x - mean, from which both gradients come.


def _deviations(name: str, x: Array, axes: Shape) -> Array:
    """x - mean, twice, since one float does not hold the mean where it is much larger than what differs from it."""
    kept, count = _kept(x.shape, axes), _count(x.shape, axes)
    for _ in range(2):
        mean = reduce_axes(name, "sum", x, axes, kept, count)
        x = record_pair("subtract", "forward", Spec(x.shape, float32), x, mean)
    return x


def _deviations_host(x: HostArray, axes: Shape) -> HostArray:
    rest, count = x.astype(np.float64), np.float64(_count(x.shape, axes))
    for _ in range(2):  # once would do, but for infinities
        rest = rest - rest.sum(axis=axes, keepdims=True) / count
    return np.asarray(rest, x.dtype)


def _divisor(shape: Shape, axes: Shape, correction: float) -> float:
    count = _count(shape, axes) - correction
    return count if count > 0 else 0.0


def var_spec(x: HasSpec, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Spec:
    """y = sum (x - mean)^2 / m over ``axis``, m = n - correction for n elements; dx = dy 2 (x - mean) / m.

    In two passes, so nothing cancels far from 0. Where m is 0 or less it counts as 0: NaN for equal elements, else inf.
    """
    return _spec("var", x, axis, keepdims, correction)


def var_host_forward(
    x: HostArray, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> tuple[HostArray, Saved]:
    axes = normalize_axes("var", axis, x.ndim)
    rest, divisor = _deviations_host(x, axes), _divisor(x.shape, axes, correction)
    total = np.square(rest, dtype=np.float64).sum(axis=axes, keepdims=keepdims)
    return np.asarray(total / np.float64(divisor), x.dtype), (rest, axes, divisor)


def var_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    rest, axes, divisor = saved
    share = dy.reshape(_kept(rest.shape, axes)) * dy.dtype.type(2) / dy.dtype.type(divisor)
    return (np.asarray(rest * share),)


def var_forward(
    out: Spec, x: Array, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> tuple[Array, Saved]:
    axes = normalize_axes("var", axis, x.ndim)
    rest, divisor = _deviations("var", x, axes), _divisor(x.shape, axes, correction)
    squares = record_pair("multiply", "forward", Spec(x.shape, float32), rest, rest)
    return reduce_axes("var", "sum", squares, axes, out.shape, divisor), (rest, axes, divisor)


def var_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    rest, axes, divisor = saved
    kept = Spec(_kept(rest.shape, axes), float32)
    share = record_pair("divide", "forward", kept, dy.reshape(kept.shape), divisor / 2)
    return (record_pair("multiply", "forward", Spec(rest.shape, float32), rest, share),)


var = Op("var", var_spec, var_host_forward, var_forward, var_host_backward, var_backward)


def std_spec(x: HasSpec, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Spec:
    """y = sqrt(var(x)) over ``axis``, with m = n - correction; dx = dy (x - mean) / (m y), 0 where y is 0."""
    return _spec("std", x, axis, keepdims, correction)


def std_host_forward(
    x: HostArray, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> tuple[HostArray, Saved]:
    variance, (rest, axes, divisor) = var_host_forward(x, axis, correction, keepdims)
    y = np.asarray(np.sqrt(variance))
    return y, (rest, y, axes, divisor)


def std_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    rest, y, axes, divisor = saved
    kept = _kept(rest.shape, axes)
    share = dy.reshape(kept) / dy.dtype.type(divisor)
    return (np.asarray(_ratio(rest, y.reshape(kept)) * share),)


def std_forward(
    out: Spec, x: Array, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> tuple[Array, Saved]:
    variance, (rest, axes, divisor) = var_forward(out, x, axis, correction, keepdims)
    y = sqrt(variance)
    return y, (rest, y, axes, divisor)


def std_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    rest, y, axes, divisor = saved
    kept = Spec(_kept(rest.shape, axes), float32)
    share = record_pair("divide", "forward", kept, dy.reshape(kept.shape), divisor)
    units = _pair("ratio", rest.shape, rest, y.reshape(kept.shape))
    return (record_pair("multiply", "forward", Spec(rest.shape, float32), units, share),)


std = Op("std", std_spec, std_host_forward, std_forward, std_host_backward, std_backward)


def _ratio(a: HostArray, b: HostArray) -> HostArray:
    """a / b, 0 where b is 0."""
    return np.where(b == 0, b.dtype.type(0), a / np.where(b == 0, b.dtype.type(1), b))


def logsumexp_spec(x: HasSpec, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = m + log(s) over ``axis``, s = sum exp(x - m), m = max x; dx = dy exp(x - m) / s.

    -inf alone, or nothing, gives -inf, and a gradient of 0. inf gives inf, and those that are inf share the gradient.
    """
    return _spec("logsumexp", x, axis, keepdims)


def logsumexp_host_forward(x: HostArray, axis: Axis = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
    axes = normalize_axes("logsumexp", axis, x.ndim)
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    total = np.asarray(_shifted_exp(x, largest).sum(axis=axes, keepdims=True))
    y = np.where(np.isinf(largest), largest, np.log(total) + largest)
    return np.asarray(y, x.dtype).reshape(reduced_shape(x.shape, axes, keepdims)), (x, largest, total)


def logsumexp_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, largest, total = saved
    return (np.asarray(_shifted_exp(x, largest) * _ratio(dy.reshape(total.shape), total)),)


def _shifted_exp(x: HostArray, largest: HostArray) -> HostArray:
    """e^(x - largest): 1 where x reaches it, also an infinite one, and 0 where all are -inf."""
    terms = np.where(x == largest, 1, np.exp(x - largest))
    return np.asarray(np.where(largest == -np.inf, 0, terms), x.dtype)


def logsumexp_forward(out: Spec, x: Array, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes = normalize_axes("logsumexp", axis, x.ndim)
    kept = _kept(x.shape, axes)
    largest = reduce_axes("logsumexp", "max", x, axes, kept)
    terms = _pair("shifted_exp", x.shape, x, largest)
    total = reduce_axes("logsumexp", "sum", terms, axes, kept)
    return _pair("shifted_log", kept, total, largest).reshape(out.shape), (x, largest, total)


def logsumexp_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, largest, total = saved
    share = _pair("ratio", total.shape, dy.reshape(total.shape), total)
    terms = _pair("shifted_exp", x.shape, x, largest)
    return (record_pair("multiply", "forward", Spec(x.shape, float32), terms, share),)


logsumexp = Op(
    "logsumexp",
    logsumexp_spec,
    logsumexp_host_forward,
    logsumexp_forward,
    logsumexp_host_backward,
    logsumexp_backward,
)


def norm_spec(x: HasSpec, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Spec:
    """y = (sum |x|^p)^(1/p) over ``axis``, p = ``ord`` > 0, max |x| for inf; dx = dy sign(x) (|x| / y)^(p-1).

    |x| is divided by its largest m first, so that no power overflows or vanishes, nor a gradient where y is past the
    range of float32: with s = sum (|x| / m)^p, dx = dy sign(x) (|x| / m)^(p-1) s^(1/p-1). The gradient of an
    element that is 0 is 0; for inf, those that tie share it equally. 0 over nothing. ValueError unless ``ord`` is above
    0.
    """
    if isinstance(ord, bool) or not isinstance(ord, int | float | np.number) or not ord > 0:
        raise ValueError(f"norm: ord is a number above 0, or inf, not {ord!r}")
    return _spec("norm", x, axis, keepdims)


def norm_host_forward(
    x: HostArray, ord: float = 2, axis: Axis = None, keepdims: bool = False
) -> tuple[HostArray, Saved]:
    axes = normalize_axes("norm", axis, x.ndim)
    size = np.abs(x.astype(np.float64))
    largest = np.max(size, axis=axes, keepdims=True, initial=0)
    total = np.ones_like(largest)
    if ord == math.inf:
        y = largest
    else:
        scale = np.where(np.isinf(largest), 1, largest)
        terms = np.where(np.isinf(largest), np.where(np.isnan(size), size, np.isinf(size)), _ratio(size, scale) ** ord)
        total = terms.sum(axis=axes, keepdims=True)
        y = largest * total ** (1 / ord)
    y = np.asarray(np.where(largest == 0, 0, y), x.dtype).reshape(reduced_shape(x.shape, axes, keepdims))
    return y, (x, np.asarray(largest, x.dtype), np.asarray(total, x.dtype), axes, float(ord))


def norm_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, largest, total, axes, ord = saved
    share, sign = dy.reshape(total.shape), np.where(x < 0, -1, np.where(x == 0, 0, 1))
    if ord == math.inf:
        slopes = (np.abs(x) == largest) | (np.isnan(x) & np.isnan(largest))
        slopes = slopes / slopes.sum(axis=axes, keepdims=True)
    else:
        slopes = np.where(x == 0, 0, _ratio(np.abs(x), largest) ** (ord - 1))
        share = np.where(total == 0, 0, share * np.where(total == 0, 1, total) ** (1 / ord - 1))
    return (np.asarray(sign * slopes * share, dy.dtype),)


def norm_forward(out: Spec, x: Array, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    axes, order = normalize_axes("norm", axis, x.ndim), float(ord)
    kept, size = _kept(x.shape, axes), abs(x)
    if order == 1 or not x.size:
        y = largest = total = reduce_axes("norm", "sum", size, axes, kept)
    else:
        y = largest = total = reduce_axes("norm", "max", size, axes, kept)
        if order != math.inf:
            total = reduce_axes("norm", "sum", _pair("norm_term", x.shape, x, largest, order), axes, kept)
            y = _pair("norm_root", kept, total, largest, order)
    return y.reshape(out.shape), (x, largest, total, axes, order)


def norm_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, largest, total, axes, order = saved
    kept, whole = Spec(largest.shape, float32), Spec(x.shape, float32)
    share = dy.reshape(kept.shape)
    if order == math.inf:
        ties = _pair("peak", x.shape, x, largest)
        count = reduce_axes("norm", "sum", ties, axes, kept.shape)
        share = record_pair("divide", "forward", kept, share, count)
        slopes = _pair("signed", x.shape, ties, x)
    else:
        slopes = _pair("norm_slope", x.shape, x, largest, order)
        share = share if order == 1 else _pair("norm_share", kept.shape, share, total, order)
    return (record_pair("multiply", "forward", whole, slopes, share),)


norm = Op("norm", norm_spec, norm_host_forward, norm_forward, norm_host_backward, norm_backward)
