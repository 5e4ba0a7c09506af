"""Losses that have kernels of their own: cross_entropy."""

from __future__ import annotations

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Spec, float32, int32
from .broadcast import label
from .reduction import mean, sum

__all__ = ["cross_entropy"]

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy_spec(logits: HasSpec, targets: HasSpec, reduction: str = "mean") -> Spec:
    """Cross entropy of logits x (N, C) and class indices t (N,), int32; a mean, a sum, or (N,) for "none".

    With m_n = max_c x_nc and l_n = log sum_c exp(x_nc - m_n): loss_n = l_n - (x_nt - m_n), and
    dx_nc = (exp(x_nc - m_n - l_n) - [c = t_n]) dloss_n, divided by N for the mean. m and l are saved side by side.
    A class index outside 0 .. C-1 is an IndexError: at once on the host; on an adapter at the next read-back, where the
    loss of that row is NaN and its gradient 0. The mean over no rows is NaN.
    """
    require_float("cross_entropy", logits)
    if targets.dtype is not int32:
        raise DtypeError(f"cross_entropy: class indices are int32, not {targets.dtype}")
    if len(logits.shape) != 2 or targets.shape != logits.shape[:1]:
        raise ShapeError(f"cross_entropy: logits (N, C) and class indices (N,), not {logits.shape} and {targets.shape}")
    if logits.shape[0] and not logits.shape[1]:
        raise ShapeError(f"cross_entropy: logits {logits.shape} have no class to choose")
    if reduction not in REDUCTIONS:
        raise ValueError(f"cross_entropy: no reduction {reduction!r}; there are {', '.join(REDUCTIONS)}")
    return Spec(targets.shape if reduction == "none" else (), float32)


def check_class_indices(targets: HostArray, classes: int) -> None:
    """IndexError if a class index that comes from the host is outside 0 .. classes - 1."""
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        raise IndexError(f"cross_entropy: index {int(targets[wrong].flat[0])} is out of range for {classes}")


def cross_entropy_host_forward(
    logits: HostArray, targets: HostArray, reduction: str = "mean"
) -> tuple[HostArray, Saved]:
    check_class_indices(targets, logits.shape[-1])
    largest = logits.max(axis=1) if logits.size else np.zeros(len(logits), logits.dtype)
    log_sum = np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    losses = log_sum - (logits[np.arange(len(targets)), targets] - largest)
    total = losses if reduction == "none" else losses.sum() if reduction == "sum" else _mean(losses)
    return np.asarray(total), (logits, targets, np.stack([largest, log_sum], axis=1), reduction)


def _mean(losses: HostArray) -> HostArray:
    return np.asarray(losses.sum() / losses.dtype.type(len(losses)))


def cross_entropy_host_backward(dloss: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    logits, targets, normalizer, reduction = saved
    dlogits = np.exp(logits - normalizer[:, :1] - normalizer[:, 1:])
    dlogits[np.arange(len(targets)), targets] -= 1
    dlogits *= np.reshape(dloss, (-1, 1))
    return (dlogits / len(targets) if reduction == "mean" else dlogits), None


def cross_entropy_forward(out: Spec, logits: Array, targets: Array, reduction: str = "mean") -> tuple[Array, Saved]:
    rows, cols = logits.shape
    device = logits.device
    losses = allocate((rows,), float32, device, "cross_entropy")
    normalizer = allocate((rows, 2), float32, device, "cross_entropy")
    device.recorder.record(
        device.kernel("cross_entropy", "forward", label=label("cross_entropy", "forward", float32)),
        rows,
        logits=logits,
        targets=targets,
        loss=losses,
        normalizer=normalizer,
        rows=rows,
        cols=cols,
        op=device.recorder.fault_number("cross_entropy"),
        dloss_step=0,
        scale=1.0,
    )
    loss = losses if reduction == "none" else sum(losses) if reduction == "sum" else mean(losses)
    return loss, (logits, targets, normalizer, reduction)


def cross_entropy_backward(dloss: Array, saved: Saved, needs: Needs) -> Gradients:
    logits, targets, normalizer, reduction = saved
    rows, cols = logits.shape
    device = logits.device
    dlogits = allocate(logits.shape, float32, device, "cross_entropy")
    device.recorder.record(
        device.kernel("cross_entropy", "backward", label=label("cross_entropy", "backward", float32)),
        rows,
        logits=logits,
        targets=targets,
        saved_normalizer=normalizer,
        dloss=dloss,
        dlogits=dlogits,
        rows=rows,
        cols=cols,
        op=0,
        dloss_step=int(reduction == "none"),
        scale=1.0 / rows if reduction == "mean" and rows else 1.0,
    )
    return dlogits, None


cross_entropy = Op(
    "cross_entropy",
    cross_entropy_spec,
    cross_entropy_host_forward,
    cross_entropy_forward,
    cross_entropy_host_backward,
    cross_entropy_backward,
)
