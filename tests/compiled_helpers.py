"""A model twice, one trained eagerly and one compiled, and bit-by-bit comparison."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim

Make = Callable[[Any], optim.Optimizer]


def same(mine: ad.Tensor, theirs: ad.Tensor) -> None:
    """Equal shape, type and bits; any NaN equals any other."""
    a, b = mine.numpy(), theirs.numpy()
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_array_equal(a, b)


def mlp(widths: tuple[int, ...], dropout: float, seed: int = 0) -> nn.Sequential:
    """Linear layers with relu and, if asked for, dropout between them."""
    ad.manual_seed(seed)
    layers: list[nn.Module] = []
    for index, (a, b) in enumerate(itertools.pairwise(widths)):
        if index:
            layers += [nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        layers.append(nn.Linear(a, b))
    return nn.Sequential(*layers)


def batches(count: int, size: int = 8, width: int = 8, classes: int = 4, seed: int = 0) -> list[tuple[Any, Any]]:
    """Distinct batches of numpy arrays."""
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal((size, width)).astype(np.float32), random.integers(0, classes, size).astype(np.int32))
        for _ in range(count)
    ]


class Pair:
    """Two equal models: ``step`` trains the one, compiled, and ``eager_step`` the other."""

    def __init__(
        self,
        seed: int,
        widths: tuple[int, ...] = (8, 16, 4),
        make: Make = lambda p: optim.SGD(p, lr=0.1),
        dropout: float = 0.0,
        read_loss: bool = False,
        after_backward: Callable[[nn.Module], Any] = lambda model: None,
        **options: Any,
    ) -> None:
        self.compiled, self.eager = mlp(widths, dropout, seed), mlp(widths, dropout, seed)
        self.compiled_optimizer = make(list(self.compiled.parameters()))
        self.eager_optimizer = make(list(self.eager.parameters()))

        def run(model: nn.Module, optimizer: optim.Optimizer, x: Any, target: Any) -> ad.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ad.tensor(x)), ad.tensor(target))
            loss.backward()
            if read_loss:
                loss.item()
            after_backward(model)
            optimizer.step()
            return loss.detach()

        self.step = ad.compiled(lambda x, target: run(self.compiled, self.compiled_optimizer, x, target), **options)
        self.eager_step = lambda x, target: run(self.eager, self.eager_optimizer, x, target)

    def compare(self) -> None:
        """Every parameter and every gradient, bit by bit."""
        for mine, theirs in zip(self.compiled.parameters(), self.eager.parameters(), strict=True):
            same(mine, theirs)
            assert (mine.grad is None) == (theirs.grad is None)
            if mine.grad is not None and theirs.grad is not None:
                same(mine.grad, theirs.grad)
