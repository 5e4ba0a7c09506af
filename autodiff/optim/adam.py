"""Adam: running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_backend import Array
from gpu_backend.ops import optimizer as kernels

from ..nn.module import Parameter
from .optimizer import Group, Optimizer, _GroupState


class Adam(Optimizer):
    """g = gradient + weight_decay p; m and v are the running means of g and g^2;
    p <- p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). Defaults are PyTorch's.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1.
    """

    name = "Adam"
    is_decoupled = False

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        skip_nonfinite: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, skip_nonfinite)

    def check(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            if not group[name] >= 0:
                raise ValueError(f"{self.name}: {name} is not negative, not {group[name]}")
        if not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"{self.name}: betas lie in [0, 1), not {group['betas']}")

    def hyper(self, group: Group) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        decay = float(group["weight_decay"])
        return (
            float(group["lr"]),
            beta1,
            1.0 - beta1,
            beta2,
            1.0 - beta2,
            float(group["eps"]),
            decay if self.is_decoupled else 0.0,
            0.0 if self.is_decoupled else decay,
        )

    def moments(self, group: Group) -> int:
        return 2

    def advance(self, state: _GroupState, hyper: Array, first: int, count: int) -> None:
        kernels.adam_advance(state.progress, first, count, hyper, self._verdict)

    def update(
        self, group: Group, state: _GroupState, hyper: Array, slot: int, parameter: Array, gradient: Array
    ) -> None:
        first, second = state.moments[slot]
        kernels.adam_update(parameter, gradient, first, second, hyper, state.progress, slot, self._verdict)
