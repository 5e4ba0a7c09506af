"""What every optimizer has: parameter groups, state on the device, the loop.

The mathematics of one parameter stands in ``gpu_backend.ops.optimizer``. State is allocated in the constructor and
never moves. Hyper-parameters live in a buffer per group, written when they change; step counts live in a buffer that
the device moves on, so nothing that changes between two steps is a constant of a captured step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from gpu_backend import Array, DeviceError, array, full
from gpu_backend.array import write
from gpu_backend.ops.gradient import clear_verdict, judge
from gpu_backend.ops.optimizer import PROGRESS
from gpu_backend.ops.update import persist

from ..errors import GradientError
from ..freeze import Identified, freeze
from ..nn.module import Parameter
from ..trace import Trace, abandon, tracing

Group = dict[str, Any]


class Optimizer(Identified):
    """Base of the optimizers. ``param_groups`` is a list of dicts with ``params`` and hyper-parameters, which may be
    changed between steps, as in PyTorch.

    With ``skip_nonfinite`` a step in which any gradient has an element that is infinite or NaN changes nothing, moments
    and step counts included: the device decides, without a read-back, and ``skipped_steps`` counts them.
    """

    name = ""

    def __init__(
        self, params: Iterable[Parameter] | Iterable[Group], defaults: dict[str, Any], skip_nonfinite: bool = False
    ) -> None:
        given = list(params)
        if not given:
            raise ValueError(f"{self.name}: there are no parameters")
        groups: list[Group] = given if isinstance(given[0], dict) else [{"params": given}]  # type: ignore[assignment]
        self._skips = skip_nonfinite
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
        device = self.param_groups[0]["params"][0].device
        if any(parameter.device is not device for group in self.param_groups for parameter in group["params"]):
            raise DeviceError(f"{self.name}: the parameters are on several devices; make an optimizer for each")
        self._verdict = persist(array(np.array([1, 0], np.uint32), device=device), "verdict")

    def check(self, group: Group) -> None:
        """ValueError for a hyper-parameter that makes no sense."""
        raise NotImplementedError

    def hyper(self, group: Group) -> tuple[float, ...]:
        """The hyper-parameters of a group in the order in which the kernel reads them."""
        raise NotImplementedError

    def moments(self, group: Group) -> int:
        """How many arrays of state each parameter of the group has."""
        raise NotImplementedError

    def advance(self, state: _GroupState, hyper: Array, first: int, count: int) -> None:
        """Count one step more for a run of parameters."""
        raise NotImplementedError

    def update(
        self, group: Group, state: _GroupState, hyper: Array, slot: int, parameter: Array, gradient: Array
    ) -> None:
        """One step of one parameter."""
        raise NotImplementedError

    @property
    def skip_nonfinite(self) -> bool:
        """Whether steps with gradients that are not finite are skipped; may be set at any time."""
        return self._skips

    @skip_nonfinite.setter
    def skip_nonfinite(self, value: bool) -> None:
        abandon("it sets skip_nonfinite, which a replay would not")
        clear_verdict(self._verdict)
        self._skips = value

    @property
    def skipped_steps(self) -> int:
        """How many steps ``skip_nonfinite`` skipped so far; waits for the device."""
        ok, skipped = self._verdict.numpy()
        return int(skipped + 1 - ok)

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
        gradients = [[parameter.grad for parameter in group["params"]] for group in self.param_groups]
        if not any(gradient is not None for row in gradients for gradient in row):
            raise GradientError(f"{self.name}.step: no parameter has a gradient; call backward() first")
        groups = list(zip(self.param_groups, self._states, strict=True))
        for group, state in groups:  # all of them, before any parameter moves
            self._check_state(group, state)
        trace = tracing()
        if trace is not None:
            trace.optimizer(self)
        if self.skip_nonfinite:
            judge([gradient.array for row in gradients for gradient in row if gradient is not None], self._verdict)
        for (group, state), row in zip(groups, gradients, strict=True):
            hyper = self._hyper_array(group, state, trace)
            for first, count in _runs(row):
                self.advance(state, hyper, first, count)
                for slot in range(first, first + count):
                    self.update(group, state, hyper, slot, group["params"][slot].array, row[slot].array)

    def structure(self) -> tuple[Any, ...]:
        """What decides which kernels a step records, and on which memory; a captured step compares it."""
        groups = self.param_groups
        return (
            self.skip_nonfinite,
            [self.kernel_options(group) for group in groups],
            [list(map(id, group["params"])) for group in groups],
            [[id(parameter.array.storage) for parameter in group["params"]] for group in groups],
        )

    def options(self) -> Any:
        """A frozen copy of the hyper-parameters of all groups."""
        return freeze([{k: v for k, v in group.items() if k != "params"} for group in self.param_groups])

    def kernel_options(self, group: Group) -> tuple[Any, ...]:
        """The options of a group that decide which kernels run, rather than what they read."""
        return ()

    def _check_state(self, group: Group, state: _GroupState) -> None:
        self.check(group)
        if any(len(moments) < self.moments(group) for moments in state.moments):
            raise ValueError(f"{self.name}: this option needs state that was not made at the start; make a new one")
        if len(group["params"]) != len(state.moments):
            raise ValueError(f"{self.name}: parameters were added or taken away; make a new optimizer")
        if any(parameter.device is not state.hyper.device for parameter in group["params"]):
            raise DeviceError(f"{self.name}: the parameters moved to another device; make a new optimizer after to()")

    def _hyper_array(self, group: Group, state: _GroupState, trace: Trace | None) -> Array:
        """The hyper-parameters on the device: in a captured step, what the host writes before each replay."""
        if trace is not None:
            return trace.refreshed(functools.partial(self._checked_hyper, group, state), "hyper-parameters")
        hyper = self.hyper(group)
        if hyper != state.written:
            write(state.hyper, np.array(hyper, np.float32))
            state.written = hyper
        return state.hyper

    def _checked_hyper(self, group: Group, state: _GroupState) -> np.ndarray[Any, Any]:
        hyper = self.hyper(group)
        if hyper != state.checked:
            self._check_state(group, state)
            state.checked, state.checked_array = hyper, np.array(hyper, np.float32)
        return state.checked_array


class _GroupState:
    """What a group of parameters has on the device."""

    def __init__(self, group: Group, hyper: tuple[float, ...], moments: int) -> None:
        parameters = group["params"]
        device = parameters[0].device
        self.written = hyper
        self.checked: tuple[float, ...] = ()
        self.checked_array = np.array(hyper, np.float32)
        self.hyper = persist(array(np.array(hyper, np.float32), device=device), "hyper-parameters")
        self.progress = persist(full((len(parameters), len(PROGRESS)), 0.0, device=device), "step counts")
        self.moments = [
            [persist(full(p.shape, 0.0, device=p.device), "optimizer state") for _ in range(moments)]
            for p in parameters
        ]


def _runs(gradients: list[Any]) -> Iterator[tuple[int, int]]:
    """First slot and length of each run of parameters that have a gradient."""
    start = 0
    for present, members in groupby(gradients, lambda gradient: gradient is not None):
        count = len(list(members))
        if present:
            yield start, count
        start += count
