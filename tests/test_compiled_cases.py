"""Public bug reports of compiled steps, as small cases with right values: those of P-CS that test_compiled.py, which
names the others, does not already hold."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_helpers import Pair, batches, same

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim

pytestmark = pytest.mark.usefixtures("gpu")


def trained(p: nn.Parameter, optimizer: optim.Optimizer, gradients: list[float], lrs: list[float]) -> list[float]:
    """The values of a parameter after each compiled step with a given gradient and learning rate."""

    @ad.compiled
    def step(gradient: ad.Tensor) -> None:
        optimizer.zero_grad()
        (p * gradient).sum().backward()
        optimizer.step()

    seen = []
    for gradient, lr in zip(gradients, lrs, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        step(np.full(1, gradient, np.float32))
        seen.append(p.item())
    assert step.stats().replays == len(lrs) - 1
    return seen


def test_the_learning_rate_is_not_frozen() -> None:
    """P-CS01: Adam, constant gradient, lr 0.1, 0.1, 0.01, 0.01."""
    p = nn.Parameter([1.0])
    seen = trained(p, optim.Adam([p], lr=0.1), [1.0] * 4, [0.1, 0.1, 0.01, 0.01])
    np.testing.assert_allclose(seen, [0.9, 0.8, 0.79, 0.78], atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [optim.SGD, lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9), optim.Adam, optim.AdamW],
)
def test_the_step_count_is_not_frozen(make: object) -> None:
    """P-CS02: a gradient that alternates, 50 steps."""
    mine, theirs = nn.Parameter([1.0]), nn.Parameter([1.0])
    seen = trained(mine, make([mine], lr=0.05), [1.0, -1.0] * 25, [0.05] * 50)  # type: ignore[operator]
    optimizer = make([theirs], lr=0.05)  # type: ignore[operator]
    for number in range(50):
        theirs.grad = ad.tensor([(-1.0) ** number])
        optimizer.step()
        assert theirs.item() == pytest.approx(seen[number], abs=1e-6)


def test_no_parameter_is_left_out() -> None:
    """P-CS04: after five steps every parameter differs from its start and equals eager."""
    pair = Pair(0, widths=(8, 12, 10, 4), make=lambda p: optim.Adam(p, lr=0.01), dropout=0.1)
    start = [p.numpy() for p in pair.compiled.parameters()]
    ad.manual_seed(1)
    for x, target in batches(5):
        pair.step(x, target)
    ad.manual_seed(1)
    for x, target in batches(5):
        pair.eager_step(x, target)
    pair.compare()
    assert all(np.abs(p.numpy() - was).max() > 0 for p, was in zip(pair.compiled.parameters(), start, strict=True))


def test_a_detached_value_is_made_anew() -> None:
    """P-CS07: straight-through, y = x + detach(f(x) - x): y = f(x) with the new x, gradient 1."""

    @ad.compiled
    def f(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        leaf = ad.tensor(x, requires_grad=True)
        rounded = leaf.detach().astype("int32").astype("float32")
        y = leaf + (rounded - leaf).detach()
        y.sum().backward()
        assert leaf.grad is not None
        return y, leaf.grad

    for value in (1.25, 2.75, -3.5):
        y, gradient = f(np.full(2, value, np.float32))
        assert y.tolist() == [float(int(value))] * 2
        assert gradient.tolist() == [1.0, 1.0]


def test_inputs_in_containers_and_numbers() -> None:
    """P-CS11: a list, a dict, a keyword, a number alone; each new value is used."""

    @ad.compiled
    def f(x: object, scale: float = 1.0) -> ad.Tensor:
        item = x[0] if isinstance(x, list) else x["x"] if isinstance(x, dict) else x
        return ad.tensor(item) * scale if isinstance(item, ad.Tensor) else ad.tensor([1.0]) * item * scale

    for value in (1.0, 2.0, 5.0):
        x = np.full(1, value, np.float32)
        assert f([x]).item() == value
        assert f({"x": x}).item() == value
        assert f(x, scale=2.0).item() == 2 * value
        assert f(x, scale=3.0).item() == 3 * value
        assert f(3).item() == 3.0
        assert f(value).item() == value


def test_labels_are_not_frozen() -> None:
    """P-CS14: the same x, labels 0 then 1, logits 0: the gradient is (-.5, .5), then (.5, -.5)."""
    logits = nn.Parameter(np.zeros((1, 2)))

    @ad.compiled
    def f(target: ad.Tensor) -> ad.Tensor:
        logits.grad = None
        F.cross_entropy(logits * 1.0, target).backward()
        assert logits.grad is not None
        return logits.grad

    for label, wanted in ((0, [-0.5, 0.5]), (1, [0.5, -0.5]), (0, [-0.5, 0.5])):
        assert f(np.array([label], np.int32)).tolist() == [wanted]


def test_shapes_that_change() -> None:
    """P-CS16: batches 32, 32, 7, 32: the losses of eager, the plan for 32 is used again."""
    pair = Pair(0)
    for number, size in enumerate((32, 32, 7, 32)):
        (x, target), *_ = batches(1, size=size, seed=number)
        same(pair.step(x, target), pair.eager_step(x, target))
    assert (pair.step.stats().captures, pair.step.stats().replays) == (2, 2)


def test_the_tape_does_not_grow() -> None:
    """P-CS17: a hundred steps, plain and replayed: no entry lives on."""
    import gc

    from autodiff.tape import Entry

    pair = Pair(0)
    (x, target), *_ = batches(1)
    counts = []
    for _ in range(3):
        for _ in range(30):
            pair.step(x, target)
            pair.eager_step(x, target)
        gc.collect()
        counts.append(sum(isinstance(thing, Entry) for thing in gc.get_objects()))
    assert counts[0] == counts[1] == counts[2]
