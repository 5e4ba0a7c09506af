"""batch_norm, with running statistics; group_norm and instance_norm, which are layer norms of other rows."""

from __future__ import annotations

from gpu_backend import ShapeError, ops
from gpu_backend.ops.batch_normalization import update_running
from gpu_backend.spec import size_of

from ..tape import no_grad
from ..tensor import Tensor, apply
from .binary import subtract
from .choice import addcmul
from .layer_normalization import layer_norm
from .unary import rsqrt


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    num_batches_tracked: Tensor | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) weight + bias, of x (N, C, ...) by channels.

    In ``training``, or without running statistics: those of the batch, towards which the running ones are moved, in
    place, by a share of ``momentum``, the variance divided by n - 1; with None by 1 / ``num_batches_tracked``, which is
    raised by one before. Otherwise the running ones, (C,), which get no gradient.
    """
    if not training and running_mean is not None and running_var is not None:
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    if running_mean is None or running_var is None:
        return apply(ops.batch_norm, x, weight, bias, None, eps=eps)
    ops.batch_norm.spec(x, weight, bias, None, eps)  # nothing is changed if it raises
    with no_grad():
        statistics = apply(ops.batch_statistics, x)
    y = apply(ops.batch_norm, x, weight, bias, statistics, eps=eps)
    batches = None if num_batches_tracked is None else num_batches_tracked.array
    count = x.shape[0] * size_of(x.shape[2:])
    update_running(running_mean.array, running_var.array, batches, statistics.array, count, momentum)
    return y


def _by_running(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: the input has shape {x.shape}, not (N, C, ...)")
    channels = x.shape[1]
    for name, given in (("running mean", mean), ("running variance", variance), ("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (channels,):
            raise ShapeError(f"batch_norm: the {name} has shape {given.shape}, {channels} channels want ({channels},)")
    wide = (1, channels, *(1,) * (x.ndim - 2))
    scale = rsqrt(variance.detach() + eps)
    scale = scale if weight is None else scale * weight
    apart = subtract(x, mean.detach().reshape(wide))
    return apart * scale.reshape(wide) if bias is None else addcmul(bias.reshape(wide), apart, scale.reshape(wide))


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """x (N, C, ...) brought to mean 0 and variance 1 over each of ``num_groups`` groups of channels of one image, times
    weight (C,) plus bias (C,). Wu and He, Group normalization, 2018."""
    if x.ndim < 2:
        raise ShapeError(f"group_norm: the input has shape {x.shape}, not (N, C, ...)")
    channels = x.shape[1]
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels do not divide into {num_groups} groups")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (channels,):
            raise ShapeError(f"group_norm: the {name} has shape {given.shape}, {channels} channels want ({channels},)")
    length = channels // num_groups * size_of(x.shape[2:])
    y = layer_norm(x.reshape(x.shape[0] * num_groups, length), length, eps=eps).reshape(x.shape)
    wide = (1, channels, *(1,) * (x.ndim - 2))
    if bias is not None:
        bias = bias.reshape(wide)
        return y + bias if weight is None else addcmul(bias, y, weight.reshape(wide))
    return y if weight is None else y * weight.reshape(wide)


def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """``group_norm`` with a group for each channel."""
    return group_norm(x, x.shape[1] if x.ndim > 1 else 1, weight, bias, eps)
