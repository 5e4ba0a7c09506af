"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable

from ..nn.module import Parameter
from .adam import Adam
from .optimizer import Group


class AdamW(Adam):
    """p <- p - lr weight_decay p; m and v are the running means of g and g^2;
    p <- p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). Defaults are PyTorch's.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
    """

    name = "AdamW"
    is_decoupled = True

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        skip_nonfinite: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, skip_nonfinite)
