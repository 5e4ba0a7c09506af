"""The compiled function: what other systems got wrong, C1 to C9 and C12 of the invariants; beside it the cases P-CS."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
from compiled_helpers import Pair, batches, same

import autodiff as ad
import autodiff.functional as F
from autodiff import CaptureError, CaptureWarning, nn, optim
from gpu_backend.device import GPUDevice

pytestmark = pytest.mark.usefixtures("gpu")


HOST_TENSOR = ad.tensor([1.0], device="host")


def test_replay_moves_the_users_own_parameters() -> None:
    """C1, P-CS03: live storage, never copies; six elements in a larger buffer."""
    w = nn.Parameter(np.ones(6))
    optimizer = optim.SGD([w], lr=0.1)

    @ad.compiled
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    memory = w.array.storage.buffer.serial
    for number in range(1, 4):
        step(np.arange(6, dtype=np.float32))
        np.testing.assert_allclose(w.numpy(), 1 - 0.1 * number * np.arange(6), rtol=1e-6)
    assert w.array.storage.buffer.serial == memory
    assert (step.stats().captures, step.stats().replays) == (1, 2)


def test_a_plan_belongs_to_one_model() -> None:
    """C3: two models of one shape, as arguments and in closures, in one thread and in two."""

    @ad.compiled
    def step(model: nn.Module, optimizer: optim.Optimizer, x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    pairs = [Pair(seed) for seed in (1, 2)]
    for x, target in batches(6):
        for pair in pairs:
            loss = step(pair.compiled, pair.compiled_optimizer, x, target)
            same(loss, pair.eager_step(x, target))
    for pair in pairs:
        pair.compare()
    assert step.stats().captures == 2

    def train(pair: Pair) -> None:
        for x, target in batches(6):
            losses.append((step(pair.compiled, pair.compiled_optimizer, x, target), pair.eager_step(x, target)))

    losses: list[tuple[ad.Tensor, ad.Tensor]] = []
    threads = [threading.Thread(target=train, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(losses) == 12
    for mine, theirs in losses:
        same(mine, theirs)
    for pair in pairs:
        pair.compare()


def test_a_thread_that_records_meanwhile_is_not_captured() -> None:
    """C3: the capture list is that of one thread."""
    inside, outside = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(10)
        (ad.tensor([1.0, 2.0]) * 3.0).tanh()
        outside.set()

    @ad.compiled
    def step(x: ad.Tensor) -> ad.Tensor:
        y = x + 1.0
        inside.set()
        assert outside.wait(10)
        return y * 2.0

    thread = threading.Thread(target=other)
    thread.start()
    step(np.ones(2, np.float32))
    thread.join()
    assert step(np.zeros(2, np.float32)).tolist() == [2.0, 2.0]
    assert "tanh" not in step.explain()


def test_the_signature_holds_every_input() -> None:
    """C4: shape, dtype, another target's shape, mode, value and type of numbers, and the structure around them."""

    @ad.compiled
    def f(x: ad.Tensor, target: ad.Tensor, scale: float = 1.0, **more: Any) -> ad.Tensor:
        y = x * scale
        for extra in more.get("extra", []):
            y = y + extra
        return y.sum() + target.astype("float32").sum()

    x, target = np.ones((2, 3), np.float32), np.ones(2, np.int32)
    calls: list[tuple[float, Any]] = [
        (8, lambda: f(x, target)),
        (9, lambda: f(x, np.ones(3, np.int32))),
        (8, lambda: f(x, np.ones(2, np.float32))),
        (14, lambda: f(x, target, 2.0)),
        (14, lambda: f(x, target, 2)),
        (8, lambda: f(x, target, True)),
        (8, lambda: f(x, target, scale=1.0)),
        (14, lambda: f(x, target, extra=[np.ones(3, np.float32)])),
        (14, lambda: f(x, target, extra=(np.ones(3, np.float32),))),
        (20, lambda: f(x, target, extra=[np.ones(3, np.float32), 1.0])),
    ]
    for captures, (wanted, call) in enumerate(calls, 1):
        assert call().item() == wanted
        assert f.stats().captures == captures
        assert call().item() == wanted
        assert f.stats().captures == captures
    with ad.no_grad():
        f(x, target)
    assert f.stats().captures == len(calls) + 1


def test_numbers_are_told_by_their_bits() -> None:
    """C4: 0.0 and -0.0 are equal and differ; NaN is not equal and the same."""

    @ad.compiled
    def f(x: ad.Tensor, number: float) -> ad.Tensor:
        return x / (x * number)

    ones = np.ones(1, np.float32)
    assert f(ones, 0.0).item() == np.inf
    assert f(ones, -0.0).item() == -np.inf
    for _ in range(2):
        assert np.isnan(f(ones, float("nan")).item())
    assert f.stats().captures == 3


def test_keys_are_copies() -> None:
    """C4: the caller's list is changed after the call."""

    @ad.compiled
    def f(x: ad.Tensor, numbers: list[float]) -> ad.Tensor:
        return x * numbers[0]

    numbers = [2.0]
    assert f(np.ones(1, np.float32), numbers).item() == 2.0
    numbers[0] = 3.0
    assert f(np.ones(1, np.float32), numbers).item() == 3.0


def test_the_loss_is_what_is_returned() -> None:
    """C5, T1: a step that ends in a reshape and a metric."""
    pair = Pair(0)

    def body(model: nn.Module, optimizer: optim.Optimizer, x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        logits = model(ad.tensor(x))
        loss = F.cross_entropy(logits, ad.tensor(target))
        loss.backward()
        optimizer.step()
        worst = logits.max()
        return loss.reshape(1), {"worst": worst, "logits": logits.reshape(-1)}

    step = ad.compiled(body)
    for x, target in batches(4):
        loss, more = step(pair.compiled, pair.compiled_optimizer, x, target)
        wanted, wanted_more = body(pair.eager, pair.eager_optimizer, x, target)
        same(loss, wanted)
        same(more["worst"], wanted_more["worst"])
        same(more["logits"], wanted_more["logits"])
    pair.compare()


@pytest.mark.no_poison
def test_one_execution_per_step(gpu: GPUDevice) -> None:
    """C6: as many dispatches as eager, in the captured call and in each replay."""
    pair = Pair(0)
    (x, target), *_ = batches(1)
    pair.eager_step(x, target)
    counts = []
    for run in (pair.eager_step, pair.step, pair.step, pair.step):
        before = gpu.recorder.dispatches
        run(x, target)
        counts.append(gpu.recorder.dispatches - before)
    inputs = 2  # numpy arrays are uploaded, and copied once in the captured call
    assert counts[1] - counts[0] in (0, inputs)
    assert counts[2] == counts[3] <= counts[0]
    assert counts[2] == pair.step.stats().kernels // pair.step.stats().replays


def test_a_failed_capture_leaves_the_weights_as_eager_does() -> None:
    """C6, C7, C12: the read is served, the call runs on, nothing runs twice; then it stays eager, and says why."""
    pair = Pair(0, read_loss=True)
    with pytest.warns(CaptureWarning, match="reads elements on the host") as caught:
        for x, target in batches(5):
            same(pair.step(x, target), pair.eager_step(x, target))
    pair.compare()
    assert len(caught) == 1
    assert caught[0].filename == __file__.replace("test_compiled.py", "compiled_helpers.py")
    stats = pair.step.stats()
    assert (stats.captures, stats.replays, sum(stats.eager_calls.values())) == (0, 0, 5)
    assert all("reads elements" in reason for reason in stats.eager_calls)


def test_a_read_is_an_error_where_fallback_is_off() -> None:
    """C7, P-CS15: the line that reads is named."""

    def doubled(x: ad.Tensor) -> ad.Tensor:
        return ad.tensor(x.numpy() * 2)

    with pytest.raises(CaptureError, match=r"reads elements on the host.*test_compiled\.py, line \d+"):
        ad.compiled(doubled, fallback=False)(np.ones(3, np.float32))
    lenient = ad.compiled(doubled)
    with pytest.warns(CaptureWarning):
        for number in (1.0, 2.0):
            assert lenient(np.full(3, number, np.float32)).tolist() == [2 * number] * 3
    assert lenient.stats().plans == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0.0),
        lambda x: float(x.sum()),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: repr(x),
        lambda x: x.download_async(),
        lambda x: x.to("host"),
        lambda x: ad.tensor([1.0], device="host") * 2.0,
        lambda x: HOST_TENSOR.item(),
        lambda x: HOST_TENSOR * 2.0,
        lambda x: ad.manual_seed(3),
        lambda x: nn.Linear(2, 2),
    ],
)
def test_what_cannot_be_replayed_gives_the_capture_up(read: Any) -> None:
    """C12: every way to the host, another device, the seed, weights made inside."""

    def f(x: ad.Tensor) -> ad.Tensor:
        read(x)
        return x * 2.0

    with pytest.raises(CaptureError):
        ad.compiled(f, fallback=False)(np.ones(2, np.float32))
    g = ad.compiled(f)
    with pytest.warns(CaptureWarning):
        for number in (1.0, 2.0):
            assert g(np.full(2, number, np.float32)).tolist() == [2 * number] * 2
    assert g.stats().captures == 0


def test_errors_of_the_function_propagate_and_nothing_runs_twice() -> None:
    """C7: an error in the captured call, and one in a replay."""
    log = io.StringIO()  # an object, whose inside a plan does not look at

    @ad.compiled
    def f(x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        log.write("x")
        if len(log.getvalue()) == 1:
            raise KeyError("mine")
        return F.cross_entropy(x, target)

    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KeyError, match="mine"):
        f(x, np.zeros(2, np.int32))
    assert log.getvalue() == "x"
    f(x, np.zeros(2, np.int32))
    assert log.getvalue() == "xx"
    loss = f(x, np.array([0, 5], np.int32))
    with pytest.raises(IndexError, match="cross_entropy: index 5 is out of range for 3"):
        loss.item()
    assert f(x, np.zeros(2, np.int32)).item() == pytest.approx(np.log(3))
    assert log.getvalue() == "xx"


def test_after_three_failures_it_stays_plain() -> None:
    """C7: until ``invalidate``, also where the reason is gone."""

    class Reading:
        wanted = True

    reading = Reading()
    f = ad.compiled(lambda x: x * (x.sum().item() if reading.wanted else 2.0))
    with pytest.warns(CaptureWarning):
        for _ in range(3):
            f(np.ones(1, np.float32))
    reading.wanted = False
    for _ in range(2):
        assert f(np.ones(1, np.float32)).item() == 2.0
    assert (f.stats().captures, sum(f.stats().eager_calls.values())) == (0, 5)
    f.invalidate()
    f(np.ones(1, np.float32))
    assert f.stats().captures == 1


def test_the_warning_reaches_stderr() -> None:
    """C7: in a process that configured neither logging nor warnings."""
    program = textwrap.dedent("""
        import autodiff as ad, numpy as np
        @ad.compiled
        def f(x):
            return x * x.sum().item()
        f(np.ones(2, np.float32)); f(np.ones(2, np.float32))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("CaptureWarning: f was not captured: it reads elements on the host") == 1
    assert "<string>:5" in done.stderr


def test_a_parameter_without_a_gradient_is_not_moved() -> None:
    """C8: the set of gradients is that of eager; a parameter taken away is an error, as in eager."""
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([a, b], lr=0.5)
    use_b = True

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        (a * x + (b * x if use_b else 0.0)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(np.ones(1, np.float32))
    assert (a.item(), b.item()) == (-0.5, -0.5)
    optimizer.param_groups[0]["params"].pop()
    with pytest.raises(ValueError, match="parameters were added or taken away"):
        step(np.ones(1, np.float32))
    assert (a.item(), b.item()) == (-0.5, -0.5)


@pytest.mark.parametrize("vocabulary", [512, 15_000])
def test_buffers_of_a_plan_are_its_own(vocabulary: int) -> None:
    """C9: eager work between two replays, of the same sizes, touches nothing of a plan; the classes are many."""
    pair = Pair(0, widths=(8, 16, vocabulary))
    for x, target in batches(4, classes=vocabulary):
        same(pair.step(x, target), pair.eager_step(x, target))
        held = [ad.tensor(np.full((8, n), np.nan, np.float32)) * 2.0 for n in (16, vocabulary, 1)]
        del held
    pair.compare()
