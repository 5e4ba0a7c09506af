"""Memory of models: gradients, optimizer state and graphs; what stays flat over steps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device, OutOfMemoryError, ReleasedBufferError, memory
from gpu_backend.device import GPUDevice

pytestmark = pytest.mark.no_poison


def train(device: Device, steps: int, batch: Callable[[int], int] = lambda step: 4) -> Iterator[int]:
    """An MLP with AdamW, one step after the other."""
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 7, device=device), nn.Tanh(), nn.Linear(7, 3, device=device))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    random = np.random.default_rng(0)
    for step in range(steps):
        x, target = random.standard_normal((batch(step), 6)), random.integers(0, 3, batch(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x, device=device)), target)
        loss.backward()
        optimizer.step()
        loss.item()
        yield step


def test_reclaim_spares_what_is_persistent(device: Device) -> None:
    """M4: parameters, gradients, optimizer state and what persist named; all else raises, with label and shape."""
    model = nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters())
    x = ad.tensor([[1.0, 2.0, 3.0]])
    model(x).sum().backward()
    mine = memory.persist(gb.array([7.0], label="mine"))
    other = gb.array([1.0, 2.0], label="other")
    view = other.reshape(2, 1)
    memory.reclaim()
    for gone in (lambda: gb.exp(other), view.numpy, lambda: x * 2.0):
        with pytest.raises(ReleasedBufferError, match="was force-released"):
            gone()
    with pytest.raises(ReleasedBufferError, match=r"the buffer of other \(2,\) was force-released"):
        gb.exp(view)
    optimizer.step()
    assert mine.tolist() == [7.0]
    assert model(ad.tensor([[1.0, 2.0, 3.0]])).shape == (1, 2)
    assert model.weight.grad is not None
    np.testing.assert_array_equal(model.weight.grad.numpy(), [[1.0, 2.0, 3.0]] * 2)
    stats = memory.stats()
    assert stats.reserved_bytes >= stats.in_use_bytes
    memory.unpersist(mine)
    memory.reclaim()
    with pytest.raises(ReleasedBufferError, match=r"mine \(1,\)"):
        mine.numpy()


def test_gradients_are_handed_out_together_or_not_at_all(device: Device, limited: Callable[[int], None]) -> None:
    """Memory runs out for the second leaf, whose gradient is a copy of the first's."""
    a = ad.tensor(np.ones(20_000), requires_grad=True)
    b = ad.tensor(np.ones(20_000), requires_grad=True)
    loss = (a + b).sum()
    for room, succeeds in ((98_304 + 1024, False), (10 * 98_304, True)):
        limited(room)
        if succeeds:
            loss.backward()
            assert a.grad is not None
            assert b.grad is not None
            assert a.grad.tolist() == b.grad.tolist() == [1.0] * 20_000
        else:
            with pytest.raises(OutOfMemoryError):
                loss.backward(retain_graph=True)
            assert a.grad is b.grad is None


def test_a_graph_whose_arrays_a_scope_ended_raises_before_it_changes_a_gradient(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    v = nn.Parameter([1.0, 2.0])
    with memory.scope() as inside:
        y = w.tanh()
        loss = inside.keep((y * v).sum() + v.sum())
    for _ in range(2):  # nothing was freed on the way either
        with pytest.raises(ReleasedBufferError, match="tanh"):
            loss.backward()
        assert w.grad is v.grad is None


def test_release_gradients_frees_their_buffers(device: Device) -> None:
    """M9: counters before and after; whoever holds a gradient is told."""
    model = nn.Linear(50, 40)
    gc.collect()
    before = memory.stats().in_use_bytes
    model(ad.tensor(np.ones((1, 50)))).sum().backward()
    held = model.weight.grad
    assert memory.stats().in_use_bytes - before == 8192 + 256
    ad.release_gradients(model.parameters())
    assert memory.stats().in_use_bytes == before
    assert model.weight.grad is model.bias.grad is None
    assert held is not None
    with pytest.raises(ReleasedBufferError, match=r"the buffer of gradient \(40, 50\) was released"):
        held.numpy()
    ad.release_gradients(model.parameters())


def test_release_gradients_spares_what_a_gradient_was_copied_from(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    mine = ad.tensor([5.0, 6.0])
    w.grad = mine.clone()
    ad.release_gradients([w])
    assert mine.tolist() == [5.0, 6.0]
    w.grad = ad.tensor([1.0, 1.0])
    memory.release(w.grad)
    ad.release_gradients([w])
    assert w.grad is None


def test_an_assigned_gradient_is_a_copy(device: Device) -> None:
    """What it was copied from is neither kept nor released with it."""
    w, bias = nn.Parameter([1.0, 2.0]), nn.Parameter([3.0, 4.0])
    mine = ad.tensor([5.0, 6.0])
    w.grad = mine
    mine.zero_()
    assert w.grad is not None
    assert w.grad.tolist() == [5.0, 6.0]
    assert not mine.array.storage.persistent
    w.grad = bias.detach()
    ad.release_gradients([w])
    assert bias.tolist() == [3.0, 4.0]
    assert bias.array.storage.label == "parameter"


def test_a_backward_into_a_released_gradient_changes_no_other(device: Device) -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([2.0])
    (a * b).sum().backward()
    assert b.grad is not None
    memory.force_release(b.grad)
    with pytest.raises(ReleasedBufferError, match="gradient"):
        (a * b).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [2.0]
    gone = ad.tensor([1.0])
    memory.release(gone)
    loss = (a * b).reshape(1)
    with pytest.raises(ReleasedBufferError):
        loss.backward(gone)
    b.grad = None
    loss.backward(ad.tensor([1.0]))
    assert a.grad.tolist() == [4.0]


def test_a_gradient_that_was_assigned_is_persistent(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    optimizer = optim.SGD([w], lr=1.0)
    with memory.scope():
        (w * w).sum().backward()
        assert w.grad is not None
        w.grad = w.grad * 0.5
    memory.reclaim()
    optimizer.step()
    assert w.tolist() == [0.0, 0.0]


def test_optimizer_state_goes_with_the_optimizer(device: Device) -> None:
    model = nn.Linear(30, 20)
    gc.collect()
    before = memory.stats().in_use_bytes
    optimizer = optim.AdamW(model.parameters())
    state = memory.stats().in_use_bytes - before
    assert state == 2 * (3072 + 256) + 3 * 256, "two moments a parameter, hyper-parameters, step counts, verdict"
    memory.reclaim()
    assert memory.stats().in_use_bytes >= before + state
    del optimizer
    assert memory.stats().in_use_bytes <= before


def test_loading_and_updates_keep_buffers(device: Device) -> None:
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    serials = [p.array.storage.buffer.serial for p in model.parameters()]
    model.load_state_dict({name: p.numpy() + 1 for name, p in model.state_dict().items()})
    for _ in range(3):
        optimizer.zero_grad()
        model(ad.tensor(np.ones((2, 3)))).sum().backward()
        optimizer.step()
    with ad.no_grad():
        model.weight.mul_(0.5)
    assert [p.array.storage.buffer.serial for p in model.parameters()] == serials


def test_memory_is_flat_over_steps(device: Device) -> None:
    """M2, M7, P-ME02: live bytes and buffers after step 20 and after step 200; on an adapter the driver's as well."""
    from wgpu.backends.wgpu_native._helpers import generate_report

    gc.collect()
    memory.trim()
    marks = []
    for step in train(device, 200):
        if step in (19, 199):
            stats = memory.stats()
            native = generate_report()["hub"] if isinstance(device, GPUDevice) else {}
            objects = [native[kind]["allocated"] for kind in ("buffers", "bindGroups", "computePipelines") if native]
            marks.append((stats.in_use_bytes, stats.reserved_bytes, stats.created - stats.destroyed, objects))
    assert marks[0] == marks[1]


def test_batches_of_changing_size_reserve_at_most_twice_what_is_in_use(device: Device) -> None:
    """P-ME04, and a trim at every step does not raise the peak."""
    gc.collect()
    memory.reclaim()
    memory.reset_peak()
    device.pool._most_in_use = 0  # of this test alone
    random = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = optim.SGD(model.parameters())
    peaks = []
    for trims in (False, True):
        memory.reset_peak()
        for step in range(64):
            count = 1 + 7 * step % 32
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ad.tensor(random.standard_normal((count, 16)))), np.zeros(count, np.int32))
            loss.backward()
            optimizer.step()
            if step % 3 == 0:
                loss.item()
            if trims:
                memory.trim()
            stats = memory.stats()
            assert stats.reserved_bytes <= 2 * max(stats.peak_bytes, *peaks, 0)
        peaks.append(memory.stats().peak_bytes)
    assert peaks[1] <= peaks[0]


def test_a_sum_of_losses_is_flat_once_it_is_read(device: Device) -> None:
    """P-ME10: `total += loss.item()` holds no graph; `total = total + loss` without detach does, and its release frees
    all of it."""
    w = nn.Parameter([1.0])
    total = 0.0
    losses: Any = ad.tensor(0.0)
    gc.collect()
    before = memory.stats().in_use_bytes
    for _ in range(300):
        total += (w * 2.0).sum().item()
    assert memory.stats().in_use_bytes == before
    assert total == 600.0
    for _ in range(300):
        losses = losses + (w * 2.0).sum()
    grown = memory.stats().in_use_bytes
    assert losses.item() == 600.0
    del losses
    assert memory.stats().in_use_bytes < grown or grown <= before + 3 * 256
    for _ in range(300):
        losses = (w * 2.0).sum().detach()
    del losses
    assert memory.stats().in_use_bytes <= before


def test_cross_entropy_of_many_classes_needs_no_square_matrix(device: Device) -> None:
    """M10: 50,000 classes: bytes stay a few times those of the logits, and nothing is read back."""
    logits = ad.tensor(np.zeros((4, 50_000), np.float32), requires_grad=True)
    target = np.array([0, 1, 49_999, 7])
    gc.collect()
    memory.reset_peak()
    before, downloads = memory.stats().in_use_bytes, device.recorder.downloads
    loss = F.cross_entropy(logits, target)
    loss.backward()
    assert device.recorder.downloads == downloads
    assert memory.stats().peak_bytes - before <= 4 * 2**20
    assert loss.item() == pytest.approx(np.log(50_000), rel=1e-6)
