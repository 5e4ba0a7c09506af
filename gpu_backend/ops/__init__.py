"""The catalogue of ops. Each is called with arrays and gives an array; gradients are autodiff's business."""

from __future__ import annotations

from ..op import Op
from .elementwise import (
    add,
    astype,
    divide,
    equal,
    exp,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    multiply,
    negative,
    not_equal,
    relu,
    sigmoid,
    sqrt,
    subtract,
    tanh,
    where,
)
from .loss import cross_entropy
from .matmul import linear, matmul
from .movement import broadcast_to, full, permute_dims, reshape
from .normalization import log_softmax, softmax
from .reduction import max, mean, sum

OPS: tuple[Op, ...] = (
    add,
    subtract,
    multiply,
    divide,
    negative,
    exp,
    log,
    sqrt,
    tanh,
    sigmoid,
    relu,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    where,
    astype,
    sum,
    mean,
    max,
    reshape,
    permute_dims,
    broadcast_to,
    matmul,
    linear,
    softmax,
    log_softmax,
    cross_entropy,
)

__all__ = ["OPS", "full", *[op.name for op in OPS]]
