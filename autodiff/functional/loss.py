"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_backend import DtypeError, ShapeError, ops
from gpu_backend.ops.loss import check_class_indices

from ..tensor import Tensor, apply, tensor
from .binary import multiply, subtract
from .reduction import mean


def cross_entropy(logits: Tensor, targets: Any, reduction: str = "mean") -> Tensor:
    """-log softmax(logits)[target] of logits (N, C) and class indices (N,); ``reduction`` "mean", "sum" or "none".

    Class indices are int32 tensors, or anything numpy understands as integers. IndexError for one outside 0 .. C-1: at
    once if it comes from the host, at the next read-back if it lives on a device.
    """
    if not isinstance(targets, Tensor):
        indices = np.asarray(targets)
        if indices.dtype.kind not in "iu" and indices.size:
            raise DtypeError(f"cross_entropy: class indices are integers, not {indices.dtype}")
        if logits.ndim == 2:
            check_class_indices(indices, logits.shape[1])
        targets = tensor(indices.astype(np.int32), device=logits.device)
    return apply(ops.cross_entropy, logits, targets, reduction=reduction)


def mse(x: Tensor, target: Any) -> Tensor:
    """The mean of (x - target)^2 over all elements; its gradient is 2 (x - target) / N. The shapes must be equal."""
    goal = target if isinstance(target, Tensor) else tensor(target, device=x.device)
    if x.shape != goal.shape:
        raise ShapeError(f"mse: shapes differ: {x.shape} and {goal.shape}")
    difference = subtract(x, goal)
    return mean(multiply(difference, difference))
