"""Calls of a compiled function: arguments, results, plans and their memory, threads, wrong use."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest
from compiled_helpers import Pair, batches, same

import autodiff as ad
import gpu_backend as gb
from autodiff import CaptureError, CaptureWarning, nn, optim
from gpu_backend import memory
from gpu_backend.device import GPUDevice

pytestmark = pytest.mark.usefixtures("gpu")


def test_in_place_changes_of_arguments_reach_the_caller() -> None:
    """P-CS10: the function updates its argument and returns only the loss; every call of five moves it."""

    @ad.compiled
    def f(w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
        w.sub_(x * 0.5)
        return (w * x).sum()

    w, other = ad.tensor([4.0, 4.0]), ad.tensor([1.0, 1.0])
    shared = w.clone()
    for number in range(1, 6):
        loss = f(w, np.ones(2, np.float32))
        assert w.tolist() == [4 - 0.5 * number] * 2
        assert loss.item() == 2 * (4 - 0.5 * number)
    f(other, np.ones(2, np.float32))
    assert other.tolist() == [0.5, 0.5]
    assert shared.tolist() == [4.0, 4.0]
    assert (f.stats().captures, f.stats().replays) == (1, 5)


def test_results_are_fed_back_and_kept() -> None:
    """P-CS09: an output is the next input; earlier outputs stay; two arguments on one memory."""

    @ad.compiled
    def f(x: ad.Tensor, y: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return x * 2.0, x + y

    kept = []
    x = ad.tensor([1.0])
    for _ in range(5):
        x, total = f(x, x)
        kept += [x, total]
    assert [k.item() for k in kept] == [2, 2, 4, 4, 8, 8, 16, 16, 32, 32]
    assert f(x, x.reshape(1)).__len__() == 2
    assert f(x, x * 1.0)[1].item() == 64.0


def test_gradients_of_leaf_arguments() -> None:
    """An argument that wants a gradient stands for itself: its ``grad`` is set by each call."""

    @ad.compiled
    def saliency(x: ad.Tensor, scale: ad.Tensor) -> ad.Tensor:
        x.grad = None
        (x * x * scale).sum().backward()
        assert x.grad is not None
        return x.grad

    x = ad.tensor([1.0, 2.0], requires_grad=True)
    for number in (1.0, 2.0, 3.0):
        result = saliency(x, np.full(2, number, np.float32))
        assert result.tolist() == [2 * number, 4 * number]
        assert x.grad is not None
        assert x.grad.tolist() == result.tolist()
    other = ad.tensor([5.0, 5.0], requires_grad=True)
    assert saliency(other, np.ones(2, np.float32)).tolist() == [10.0, 10.0]
    assert saliency.stats().captures == 2


def test_arguments_are_values() -> None:
    """An argument is as it was at the call, also where the function changes its memory from outside; in every mode."""
    w = ad.tensor([1.0])

    @ad.compiled
    def f(x: ad.Tensor, mode: str) -> ad.Tensor:
        w.add_(1.0)
        if mode == "plain":
            w.item()
        return x * 10.0

    assert [f(w, "captured").item() for _ in range(3)] == [10.0, 20.0, 30.0]
    with pytest.warns(CaptureWarning):
        assert [f(w, "plain").item() for _ in range(4)] == [40.0, 50.0, 60.0, 70.0]
    assert f(ad.tensor([7.0]), "captured").item() == 70.0
    assert w.item() == 9.0

    @ad.compiled
    def g(x: ad.Tensor) -> None:
        w.add_(10.0)
        x.add_(1.0)

    other = ad.tensor([1.0])
    with pytest.raises(CaptureError, match="is changed as an argument, which is a value, and from outside as well"):
        g(w)
    for number in (2.0, 3.0):
        g(other)
        assert other.item() == number
    before = w.item()
    with pytest.raises(CaptureError, match="change it one way"):
        g(w)
    assert w.item() == before


def test_plans_give_way_and_give_back() -> None:
    """The plans not used for longest go first, and their buffers with them."""

    @ad.compiled(max_plans=2)
    def f(x: ad.Tensor) -> ad.Tensor:
        return (x * 2.0).sum()

    gc.collect()
    before = memory.stats().in_use_bytes
    sizes = [np.ones(n, np.float32) for n in (3000, 7000, 20000)]
    f(sizes[0]), f(sizes[1])
    f(sizes[0])
    f(sizes[2])  # drops 7000
    assert f.stats().plans == 2
    f(sizes[0])
    assert f.stats().captures == 3
    f(sizes[1])
    assert f.stats().captures == 4
    assert memory.stats().in_use_bytes - before <= f.stats().nbytes
    f.invalidate()
    gc.collect()
    assert memory.stats().in_use_bytes == before


def test_plans_of_one_function_share_memory() -> None:
    f = ad.compiled(lambda x: ((x * 2.0).tanh() + x).sum())
    f(np.ones(30000, np.float32))
    alone = f.stats().nbytes
    f(np.ones(29990, np.float32))
    assert f.stats().nbytes < 1.2 * alone


def test_memory_taken_by_force_is_noticed() -> None:
    """A plan checks its memory from outside before each replay."""
    w = ad.tensor([1.0])
    f = ad.compiled(lambda x: x * w)
    for _ in range(2):
        f(np.ones(1, np.float32))
    memory.force_release(w)
    with pytest.raises(gb.ReleasedBufferError):
        f(np.ones(1, np.float32))
    pair = Pair(0)
    (x, target), *_ = batches(1)
    for _ in range(3):
        same(pair.step(x, target), pair.eager_step(x, target))
        memory.reclaim()
        ad.release_gradients(pair.compiled.parameters())


def test_a_shared_outside_tensor_keeps_its_place() -> None:
    """Memory that a clone shares is parted before it is captured; what is written later is seen."""
    w = ad.tensor([1.0, 2.0])
    copy = w.clone()
    f = ad.compiled(lambda x: x + w)
    assert f(np.zeros(2, np.float32)).tolist() == [1.0, 2.0]
    w.mul_(10.0)
    assert f(np.zeros(2, np.float32)).tolist() == [10.0, 20.0]
    w.copy_(np.array([3.0, 4.0], np.float32))
    assert f(np.zeros(2, np.float32)).tolist() == [3.0, 4.0]
    assert copy.tolist() == [1.0, 2.0]
    assert f.stats().captures == 1


def test_methods_may_be_compiled() -> None:
    class Doubler(nn.Module):
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @ad.compiled
        def double(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.factor

    two, three = Doubler(2.0), Doubler(3.0)
    for _ in range(2):
        assert two.double(np.ones(1, np.float32)).item() == 2.0
        assert three.double(np.ones(1, np.float32)).item() == 3.0
    assert two.double.stats().replays == 1


def test_a_moved_model_is_seen(host: gb.Device) -> None:
    """``Module.to`` and a replaced parameter: other memory, another plan."""
    model = nn.Linear(2, 2)
    f = ad.compiled(model)
    x = np.ones((1, 2), np.float32)
    f(x), f(x)
    model.weight = nn.Parameter(np.zeros((2, 2), np.float32))
    same(f(x), model.bias.detach().reshape(1, 2))  # type: ignore[union-attr]
    assert f.stats().captures == 2
    model.to(host)
    with gb.default_device(host):
        same(f(x), model(ad.tensor(x)).detach())
        assert f.stats().eager_calls == {"the host runs numpy, which has no dispatches to replay": 1}


@pytest.mark.no_poison
def test_bytes_stay_flat_over_alternating_shapes(gpu: GPUDevice) -> None:
    """Three shapes in turn, 300 replays here (10,000 in the slow test): bytes, buffers, bind groups."""
    check_flat(gpu, 300)


@pytest.mark.slow
@pytest.mark.no_poison
@pytest.mark.timeout(600)
def test_bytes_stay_flat_over_ten_thousand_replays(gpu: GPUDevice) -> None:
    check_flat(gpu, 10_000)


def check_flat(gpu: GPUDevice, replays: int) -> None:
    pair = Pair(0, make=optim.Adam, dropout=0.1)
    shapes = [batches(1, size=size)[0] for size in (3, 8, 5)]
    for x, target in shapes * 2:
        loss = pair.step(x, target)
    counters = []
    for number in range(replays):
        loss = pair.step(*shapes[number % 3])
        if number in (200, replays - 1):
            stats = memory.stats()
            counters.append((stats.created, stats.in_use_bytes, stats.reserved_bytes, gpu.recorder.bind_groups.misses))
    loss.item()
    assert counters[0] == counters[1]
    assert pair.step.stats().captures == 3


def test_long_steps_go_in_several_submits(gpu: GPUDevice) -> None:
    """The work budget of a submit holds in a plan as well."""
    pair = Pair(0)
    data = batches(3)
    budget = gpu.recorder.work_budget
    try:
        gpu.recorder.configure(work_budget=4096)
        for x, target in data:
            same(pair.step(x, target), pair.eager_step(x, target))
    finally:
        gpu.recorder.configure(work_budget=budget)
    pair.compare()
    assert "1 submits" not in pair.step.explain()


def test_a_compiled_function_inside_another_is_recorded_by_it() -> None:
    inner = ad.compiled(lambda x: x * 2.0)
    outer = ad.compiled(lambda x: inner(x) + 1.0)
    assert [outer(np.full(1, n, np.float32)).item() for n in (1, 2, 3)] == [3.0, 5.0, 7.0]
    assert outer.stats().replays == 2
    assert inner.stats().eager_calls == {"it is called inside another capture, which records it": 1}


def test_no_gradient_flows_through_a_compiled_function() -> None:
    """Results are off the tape from the first call on, and so are arguments."""
    w = nn.Parameter([2.0])
    f = ad.compiled(lambda x: x * w)
    x = ad.tensor([3.0], requires_grad=True) * 1.0
    for _ in range(3):
        y = f(x)
        assert not y.requires_grad
        with pytest.raises(ad.GradientError, match="not on the tape"):
            y.backward()


def test_many_threads_share_one_compiled_function() -> None:
    import threading

    f = ad.compiled(lambda x: (x * 2.0).sum())
    wrong: list[Any] = []

    def run(number: int) -> None:
        for n, size in itertools.product(range(10), (3, 5)):
            if f(np.full(size, number + n, np.float32)).item() != 2 * size * (number + n):
                wrong.append((number, n))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_wrong_use_is_named() -> None:
    with pytest.raises(TypeError, match="compiled: takes a function or a module, not int"):
        ad.compiled(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="max_plans 1 or more, not 0 and 0"):
        ad.compiled(lambda: None, max_plans=0)
    f = ad.compiled(lambda x: x)
    with pytest.raises(TypeError, match=r"argument 0\[1\] is a object; a compiled function takes tensors"):
        f([1, object()])
    with pytest.raises(TypeError, match="argument x is a Array"):
        f(x=gb.array([1.0]))
    with pytest.raises(gb.DtypeError):
        f(np.array([1j]))


def test_any_structure_comes_back() -> None:
    from dataclasses import dataclass
    from typing import NamedTuple

    @dataclass(frozen=True)
    class Both:
        loss: Any
        name: str

    class Pairs(NamedTuple):
        a: Any
        b: Any

    w = nn.Parameter([5.0])

    @ad.compiled
    def f(x: ad.Tensor) -> Any:
        y = x * 2.0
        return Both({"y": [y, y.reshape(1, 1)], "w": w, "x": x}, "n"), Pairs(None, (y.sum(), 3.0, np.arange(2)))

    for number in (1.0, 2.0, 3.0):
        both, pairs = f(np.full(1, number, np.float32))
        assert both.name == "n"
        assert [t.item() for t in both.loss["y"]] == [2 * number] * 2
        assert both.loss["y"][1].shape == (1, 1)
        assert both.loss["w"].item() == 5.0
        assert both.loss["w"] is not w
        assert both.loss["x"].item() == number
        assert pairs.a is None
        assert pairs.b[0].item() == 2 * number
        assert pairs.b[1] == 3.0
        pairs.b[2][0] = 9
    assert f.stats().replays == 2


def test_a_lost_device_is_told_once(gpu: GPUDevice) -> None:
    """After ``reset_device`` the next call raises DeviceLostError, the one after it captures anew."""
    device = GPUDevice(gpu.adapter)
    with gb.default_device(device):
        f = ad.compiled(lambda x: x * 2.0)
        for _ in range(2):
            f(np.ones(1, np.float32))
        device.destroy()
    with pytest.raises(gb.DeviceLostError):
        f(np.ones(1, np.float32))
    assert [f(np.full(1, n, np.float32)).item() for n in (1, 2)] == [2.0, 4.0]
    assert f.stats().captures == 2
