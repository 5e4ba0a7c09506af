"""Schedules: learning rates as functions of how often ``step`` was called.

Each computes the rate of a group from the one it started with, in float64 on the host. Inside a compiled step they go
on with each replay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..freeze import Identified
from ..trace import Undo, abandon, tracing
from .optimizer import Optimizer

Factor = Callable[[int], float]


class Schedule(Identified):
    """Base of the schedules: sets ``lr`` in each parameter group when it is made and after each ``step``."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def rate(self, group: int, base: float, epoch: int) -> float:
        """The learning rate of a group after ``epoch`` steps."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on to the next learning rates."""
        trace = tracing()
        self._advance()
        if trace is not None:
            trace.on_replay(self._advance, self._keep)
            trace.options_changed(self.optimizer)

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group now."""
        abandon("it reads learning rates on the host")
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What ``load_state_dict`` takes: the number of steps and the rates at the start."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where ``state_dict`` was asked. ValueError if the number of groups differs."""
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}: the state has {len(state['base_lrs'])} groups, the optimizer "
                f"{len(self.base_lrs)}"
            )
        self.last_epoch, self.base_lrs = int(state["last_epoch"]), [float(lr) for lr in state["base_lrs"]]
        self._set()

    def _advance(self) -> None:
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        if len(self.optimizer.param_groups) != len(self.base_lrs):
            raise ValueError(f"{type(self).__name__}: parameter groups were added or taken away; make a new one")
        rates = [self.rate(group, base, self.last_epoch) for group, base in enumerate(self.base_lrs)]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _keep(self) -> Undo:
        epoch, rates = self.last_epoch, [group["lr"] for group in self.optimizer.param_groups]

        def back() -> None:
            self.last_epoch = epoch
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate

        return back


class StepLR(Schedule):
    """lr = base gamma^floor(epoch / step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size is 1 or more, not {step_size}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, group: int, base: float, epoch: int) -> float:
        return base * self.gamma ** (epoch // self.step_size)


class CosineAnnealingLR(Schedule):
    """lr = eta_min + (base - eta_min) (1 + cos(pi epoch / T_max)) / 2, and up again past T_max.

    Loshchilov and Hutter, SGDR, 2017, equation 5, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max is 1 or more, not {T_max}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer)

    def rate(self, group: int, base: float, epoch: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class LambdaLR(Schedule):
    """lr = base factor(epoch); one factor for all groups, or a list with one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor]) -> None:
        groups = len(optimizer.param_groups)
        self.factors: list[Factor] = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.factors) != groups:
            raise ValueError(f"LambdaLR: {len(self.factors)} factors for {groups} parameter groups")
        super().__init__(optimizer)

    def rate(self, group: int, base: float, epoch: int) -> float:
        return base * self.factors[group](epoch)
