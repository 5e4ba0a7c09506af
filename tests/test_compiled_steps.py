"""The compiled training step: what other systems got wrong, C10 to C25 of the invariants; beside it the cases P-CS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_helpers import Pair, batches, mlp, same

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import CaptureError, CaptureWarning, nn, optim
from autodiff.tensor import apply
from gpu_backend import Op, ops
from gpu_backend.array import allocate
from gpu_backend.device import GPUDevice

pytestmark = pytest.mark.usefixtures("gpu")


def test_a_gradient_of_several_uses_starts_from_nothing() -> None:
    """C10, P-CS08: a reused weight, lr 0: the gradient of each step is that of the first."""
    w = nn.Parameter(np.ones(4))
    optimizer = optim.SGD([w], lr=0.0)

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        ((w + x) + (w + x)).sum().backward()
        optimizer.step()

    for _ in range(5):
        step(np.zeros((1, 4), np.float32))
        assert w.grad is not None
        assert w.grad.tolist() == [2.0] * 4


def test_what_the_backward_needs_is_made_anew() -> None:
    """C11, P-CS06: relu masks, softmax statistics, masks from data, dropout; lr 0 and an input that drifts."""
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5, activation="tanh"))

    def body(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
        model.zero_grad()
        h = model(x)
        y = F.where(h > 0.0, h * 2.0, h - 1.0)
        loss = (y.softmax(axis=1) * y.max(axis=0)).sum()
        loss.backward()
        return loss, *(p.grad for p in model.parameters())  # type: ignore[misc]

    step = ad.compiled(body)
    random = np.random.default_rng(0)
    for number in range(5):
        x = (random.standard_normal((7, 6)) * (number + 1) - number).astype(np.float32)
        for mine, theirs in zip(step(x), body(ad.tensor(x)), strict=True):
            same(mine, theirs)
    assert step.stats().replays == 4


def test_a_moving_average_keeps_its_order() -> None:
    """C13, P-CS13: momentum 0.1 over batches of mean 1, 2, 3 gives 0.561; a counter counts to 3."""
    running, count = ad.tensor([0.0]), ad.tensor([0])

    @ad.compiled
    def observe(x: ad.Tensor) -> ad.Tensor:
        with ad.no_grad():
            running.mul_(0.9).add_(x.mean() * 0.1)
            count.add_(1)
        return running * 1.0

    seen = [observe(np.full(4, mean, np.float32)).item() for mean in (1, 2, 3)]
    np.testing.assert_allclose(seen, [0.1, 0.29, 0.561], rtol=1e-6)
    assert running.item() == pytest.approx(0.561)
    assert count.item() == 3


def test_optimizer_state_survives_shape_changes() -> None:
    """C14, C23, P-CS16: batches 32, 32, 7, 32 and more, a schedule of lr; two plans, one state."""
    pair = Pair(0, make=lambda p: optim.Adam(p, lr=0.01))
    for number, size in enumerate((32, 32, 7, 32, 7, 7, 32)):
        (x, target), *_ = batches(1, size=size, seed=number)
        for optimizer in (pair.compiled_optimizer, pair.eager_optimizer):
            optimizer.param_groups[0]["lr"] = 0.01 / (1 + number)
        same(pair.step(x, target), pair.eager_step(x, target))
        pair.compare()
    assert pair.step.stats().captures == 2


def test_tied_weights_are_updated_once() -> None:
    """C15: one parameter, used by two layers."""
    first = nn.Linear(4, 4)
    second = nn.Linear(4, 4)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    start = first.weight.numpy()

    @ad.compiled
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return first.weight.grad

    x = np.ones((2, 4), np.float32)
    for _ in range(3):
        gradient = step(x).numpy()
        np.testing.assert_allclose(first.weight.numpy(), start - 0.1 * gradient, rtol=1e-6, atol=1e-6)
        start = first.weight.numpy()


def test_an_op_that_records_nothing_raises() -> None:
    """C17: its result would be that of the capture for ever."""

    def forward(out: Any, x: Any) -> Any:
        return allocate(out.shape, out.dtype, x.device, "silent"), ()

    silent = Op("silent", ops.exp.spec, ops.exp.host_forward, forward)

    @ad.compiled
    def f(x: ad.Tensor) -> ad.Tensor:
        return apply(silent, x) + 1.0

    @ad.compiled
    def g(x: ad.Tensor) -> ad.Tensor:
        return apply(silent, x)

    on_take = gb.device().pool.on_take
    gb.device().pool.on_take = None  # poison is written by a kernel
    try:
        with pytest.raises(CaptureError, match=r"add.forward\[f32\] reads what no recorded work has written"):
            f(np.ones(2, np.float32))
        with pytest.raises(CaptureError, match="a result was not written by any recorded work"):
            g(np.ones(2, np.float32))
    finally:
        gb.device().pool.on_take = on_take


def test_a_capture_advances_nothing_twice() -> None:
    """C18: random position, running values and step counts after a capture and replays are those of eager."""
    pair = Pair(3, make=lambda p: optim.Adam(p), dropout=0.3)
    ad.manual_seed(5)
    states = []
    for x, target in batches(3):
        pair.step(x, target)
        states.append(ad.random.get_state())
    ad.manual_seed(5)
    for (x, target), state in zip(batches(3), states, strict=True):
        pair.eager_step(x, target)
        assert ad.random.get_state() == state
    pair.compare()
    steps = pair.compiled_optimizer._states[0].progress.numpy()[:, 0]
    np.testing.assert_array_equal(steps, 3)


def test_stacked_relu_learns() -> None:
    """C20: masks of the plan are written: gradients are not zero, and a relu head learns."""
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2), nn.ReLU())
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    random = np.random.default_rng(0)
    x = random.standard_normal((32, 4)).astype(np.float32)
    goal = np.abs(x[:, :2])

    @ad.compiled
    def step(x: ad.Tensor, goal: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.mse(model(x), goal)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x, goal).item() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad is not None and np.abs(p.grad.numpy()).max() > 0 for p in model.parameters())


def test_invalidate_captures_anew() -> None:
    """C21: and gives the buffers back."""
    pair = Pair(0)
    (x, target), *_ = batches(1)
    for _ in range(2):
        pair.step(x, target)
    assert pair.step.stats().captures == 1
    pair.step.invalidate()
    assert (pair.step.stats().plans, pair.step.stats().nbytes) == (0, 0)
    pair.step(x, target)
    assert pair.step.stats().captures == 2
    with pytest.warns(CaptureWarning):
        f = ad.compiled(lambda x: x * x.sum().item())
        for _ in range(4):
            f(np.ones(1, np.float32))
    f.invalidate()
    with pytest.warns(CaptureWarning):
        f(np.ones(1, np.float32))


@pytest.mark.no_poison
def test_a_thousand_replays_create_nothing(gpu: GPUDevice) -> None:
    """C22: no buffer, no bind group, no pipeline; three shapes in turn."""
    pair = Pair(0, make=lambda p: optim.Adam(p), dropout=0.1)
    shapes = [batches(1, size=size)[0] for size in (3, 8, 5)]
    for x, target in shapes * 2:
        loss = pair.step(x, target)

    def counters() -> tuple[int, ...]:
        stats = gb.memory.stats()
        return stats.created, stats.in_use_bytes, gpu.recorder.bind_groups.misses, gpu.pipelines.misses

    before = counters()
    for number in range(1000):
        loss = pair.step(*shapes[number % 3])
    loss.item()
    assert counters() == before
    assert pair.step.stats().captures == 3


def test_state_born_inside_outlives_the_plan() -> None:
    """C23: lazily made state is not reset by a replay: the first call runs plainly, the second is captured."""
    holder: dict[str, ad.Tensor] = {}

    @ad.compiled
    def f(x: ad.Tensor) -> ad.Tensor:
        if "total" not in holder:
            holder["total"] = ad.tensor(np.zeros(2, np.float32)) + 0.0
        holder["total"].add_(x)
        return holder["total"] * 1.0

    with pytest.warns(CaptureWarning, match="a tensor that it made.*is still held after the call"):
        seen = [f(np.ones(2, np.float32)).tolist() for _ in range(4)]
    assert seen == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
    assert (f.stats().captures, f.stats().replays) == (1, 2)
    f.invalidate()
    assert holder["total"].tolist() == [4.0, 4.0]
    w = nn.Parameter([1.0])

    @ad.compiled
    def g(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    g(np.ones(1, np.float32))
    g(np.full(1, 3.0, np.float32))
    g.invalidate()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0]


def test_modes_and_attributes_are_seen() -> None:
    """C24: train and eval capture once each; probabilities, betas and attributes of any module are seen."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.drop = nn.Dropout(0.5)
            self.scale = 2.0
            self.table = [1.0]

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return self.drop(x) * self.scale * self.table[0]

    model = Scaled()
    f = ad.compiled(model)
    ones = np.ones(200, np.float32)
    for _ in range(3):
        model.train()
        assert 0 < (f(ones).numpy() == 0).mean() < 1
        model.eval()
        assert (f(ones).numpy() == 2).all()
    assert f.stats().captures == 2
    model.scale = 3.0
    assert (f(ones).numpy() == 3).all()
    model.table[0] = 2.0
    assert (f(ones).numpy() == 6).all()
    model.train()
    model.drop.p = 1.0
    assert (f(ones).numpy() == 0).all()
    assert f.stats().captures == 5


def test_hyper_parameters_are_seen() -> None:
    """C24, P-CS01: lr, betas, eps, weight decay and momentum change between replays of one plan."""
    pair = Pair(0, make=lambda p: optim.AdamW(p, lr=0.01))
    changes = [{}, {"lr": 0.1}, {"betas": (0.5, 0.6)}, {"eps": 1e-3}, {"weight_decay": 0.5}, {"lr": 0.0}]
    for change, (x, target) in zip(changes, batches(len(changes)), strict=True):
        for optimizer in (pair.compiled_optimizer, pair.eager_optimizer):
            optimizer.param_groups[0].update(change)
        same(pair.step(x, target), pair.eager_step(x, target))
        pair.compare()
    assert pair.step.stats().captures == 1
    pair.compiled_optimizer.param_groups[0]["lr"] = -1.0
    before = [p.numpy() for p in pair.compiled.parameters()]
    with pytest.raises(ValueError, match=r"AdamW: lr is not negative, not -1\.0"):
        pair.step(x, target)
    for p, was in zip(pair.compiled.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.numpy(), was)


def test_an_option_that_chooses_other_kernels_is_seen() -> None:
    """C24: momentum turned off."""
    pair = Pair(0, make=lambda p: optim.SGD(p, lr=0.1, momentum=0.9))
    for momentum, (x, target) in zip((0.9, 0.9, 0.0, 0.0, 0.9), batches(5), strict=True):
        for optimizer in (pair.compiled_optimizer, pair.eager_optimizer):
            optimizer.param_groups[0]["momentum"] = momentum
        same(pair.step(x, target), pair.eager_step(x, target))
        pair.compare()
    assert pair.step.stats().captures == 2


def test_a_graph_from_before_a_replay_raises() -> None:
    """C25: the replay changed a weight that the graph saved."""
    pair = Pair(0)
    (x, target), *_ = batches(1)
    pair.step(x, target)
    loss = F.cross_entropy(pair.compiled(ad.tensor(x)), target)
    pair.step(x, target)
    with pytest.raises(ad.GradientError, match="modified in place"):
        loss.backward()


def test_mlp_fixture_is_sound() -> None:
    """The helpers compare what they say: two models that differ are told."""
    pair = Pair(0)
    with ad.no_grad():
        next(iter(pair.compiled.parameters())).add_(1.0)
    with pytest.raises(AssertionError):
        pair.compare()
    assert len(list(mlp((2, 3, 4), 0.0).parameters())) == 4
