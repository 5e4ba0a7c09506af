"""batch_norm: channels brought to mean 0 and variance 1 over a batch; batch_statistics; running statistics."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..device import same_device
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, float32, int32, size_of
from .broadcast import label
from .creation import zeros
from .reduction import reduce_axes
from .update import own

__all__ = ["batch_norm", "batch_statistics"]

CHUNK = 4096  # elements of a channel that one workgroup adds up


def batch_statistics_spec(x: HasSpec) -> Spec:
    """y = for each channel of x (N, C, ...) its mean over all else, as the sum of two floats, and its variance: (C, 3).

    The variance is divided by the number of elements. The first float is the mean in float32, the second what it
    leaves, without which elements far from 0 would be off by much of their deviation. No gradient. ShapeError if a
    channel is empty.
    """
    _check_input("batch_statistics", x)
    if not _count(x.shape):
        raise ShapeError(f"batch_statistics: there is nothing in the channels of {x.shape}")
    return Spec((x.shape[1], 3), float32)


def _check_input(name: str, x: HasSpec) -> None:
    if isinstance(x, int | float):
        raise ShapeError(f"{name}: the input is an array, not the number {x}")
    require_float(name, x)
    if len(x.shape) < 2:
        raise ShapeError(f"{name}: the input has shape {x.shape}, not (N, C, ...)")


def _count(shape: Shape) -> int:
    """The elements of a channel."""
    return shape[0] * size_of(shape[2:])


def _by_channel(x: HostArray) -> HostArray:
    """(C, elements)."""
    return np.moveaxis(x, 1, 0).reshape(x.shape[1], _count(x.shape))


def _as_channels(numbers: HostArray, like: HostArray) -> HostArray:
    """A number per channel, to be broadcast."""
    return numbers.reshape(-1, *(1,) * (like.ndim - 2))


def batch_statistics_host_forward(x: HostArray) -> tuple[HostArray, Saved]:
    rows = _by_channel(x).astype(np.float64)
    mean = rows.mean(axis=1)
    first = mean.astype(x.dtype)
    return np.stack([first, mean - first, rows.var(axis=1)], axis=1).astype(x.dtype), ()


def batch_statistics_forward(out: Spec, x: Array) -> tuple[Array, Saved]:
    return _statistics("batch_statistics", x), ()


batch_statistics = Op(
    "batch_statistics", batch_statistics_spec, batch_statistics_host_forward, batch_statistics_forward
)


def batch_norm_spec(
    x: HasSpec,
    weight: HasSpec | None = None,
    bias: HasSpec | None = None,
    statistics: HasSpec | None = None,
    eps: float = 1e-5,
) -> Spec:
    """y = xhat weight + bias, xhat = (x - m) / sqrt(v + eps), of x (N, C, ...) with mean m and variance v of a channel.

    v is divided by the number n of elements. weight and bias (C,), or None. ``statistics`` (C, 3): what
    batch_statistics gives for x, to spare the work; they count as made from x all the same, and get a gradient of 0.
    Ioffe and Szegedy, Batch normalization, 2015. dbias = sum of dy and dweight = sum of dy xhat over a channel, dx =
    weight (dy - dbias / n - xhat dweight / n) / sqrt(v + eps). Equal elements give bias, exactly. ShapeError for one
    element a channel, of which nothing would be left.
    """
    _check_input("batch_norm", x)
    require_float("batch_norm", weight, bias, statistics)
    channels = x.shape[1]
    if _count(x.shape) < 2:
        raise ShapeError(f"batch_norm: more than one element per channel is wanted, the input has shape {x.shape}")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (channels,):
            raise ShapeError(f"batch_norm: the {name} has shape {given.shape}, {channels} channels want ({channels},)")
    if statistics is not None and statistics.shape != (channels, 3):
        raise ShapeError(f"batch_norm: the statistics have shape {statistics.shape}, not ({channels}, 3)")
    if not eps >= 0:
        raise ValueError(f"batch_norm: eps is 0 or more, not {eps}")
    return Spec(x.shape, float32)


def batch_norm_host_forward(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    statistics: HostArray | None = None,
    eps: float = 1e-5,
) -> tuple[HostArray, Saved]:
    known = batch_statistics_host_forward(x)[0] if statistics is None else statistics
    y = _xhat(x, known, eps)
    y = y if weight is None else y * _as_channels(weight, x)
    y = y if bias is None else y + _as_channels(bias, x)
    return y, (x, weight, known, eps)


def _xhat(x: HostArray, statistics: HostArray, eps: float) -> HostArray:
    mean, rest, variance = (_as_channels(column, x) for column in statistics.T)
    return np.asarray(((x - mean) - rest) / np.sqrt(variance + x.dtype.type(eps)))


def batch_norm_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, weight, statistics, eps = saved
    xhat = _xhat(x, statistics, eps)
    dbias = _by_channel(dy).sum(axis=1, dtype=np.float64).astype(dy.dtype)
    dweight = _by_channel(dy * xhat).sum(axis=1, dtype=np.float64).astype(dy.dtype)
    n = x.dtype.type(_count(x.shape))
    dx = None
    if needs[0]:
        left = (dy - _as_channels(dbias / n, x)) - xhat * _as_channels(dweight / n, x)
        dx = left / np.sqrt(_as_channels(statistics[:, 2], x) + x.dtype.type(eps))
        dx = dx if weight is None else dx * _as_channels(weight, x)
    dstatistics = np.zeros_like(statistics) if needs[3] else None
    return dx, dweight if needs[1] else None, dbias if needs[2] else None, dstatistics


@lru_cache(maxsize=16)
def _prelude(has_weight: bool, has_bias: bool) -> str:
    return (
        f"fn weight_at(c: u32) -> f32 {{ return {'weight[c]' if has_weight else '1.0'}; }}\n"
        f"fn bias_at(c: u32) -> f32 {{ return {'bias[c]' if has_bias else '0.0'}; }}\n"
    )


def _params(x: Array, eps: float = 0.0) -> dict[str, Any]:
    count = _count(x.shape)
    parts = -(-count // CHUNK)
    sizes = {"channels": x.shape[1], "volume": size_of(x.shape[2:]), "count": count, "items": x.size}
    return {**sizes, "chunk": CHUNK, "parts": parts, "eps": float(eps)}


def _record(name: str, entry: str, groups: int, has_weight: bool, has_bias: bool, **arguments: Any) -> None:
    """Note one dispatch of an entry point of wgsl/batch_norm.wgsl; no groups: one invocation for each item."""
    device = next(x for x in arguments.values() if isinstance(x, Array)).device
    prelude = _prelude(has_weight, has_bias)
    kernel = device.kernel("batch_norm", entry, prelude, (), label(name, entry, float32))
    if groups:
        device.recorder.record(kernel, groups, **arguments)
    else:
        device.recorder.record_over(kernel, arguments["items"], **arguments)


def _statistics(name: str, x: Array) -> Array:
    channels, params = x.shape[1], _params(x)
    parts = allocate((channels, params["parts"], 3), float32, x.device, name)
    _record(name, "statistics_parts", channels * params["parts"], False, False, x=x, made_parts=parts, **params)
    made = allocate((channels, 3), float32, x.device, name)
    arrays = {"statistics_of_parts": parts, "made_statistics": made}
    _record(name, "statistics_total", channels, False, False, **arrays, **params)
    return made


def batch_norm_forward(
    out: Spec,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    statistics: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Saved]:
    known = _statistics("batch_norm", x) if statistics is None else statistics
    y = allocate(x.shape, float32, x.device, "batch_norm")
    arrays = {"x": x, "statistics": known, "y": y}
    arrays |= {} if weight is None else {"weight": weight}
    arrays |= {} if bias is None else {"bias": bias}
    _record("batch_norm", "forward", 0, weight is not None, bias is not None, **arrays, **_params(x, eps))
    return y, (x, weight, known, eps)


def batch_norm_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, weight, statistics, eps = saved
    params = _params(x, eps)
    device, channels = x.device, x.shape[1]
    shape = (params["parts"], channels)
    dweight_parts, dbias_parts = (allocate(shape, float32, device, "batch_norm") for _ in range(2))
    arrays = {"x": x, "statistics": statistics, "dy": dy}
    made = {"dweight_parts": dweight_parts, "dbias_parts": dbias_parts}
    _record("batch_norm", "gradient_parts", channels * params["parts"], False, False, **arrays, **made, **params)
    dweight, dbias = (
        reduce_axes("batch_norm", "sum", each, (0,), (channels,)) if shape[0] > 1 else each.reshape(channels)
        for each in (dweight_parts, dbias_parts)
    )
    dx = None
    if needs[0]:
        dx = allocate(x.shape, float32, device, "batch_norm")
        arrays |= {} if weight is None else {"weight": weight}
        sums = {"dweight": dweight, "dbias": dbias}
        _record("batch_norm", "backward", 0, weight is not None, False, dx=dx, **arrays, **sums, **params)
    dstatistics = zeros(statistics.shape, device=device) if needs[3] else None
    return dx, dweight if needs[1] else None, dbias if needs[2] else None, dstatistics


batch_norm = Op(
    "batch_norm",
    batch_norm_spec,
    batch_norm_host_forward,
    batch_norm_forward,
    batch_norm_host_backward,
    batch_norm_backward,
)


def update_running(
    running_mean: Array,
    running_var: Array,
    batches: Array | None,
    statistics: Array,
    count: int,
    momentum: float | None,
) -> None:
    """running <- running + factor (new - running), in place, for the mean and variance of ``count`` elements a channel.

    The new variance is divided by count - 1. factor is ``momentum``, or, if that is None, 1 / batches. ``batches``, an
    int32 of shape (1,) or (), is raised by one before.
    """
    name, device = "batch_norm", statistics.device
    channels = statistics.shape[0]
    for x in (running_mean, running_var):
        same_device(name, device, x.device)
        if x.shape != (channels,):
            raise ShapeError(f"{name}: running statistics have shape {x.shape}, {channels} channels want {(channels,)}")
        if x.dtype is not float32:
            raise DtypeError(f"{name}: a running statistic is of float32, not {x.dtype}")
    if batches is None and momentum is None:
        raise ValueError(f"{name}: without a momentum, a count of batches is wanted")
    if batches is not None and (batches.size != 1 or batches.dtype is not int32):
        raise DtypeError(f"{name}: the count of batches is one int32, not {batches.shape} {batches.dtype}")
    targets = [running_mean, running_var, *([] if batches is None else [batches])]
    with device.lock:
        own(*targets)
        if device.is_host:
            _update_on_host(running_mean, running_var, batches, statistics, count, momentum)
        else:
            recorder = device.recorder
            params = {"channels": channels, "count": count, "momentum": momentum or 0.0}
            if batches is not None:
                counting = device.kernel("running_statistics", "count_batch", label="batch_norm.count_batch[i32]")
                recorder.record(counting, 1, next_batches=batches, **params)
            entry = "cumulate" if momentum is None else "update"
            kernel = device.kernel("running_statistics", entry, label=label(name, entry, float32))
            arrays = {"running_mean": running_mean, "running_var": running_var, "statistics": statistics}
            arrays |= {"batches": batches} if momentum is None and batches is not None else {}
            recorder.record_over(kernel, channels, **arrays, **params)
        for x in targets:
            x.storage.version += 1


def _update_on_host(
    running_mean: Array,
    running_var: Array,
    batches: Array | None,
    statistics: Array,
    count: int,
    momentum: float | None,
) -> None:
    if batches is not None:
        batches.host()[...] += 1
    factor = momentum
    if factor is None and batches is not None:
        factor = 1 / batches.host().item()
    mean, rest, variance = statistics.host().T
    with np.errstate(all="ignore"):
        for x, new in ((running_mean, mean + rest), (running_var, variance * np.float32(count / (count - 1)))):
            x.host()[...] += np.float32(factor) * (new - x.host())
