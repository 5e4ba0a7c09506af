"""SGD, with momentum, Nesterov momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_backend import Array
from gpu_backend.ops import optimizer as kernels

from ..nn.module import Parameter
from .optimizer import Group, Optimizer, _GroupState


class SGD(Optimizer):
    """g = gradient + weight_decay p; p <- p - lr g. With momentum: v <- momentum v + (1 - dampening) g, the first time
    v <- g; p <- p - lr v, or with Nesterov p <- p - lr (g + momentum v). Defaults and formula are PyTorch's.
    """

    name = "SGD"

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Group],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        skip_nonfinite: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults, skip_nonfinite)

    def check(self, group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            if not group[name] >= 0:
                raise ValueError(f"SGD: {name} is not negative, not {group[name]}")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: Nesterov wants a momentum and no dampening")

    def hyper(self, group: Group) -> tuple[float, ...]:
        return (
            float(group["lr"]),
            float(group["momentum"]),
            1.0 - group["dampening"],
            float(group["weight_decay"]),
            float(group["nesterov"]),
        )

    def moments(self, group: Group) -> int:
        return 1 if group["momentum"] else 0

    def kernel_options(self, group: Group) -> tuple[bool]:
        return (bool(group["momentum"]),)

    def advance(self, state: _GroupState, hyper: Array, first: int, count: int) -> None:
        if state.moments[first]:  # only momentum asks for the first step
            kernels.sgd_advance(state.progress, first, count, self._verdict)

    def update(
        self, group: Group, state: _GroupState, hyper: Array, slot: int, parameter: Array, gradient: Array
    ) -> None:
        velocity = state.moments[slot][0] if group["momentum"] else None
        kernels.sgd_update(parameter, gradient, velocity, hyper, state.progress, slot, self._verdict)
