"""What every optimizer has: parameter groups, state on the device, the loop.

The mathematics of one parameter stands in ``gpu_backend.ops.update``. State is allocated in the constructor and never
moves. Hyper-parameters live in a buffer per group, written when they change; step counts live in a buffer that the
device moves on, so nothing that changes between two steps is a constant of a recorded step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from gpu_backend import Array, DeviceError, array, full
from gpu_backend.array import write
from gpu_backend.ops.update import PROGRESS, persist

from ..errors import GradientError
from ..nn.module import Parameter

Group = dict[str, Any]


class Optimizer:
    """Base of the optimizers. ``param_groups`` is a list of dicts with ``params`` and hyper-parameters, which may be
    changed between steps, as in PyTorch.
    """

    name = ""

    def __init__(self, params: Iterable[Parameter] | Iterable[Group], defaults: dict[str, Any]) -> None:
        given = list(params)
        if not given:
            raise ValueError(f"{self.name}: there are no parameters")
        groups: list[Group] = given if isinstance(given[0], dict) else [{"params": given}]  # type: ignore[assignment]
        self.param_groups: list[Group] = []
        self._states: list[_GroupState] = []
        seen: set[int] = set()
        for group in groups:
            unknown = group.keys() - defaults.keys() - {"params"}
            if unknown:
                raise ValueError(f"{self.name}: no option {', '.join(sorted(unknown))}")
            complete = {**defaults, **group, "params": list(group["params"])}
            for parameter in complete["params"]:
                if not isinstance(parameter, Parameter):
                    raise TypeError(f"{self.name}: takes parameters, not {type(parameter).__name__}")
                if id(parameter) in seen:
                    raise ValueError(f"{self.name}: a parameter of shape {parameter.shape} comes twice")
                seen.add(id(parameter))
            self.check(complete)
            self.param_groups.append(complete)
            self._states.append(_GroupState(complete, self.hyper(complete), self.moments(complete)))

    def check(self, group: Group) -> None:
        """ValueError for a hyper-parameter that makes no sense."""
        raise NotImplementedError

    def hyper(self, group: Group) -> tuple[float, ...]:
        """The hyper-parameters of a group in the order in which the kernel reads them."""
        raise NotImplementedError

    def moments(self, group: Group) -> int:
        """How many arrays of state each parameter of the group has."""
        raise NotImplementedError

    def advance(self, state: _GroupState, first: int, count: int) -> None:
        """Count one step more for a run of parameters."""
        raise NotImplementedError

    def update(self, state: _GroupState, slot: int, parameter: Array, gradient: Array) -> None:
        """One step of one parameter."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient; the next backward starts from nothing. With ``set_to_none`` False, fill them with 0."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none or parameter.grad is None:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()

    def step(self) -> None:
        """Move every parameter that has a gradient. GradientError if none has one."""
        if not any(parameter.grad is not None for group in self.param_groups for parameter in group["params"]):
            raise GradientError(f"{self.name}.step: no parameter has a gradient; call backward() first")
        groups = list(zip(self.param_groups, self._states, strict=True))
        for group, state in groups:  # all of them, before any parameter moves
            self.check(group)
            if any(len(moments) < self.moments(group) for moments in state.moments):
                raise ValueError(f"{self.name}: this option needs state that was not made at the start; make a new one")
            if len(group["params"]) != len(state.moments):
                raise ValueError(f"{self.name}: parameters were added or taken away; make a new optimizer")
            if any(parameter.device is not state.hyper.device for parameter in group["params"]):
                raise DeviceError(
                    f"{self.name}: the parameters moved to another device; make a new optimizer after to()"
                )
        for group, state in groups:
            state.write_hyper(self.hyper(group))
            for first, count in _runs(group["params"]):
                self.advance(state, first, count)
                for slot in range(first, first + count):
                    parameter = group["params"][slot]
                    self.update(state, slot, parameter.array, parameter.grad.array)


class _GroupState:
    """What a group of parameters has on the device."""

    def __init__(self, group: Group, hyper: tuple[float, ...], moments: int) -> None:
        parameters = group["params"]
        device = parameters[0].device
        self.written = hyper
        self.hyper = persist(array(np.array(hyper, np.float32), device=device), "hyper-parameters")
        self.progress = persist(full((len(parameters), len(PROGRESS)), 0.0, device=device), "step counts")
        self.moments = [
            [persist(full(p.shape, 0.0, device=p.device), "optimizer state") for _ in range(moments)]
            for p in parameters
        ]

    def write_hyper(self, hyper: tuple[float, ...]) -> None:
        if hyper != self.written:
            write(self.hyper, np.array(hyper, np.float32))
            self.written = hyper


def _runs(parameters: list[Parameter]) -> Iterator[tuple[int, int]]:
    """First slot and length of each run of parameters that have a gradient."""
    start = 0
    for present, members in groupby(parameters, lambda parameter: parameter.grad is not None):
        count = len(list(members))
        if present:
            yield start, count
        start += count
