"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_backend import Array
from gpu_backend.ops import update as kernels

from ..nn.module import Parameter
from .optimizer import Group, Optimizer, _GroupState


class AdamW(Optimizer):
    """p <- p - lr weight_decay p; m and v are the running means of g and g^2;
    p <- p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). Defaults are PyTorch's.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
    """

    name = "AdamW"

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def check(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            if not group[name] >= 0:
                raise ValueError(f"AdamW: {name} is not negative, not {group[name]}")
        if not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"AdamW: betas lie in [0, 1), not {group['betas']}")

    def hyper(self, group: Group) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return (
            float(group["lr"]),
            beta1,
            1.0 - beta1,
            beta2,
            1.0 - beta2,
            float(group["eps"]),
            float(group["weight_decay"]),
        )

    def moments(self, group: Group) -> int:
        return 2

    def advance(self, state: _GroupState, first: int, count: int) -> None:
        kernels.adamw_advance(state.progress, first, count, state.hyper)

    def update(self, state: _GroupState, slot: int, parameter: Array, gradient: Array) -> None:
        first, second = state.moments[slot]
        kernels.adamw_update(parameter, gradient, first, second, state.hyper, state.progress, slot)
