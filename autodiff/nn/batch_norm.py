"""Batch norm as modules: BatchNorm1d, BatchNorm2d, BatchNorm3d."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gpu_backend import Device, ShapeError

from ..functional import batch_norm
from ..tensor import Tensor
from .module import Buffer, Module, Parameter


class _BatchNorm(Module):
    """``functional.batch_norm`` of num_features channels.

    Training uses, and evaluation does without, the statistics of a batch. The running ones are buffers that start at 0
    and 1 and are moved in place by a share of ``momentum`` with each batch, with None they are the mean of all
    batches; without ``track_running_stats`` there are none. Weight and bias start at 1 and 0; without ``affine`` there
    are none.
    """

    ranks: ClassVar[tuple[int, ...]]
    layout: ClassVar[str]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | Device | None = None,
    ) -> None:
        name = type(self).__name__
        if num_features < 1:
            raise ValueError(f"{name}: the number of features is positive, not {num_features}")
        if momentum is not None and not 0 <= momentum <= 1:
            raise ValueError(f"{name}: momentum lies between 0 and 1, or is None, not {momentum}")
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        ones, zeros = np.ones(num_features, np.float32), np.zeros(num_features, np.float32)
        self.weight = Parameter(ones, device, "weight") if affine else None
        self.bias = Parameter(zeros, device, "bias") if affine else None
        self.running_mean = Buffer(zeros, device, "running_mean") if track_running_stats else None
        self.running_var = Buffer(ones, device, "running_var") if track_running_stats else None
        count = np.zeros((), np.int32)
        self.num_batches_tracked = Buffer(count, device, "num_batches_tracked") if track_running_stats else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: the input has shape {x.shape}, not {self.layout} with C = {self.num_features}"
            )
        return batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
            self.num_batches_tracked,
        )

    def extra_repr(self) -> str:
        extras = "" if self.weight is not None else ", affine=False"
        extras += "" if self.running_mean is not None else ", track_running_stats=False"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}{extras}"


class BatchNorm1d(_BatchNorm):
    """Batch norm of x (N, num_features) or (N, num_features, L)."""

    ranks = (2, 3)
    layout = "(N, C) or (N, C, L)"


class BatchNorm2d(_BatchNorm):
    """Batch norm of x (N, num_features, H, W)."""

    ranks = (4,)
    layout = "(N, C, H, W)"


class BatchNorm3d(_BatchNorm):
    """Batch norm of x (N, num_features, D, H, W)."""

    ranks = (5,)
    layout = "(N, C, D, H, W)"
