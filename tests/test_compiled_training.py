"""Training compiled and eager, step by step and bit by bit: optimizers, schedules, host calls, verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_helpers import Pair, batches, same

import autodiff as ad
import autodiff.functional as F
from autodiff import DivergenceError, nn, optim
from autodiff.tensor import apply
from gpu_backend import HostFallbackWarning, Op, host_call, ops
from gpu_backend.device import GPUDevice
from gpu_backend.submission import PublicSubmissions

pytestmark = pytest.mark.usefixtures("gpu")


STEPS = 50


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1),
    "Nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "skipping": lambda p: optim.AdamW(p, lr=0.01, skip_nonfinite=True),
    "groups": lambda p: optim.Adam([{"params": p[:2], "lr": 0.02}, {"params": p[2:], "betas": (0.5, 0.9)}]),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("encoding", ["native", "public"])
def test_fifty_steps_are_those_of_eager(
    name: str, encoding: str, gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C19, P-CS02: losses and parameters, for an MLP with dropout and clipping; models of their own; it did replay."""
    if encoding == "public":
        ways = PublicSubmissions(gpu.gpu)
        ways.count = gpu.recorder.submissions.count
        gpu.recorder.synchronize()
        monkeypatch.setattr(gpu.recorder, "submissions", ways)
    pair = Pair(
        0,
        make=OPTIMIZERS[name],
        dropout=0.2,
        after_backward=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.5),
    )
    states = []
    ad.manual_seed(7)
    losses = []
    for x, target in batches(STEPS):
        losses.append(pair.step(x, target))
        states.append([p.numpy() for p in pair.compiled.parameters()])
    ad.manual_seed(7)
    for (x, target), loss, state in zip(batches(STEPS), losses, states, strict=True):
        same(loss, pair.eager_step(x, target))
        for parameter, then in zip(pair.eager.parameters(), state, strict=True):
            np.testing.assert_array_equal(parameter.numpy(), then)
    stats = pair.step.stats()
    assert (stats.captures, stats.replays, stats.encoding) == (1, STEPS - 1, encoding)
    assert not stats.eager_calls
    if encoding == "public":
        ways.wait(ways.count, None)


SCHEDULES: dict[str, Callable[[optim.Optimizer], optim.Schedule]] = {
    "StepLR": lambda o: optim.StepLR(o, step_size=3, gamma=0.5),
    "CosineAnnealingLR": lambda o: optim.CosineAnnealingLR(o, T_max=8, eta_min=0.01),
    "LambdaLR": lambda o: optim.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("where", ["inside", "inside, before the step", "outside"])
def test_schedules_go_on_with_replays(name: str, where: str) -> None:
    """C14: the rates of each step, and those seen afterwards."""
    models = []
    for is_compiled in (True, False):
        w = nn.Parameter([1.0, 2.0])
        optimizer = optim.SGD([w], lr=0.1, momentum=0.5)
        schedule = SCHEDULES[name](optimizer)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer, schedule: Any = schedule) -> None:
            optimizer.zero_grad()
            if "before" in where:
                schedule.step()
            (w * ad.tensor(x)).sum().backward()
            optimizer.step()
            if where == "inside":
                schedule.step()

        models.append((ad.compiled(step) if is_compiled else step, w, schedule))
    for number in range(12):
        x = np.array([1.0, number], np.float32)
        for step, _, schedule in models:
            step(x)
            if where == "outside":
                schedule.step()
        same(models[0][1], models[1][1])
        assert models[0][2].get_last_lr() == models[1][2].get_last_lr()
    assert models[0][0].stats().replays == 11  # type: ignore[attr-defined]


def test_two_steps_with_a_schedule_between_them() -> None:
    """One optimizer steps twice in a call, with two rates."""
    models = []
    for is_compiled in (True, False):
        w = nn.Parameter([1.0])
        optimizer = optim.SGD([w], lr=1.0)
        schedule = optim.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

        def run(x: Any, w: Any = w, optimizer: Any = optimizer, schedule: Any = schedule) -> None:
            for _ in range(2):
                optimizer.zero_grad()
                (w * ad.tensor(x)).sum().backward()
                optimizer.step()
                schedule.step()

        models.append((ad.compiled(run) if is_compiled else run, w))
    for _ in range(4):
        for run, _ in models:
            run(np.ones(1, np.float32))
        same(models[0][1], models[1][1])


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_gradients_of_micro_batches_add_up(where: str) -> None:
    """Gradient accumulation: k micro-batches in one call, and in k calls with the update beside them."""
    pair = Pair(0, make=lambda p: optim.Adam(p, lr=0.01))
    k = 3

    def make(model: nn.Module, optimizer: optim.Optimizer, compile_: Callable[..., Any]) -> Callable[[Any], None]:
        def micro(x: Any, target: Any) -> ad.Tensor:
            loss = F.cross_entropy(model(ad.tensor(x)), ad.tensor(target)) / k
            loss.backward()
            return loss

        def update() -> None:
            optimizer.step()
            optimizer.zero_grad()

        def all_in_one(parts: Any) -> None:
            optimizer.zero_grad()
            for x, target in parts:
                micro(x, target)
            optimizer.step()

        whole, part, last = compile_(all_in_one), compile_(micro), compile_(update)

        def run(parts: Any) -> None:
            if where == "inside":
                whole(parts)
            else:
                for x, target in parts:
                    part(x, target)
                last()

        run.parts = (whole, part, last)  # type: ignore[attr-defined]
        return run

    mine = make(pair.compiled, pair.compiled_optimizer, ad.compiled)
    theirs = make(pair.eager, pair.eager_optimizer, lambda f: f)
    data = batches(k * 5)
    for number in range(5):
        parts = data[k * number : k * (number + 1)]
        mine(parts)
        theirs(parts)
        pair.compare()
    whole, part, last = mine.parts  # type: ignore[attr-defined]
    if where == "inside":
        assert (whole.stats().captures, whole.stats().replays) == (1, 4)
    else:  # the first of a round finds no gradient, the others add to one
        assert (part.stats().captures, part.stats().replays) == (2, 13)
        assert last.stats().replays >= 3


def test_a_step_that_is_not_finite_is_skipped() -> None:
    """C16: parameters, moments and step count stay, in a replay as in eager; the next step is as if it never was."""
    pair = Pair(0, make=OPTIMIZERS["skipping"])
    plain = Pair(0, make=lambda p: optim.AdamW(p, lr=0.01))
    for number, (x, target) in enumerate(batches(6)):
        broken = number in (2, 3)
        if broken:
            x = np.full_like(x, np.inf)
        pair.step(x, target)
        pair.eager_step(x, target)
        if not broken:
            plain.eager_step(x, target)
        for mine, theirs, other in zip(
            pair.compiled.parameters(), pair.eager.parameters(), plain.eager.parameters(), strict=True
        ):
            same(mine, theirs)
            same(mine, other)
    for optimizer in (pair.compiled_optimizer, pair.eager_optimizer):
        assert optimizer.skipped_steps == 2
        np.testing.assert_array_equal(optimizer._states[0].progress.numpy()[:, 0], 4)
    assert pair.step.stats().replays == 5


def doubled_on_host() -> Op:
    """y = 2 x + x^2 without a kernel; dy (2 + 2 x)."""

    def host_forward(x: Any) -> Any:
        return 2 * x + x * x, (x,)

    def host_backward(dy: Any, saved: Any, needs: Any) -> Any:
        return (dy * (2 + 2 * saved[0]),)

    return Op("doubled", ops.exp.spec, host_forward, host_backward=host_backward)


def test_host_calls_are_replayed(gpu: GPUDevice) -> None:
    """An op without kernels, in the middle of a step: segments around it, the same bits, a warning, a counter."""
    op = doubled_on_host()
    pairs = []
    for is_compiled in (True, False):
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4))
        optimizer = optim.SGD(model.parameters(), lr=0.05)

        def step(x: Any, target: Any, model: Any = model, optimizer: Any = optimizer) -> ad.Tensor:
            optimizer.zero_grad()
            hidden = apply(op, model[0](ad.tensor(x)))
            loss = F.cross_entropy(model[1](hidden), ad.tensor(target))
            loss.backward()
            optimizer.step()
            return loss.detach()

        pairs.append((ad.compiled(step) if is_compiled else step, model))
    host_call._told.discard("doubled.forward")
    with pytest.warns(HostFallbackWarning, match=r"doubled\.forward has no kernel: numpy computes it on the host"):
        for x, target in batches(5):
            before = gpu.recorder.host_calls
            same(pairs[0][0](x, target), pairs[1][0](x, target))
            assert gpu.recorder.host_calls - before == 4
            for mine, theirs in zip(pairs[0][1].parameters(), pairs[1][1].parameters(), strict=True):
                same(mine, theirs)
    stats = pairs[0][0].stats()  # type: ignore[attr-defined]
    assert (stats.captures, stats.replays, stats.host_calls) == (1, 4, 8)
    assert "doubled.backward on the host" in pairs[0][0].explain()  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::gpu_backend.HostFallbackWarning")  # another test may have had it
def test_an_op_without_a_kernel_agrees_with_its_twin() -> None:
    op = doubled_on_host()
    x = ad.tensor([1.0, -2.0, 0.5], requires_grad=True)
    ad.gradient_check(lambda t: apply(op, t), x)
    assert apply(op, x).tolist() == [3.0, 0.0, 1.25]


def test_verify_passes_where_a_replay_is_right() -> None:
    """Replays that are checked change nothing twice: parameters, random position, schedule, moving average."""
    pair = Pair(0, make=lambda p: optim.Adam(p, lr=0.01), dropout=0.3, verify=3)
    schedule = optim.StepLR(pair.compiled_optimizer, 2, 0.5)
    total = ad.tensor([0.0])
    inner = pair.step.fn

    def body(x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        loss: ad.Tensor = inner(x, target)
        schedule.step()
        total.add_(loss.detach().reshape(1))
        return loss

    step = ad.compiled(body, verify=3)
    ad.manual_seed(1)
    losses = [step(x, target).item() for x, target in batches(6)]
    assert schedule.last_epoch == 6
    assert total.item() == pytest.approx(sum(losses), rel=1e-6)
    position = ad.random.get_state()
    ad.manual_seed(1)
    twin = optim.StepLR(pair.eager_optimizer, 2, 0.5)
    for x, target in batches(6):
        pair.eager_step(x, target)
        twin.step()
    assert ad.random.get_state() == position
    pair.compare()
    assert (step.stats().captures, step.stats().replays) == (1, 5)


def test_verify_finds_what_a_replay_does_not_see() -> None:
    """A Python number from elsewhere is a constant of the plan; verification tells, and the call's work is done."""
    scale = [2.0]
    w = ad.tensor([1.0, 1.0])

    def number() -> float:
        return scale[0]

    @ad.compiled(verify=2)
    def f(x: ad.Tensor) -> ad.Tensor:
        w.add_(x * number())
        return x * 1.0

    ones = np.ones(2, np.float32)
    f(ones)
    f(ones)
    scale[0] = 3.0
    with pytest.raises(DivergenceError, match=r"replay 2 and the plain call differ in .*2 of .*first at \(0,\)"):
        f(ones)
    assert w.tolist() == [8.0, 8.0]
    f(ones)  # captured anew
    assert w.tolist() == [11.0, 11.0]

    @ad.compiled(verify=1)
    def g(x: ad.Tensor) -> ad.Tensor:
        x.mul_(number())
        return x * number()

    g(ones)
    scale[0] = 4.0
    with pytest.raises(DivergenceError, match=r"replay 1 and the plain call differ in result 0: 2 of 2 elements"):
        g(ones)
    h = ad.compiled(lambda x: x.mul_(number()).shape, verify=1)
    x = ad.tensor([1.0])
    h(x)
    scale[0] = 5.0
    with pytest.raises(DivergenceError, match=r"replay 1 and the plain call differ in result 0: 1 of 1"):
        h(x)
    assert x.item() == 20.0
