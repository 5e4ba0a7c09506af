"""What a plan holds, and gradients that others hold: ways in which a replay could spoil memory unnoticed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import CaptureError, CaptureWarning, GradientError, nn, optim
from autodiff.tensor import apply
from gpu_backend import Op, memory, ops
from gpu_backend.plan import Arena

pytestmark = [pytest.mark.usefixtures("gpu"), pytest.mark.no_poison]  # poison is a kernel, which a capture records too


ONE = np.ones(1, np.float32)


def values(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def test_a_constant_that_is_changed_in_place_starts_anew() -> None:
    """Weights made inside, and moved: each call starts from the numbers of the host."""

    def adapted(x: ad.Tensor) -> ad.Tensor:
        w = nn.Parameter(np.zeros(1, np.float32))
        for _ in range(2):
            w.grad = None
            ((w - x) * (w - x)).sum().backward()
            with ad.no_grad():
                assert w.grad is not None
                w.sub_(w.grad * 0.25)
        return w

    f = ad.compiled(adapted)
    assert [f(ONE).item() for _ in range(4)] == [0.75] * 4
    assert f.stats().replays == 3
    g = ad.compiled(lambda x: memory.persist(ad.tensor(values(0))).add_(x))
    assert [g(ONE).item() for _ in range(3)] == [1.0] * 3


def test_a_twin_may_save_a_numpy_number() -> None:
    """What a twin saves is made anew by each replay, numbers as well; a Python number that changes is an error."""

    def host_backward(dy: Any, saved: Any, needs: Any) -> Any:
        return (dy * saved[0],)

    numpy_number = Op("peak", ops.exp.spec, lambda x: (x * x.max(), (x.max(),)), host_backward=host_backward)
    python_number = Op("peak2", ops.exp.spec, lambda x: (x * x.max(), (float(x.max()),)), host_backward=host_backward)

    def run(op: Op) -> Any:
        def gradient(x: ad.Tensor) -> Any:
            leaf = ad.tensor(x, requires_grad=True)
            apply(op, leaf).sum().backward()
            return leaf.grad

        return ad.compiled(gradient)

    with pytest.warns(gb.HostFallbackWarning):
        f = run(numpy_number)
        assert [f(values(n, 0)).tolist() for n in (1, 2, 5)] == [[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]
        g = run(python_number)
        g(values(1, 0))
        with pytest.raises(CaptureError, match=r"peak2: its twin saves .* save numbers as arrays"):
            g(values(2, 0))


def test_gradients_that_are_kept() -> None:
    """Held between calls, gathered inside, and the old one returned beside the new."""
    w = nn.Parameter([1.0])
    gathered: list[Any] = []

    def backward(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    f = ad.compiled(backward)
    f(values(1))
    first = w.grad
    f(values(7))
    assert first is not None
    assert first.tolist() == [1.0]
    assert w.grad is not None
    assert w.grad.tolist() == [7.0]

    class Keeper:
        def keep(self, x: Any) -> None:
            gathered.append(x)

    keeper = Keeper()
    g = ad.compiled(lambda x: (backward(x), keeper.keep(w.grad))[0])
    with pytest.warns(CaptureWarning, match="a gradient that it made is held after the call, beside grad"):
        for n in (1, 2, 3):
            g(values(n))
    assert [gradient.item() for gradient in gathered] == [1.0, 2.0, 3.0]

    def swap(x: ad.Tensor) -> Any:
        old = w.grad
        backward(x)
        return old

    h = ad.compiled(swap)
    assert [h(values(n)).item() for n in (1, 2, 3, 4, 5)] == [3.0, 1.0, 2.0, 3.0, 4.0]
    assert w.grad.item() == 5.0
    assert h.stats().replays >= 2


def test_a_graph_from_outside_is_checked_each_time() -> None:
    w = nn.Parameter([2.0])
    optimizer = optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    f = ad.compiled(lambda: loss.backward(retain_graph=True))
    with pytest.warns(CaptureWarning, match="goes back through a graph that was made before"):
        f()
    f()
    assert w.grad is not None
    assert w.grad.item() == 8.0
    optimizer.step()
    with pytest.raises(GradientError, match="modified in place"):
        f()


@pytest.mark.parametrize("error", [gb.OutOfMemoryError, KeyboardInterrupt])
def test_a_plan_that_cannot_be_made_spoils_no_other(error: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory runs out, or Ctrl-C comes, while a second plan finds its buffers: what the first pinned stays pinned."""
    w = ad.tensor([1.0])
    f, g = ad.compiled(lambda x: x * w), ad.compiled(lambda x: (x + w).tanh() * w)
    f(ONE)
    makes: list[int] = []

    def make(self: Arena, nbytes: int) -> Any:
        makes.append(nbytes)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Arena, "make", make)
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                g(ONE)
        else:
            with pytest.warns(CaptureWarning, match="there is no memory for the buffers of its plan"):
                assert g(ONE).item() == pytest.approx(np.tanh(2.0))
    assert makes
    assert w.array.storage.persistent
    w.copy_(values(2.0))
    assert f(ONE).item() == 2.0
    assert f.stats().captures == 1
    g(ONE)
    assert g.stats().captures == 1
    f.invalidate(), g.invalidate()
    assert not w.array.storage.persistent


def test_empty_results() -> None:
    f = ad.compiled(nn.Linear(4, 2))
    for _ in range(3):
        assert f(np.zeros((0, 4), np.float32)).shape == (0, 2)
    assert f.stats().replays == 2
    g = ad.compiled(lambda x: (x * 2.0, x.sum()))
    assert [g(np.zeros((0, 3), np.float32))[1].item() for _ in range(2)] == [0.0, 0.0]


def test_a_leaf_on_another_device_is_left_alone() -> None:
    there = ad.tensor([1.0], device="host", requires_grad=True)
    (there * 2.0).sum().backward()
    f = ad.compiled(lambda x: x * 2.0 if there.grad is not None else x)
    assert [f(ONE).item() for _ in range(3)] == [2.0] * 3
    assert f.stats().replays == 2


def test_what_is_gone_lets_go() -> None:
    """A compiled function that is collected unpins; a compiled method dies with its object; failures are bounded."""
    w = ad.tensor([1.0])
    f = ad.compiled(lambda x: x * w)
    f(ONE)
    assert w.array.storage.persistent
    del f
    gc.collect()
    assert not w.array.storage.persistent

    class Model(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(4, 4)

        @ad.compiled
        def run(self, x: ad.Tensor) -> ad.Tensor:
            return self.layer(x)

    model = Model()
    model.run(np.ones((1, 4), np.float32))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    g = ad.compiled(lambda leaf: leaf.sum().item())
    gc.collect()
    before = memory.stats().in_use_bytes
    with pytest.warns(CaptureWarning):
        for _ in range(20):
            g(ad.tensor(np.ones(1000), requires_grad=True))
    gc.collect()
    assert memory.stats().in_use_bytes == before


def test_plans_are_spared_by_reclaim() -> None:
    f = ad.compiled(lambda x: (x * 2.0).tanh() + x)
    wanted = f(ONE).item()
    for _ in range(3):
        memory.reclaim()
        noise = [ad.tensor([9.0]) * 9.0 for _ in range(5)]
        assert f(ONE).item() == wanted
        del noise
    assert f.stats().captures == 1


def test_a_released_argument_moves_nothing() -> None:
    """ReleasedBufferError before schedules, random position and counters move on."""
    w = nn.Parameter([1.0])
    optimizer = optim.SGD([w], lr=1.0)
    schedule = optim.StepLR(optimizer, 1, 0.5)

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        (w * F.dropout(x, 0.5)).sum().backward()
        optimizer.step()
        schedule.step()

    for _ in range(2):
        step(ad.tensor([1.0]))
    x = ad.tensor([1.0])
    memory.release(x)
    before = schedule.last_epoch, ad.random.get_state(), step.stats().replays
    with pytest.raises(gb.ReleasedBufferError):
        step(x)
    assert (schedule.last_epoch, ad.random.get_state(), step.stats().replays) == before


def backward_of(w: nn.Parameter) -> Any:
    """A compiled function that replaces the gradient of ``w`` by its argument, summed up to the shape of ``w``."""

    def backward(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    return ad.compiled(backward)


@pytest.mark.parametrize("between", ["another shape", "cleared outside", "an eager step", "verified", "detached"])
def test_a_held_gradient_is_kept_in_every_way(between: str) -> None:
    w = nn.Parameter([1.0, 1.0])
    f = backward_of(w)
    if between == "verified":
        f = ad.compiled(f.fn, verify=5)
    f(values(1, 1))
    assert w.grad is not None
    held = w.grad.detach() if between == "detached" else w.grad
    if between == "another shape":
        f(np.full((3, 2), 7, np.float32))
    elif between == "an eager step":
        f.fn(ad.tensor(values(7, 7)))
        f(values(9, 9))
    else:
        if between != "detached":
            w.grad = None
        f(values(7, 7))
    assert held.tolist() == [1.0, 1.0]
    assert w.grad is not None
    assert w.grad.tolist()[0] in (7.0, 9.0, 21.0)
    memory.reclaim()
    assert held.tolist() == [1.0, 1.0]


def test_memory_that_is_exchanged_is_seen() -> None:
    """A held gradient that moved, named by another function; a weight that went to another device and back."""
    w = nn.Parameter([1.0])
    f = backward_of(w)
    f(values(1)), f(values(5))
    previous = w.grad
    assert previous is not None
    g = ad.compiled(lambda x: previous * x)
    assert g(ONE).item() == 5.0
    f(values(7))
    assert [previous.item(), g(ONE).item()] == [5.0, 5.0]
    layer = nn.Linear(1, 1, bias=False)
    weight = layer.weight
    h = ad.compiled(lambda x: x.reshape(1, 1) @ weight)
    h(ONE)
    here = weight.device
    layer.to("host").to(here)
    with ad.no_grad():
        weight.copy_(9.0)
    assert h(ONE).item() == 9.0


def test_a_release_inside_gives_the_capture_up() -> None:
    t = ad.tensor([2.0])
    f = ad.compiled(lambda x: (x * t, memory.release(t))[0])
    with pytest.warns(CaptureWarning, match=r"it releases an array \(1,\)|it releases array \(1,\)"):
        f(ONE)
    with pytest.raises(gb.ReleasedBufferError):
        f(ONE)


def test_a_gradient_that_is_a_constant() -> None:
    """An op whose backward uploads numbers: each replay brings them again."""

    def backward(dy: Any, saved: Any, needs: Any) -> Any:
        return (gb.array(np.full(dy.shape, 3.0, np.float32), device=dy.device),)

    op = Op("threes", ops.exp.spec, ops.exp.host_forward, ops.exp.forward, lambda *a: None, backward)  # type: ignore[arg-type, return-value]
    w = nn.Parameter([1.0])

    def threes(x: ad.Tensor) -> None:
        w.grad = None
        apply(op, w * x).sum().backward()

    f, g = ad.compiled(lambda x: threes(x)), backward_of(w)
    seen = []
    for _ in range(3):
        for run in (f, g):
            run(values(8))
            assert w.grad is not None
            seen.append(w.grad.item())
    assert seen == [24.0, 8.0] * 3


def test_plans_of_objects_that_are_gone() -> None:
    """They go, and take nothing along: no error, no memory, also where the function refers to its own owner."""
    f = ad.compiled(lambda m, x: m(x))
    gc.collect()
    before = memory.stats().in_use_bytes
    for _ in range(5):
        m = nn.Linear(64, 64)
        f(m, np.ones((1, 64), np.float32))
        m.eval()
        f(m, np.ones((1, 64), np.float32))
        del m
    gc.collect()
    assert memory.stats().in_use_bytes - before < 60_000
    f.invalidate()

    class Model(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter([1.0])
            self.step = ad.compiled(self._step)

        def _step(self, x: ad.Tensor) -> ad.Tensor:
            return self.w * x

    model = Model()
    model.step(ONE)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_assigned_gradients_are_carried() -> None:
    """A gradient assigned before each call, wherever it lies, is what a captured update reads."""
    w = nn.Parameter([0.0])
    optimizer = optim.SGD([w], lr=1.0)
    update = ad.compiled(lambda: optimizer.step())
    total = 0.0
    for number in range(1, 6):
        w.grad = ad.tensor([float(number)])
        update()
        total -= number
        assert w.item() == total
    assert (update.stats().captures, update.stats().replays) == (1, 4)

    def take() -> None:
        optimizer.step()
        optimizer.zero_grad()

    taking = ad.compiled(take)
    for number in range(1, 4):
        w.grad = ad.tensor([float(number)])
        taking()
        total -= number
        assert w.item() == total
        assert w.grad is None
    assert taking.stats().replays == 2
