"""The pool: leases, size classes, force release, deferred destruction, counters."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device, OutOfMemoryError, ReleasedBufferError
from gpu_backend.buffer_pool import BufferPool
from gpu_backend.ops import update

pytestmark = pytest.mark.no_poison


class Fake:
    """Memory that only counts."""

    largest_buffer = 1 << 20

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.made = 0

    def create(self, nbytes: int, label: str) -> Any:
        self.made += 1
        self.live.add(self.made)
        return self.made

    def destroy(self, memory: Any) -> None:
        self.live.remove(memory)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0, 256), (1, 256), (256, 256), (257, 384), (384, 384), (385, 512), (1000, 1024), (700_000, 786_432)],
)
def test_size_classes(asked: int, given: int) -> None:
    assert BufferPool(Fake()).size_class(asked) == given


def test_a_class_is_at_most_twice_what_was_asked_and_never_past_the_limit() -> None:
    pool = BufferPool(Fake())
    for asked in range(256, 1 << 20, 997):
        assert asked <= pool.size_class(asked) <= min(2 * asked, 1 << 20)
        assert pool.size_class(asked) % 16 == 0
    with pytest.raises(
        OutOfMemoryError,
        match=r"big: shape \(\) takes 1048577 bytes; the largest buffer this device can bind has 1048576",
    ):
        pool.take((1 << 20) + 1, "big")


def test_the_lowest_serial_comes_first() -> None:
    pool = BufferPool(Fake())
    leases = [pool.take(100) for _ in range(5)]
    order = [3, 0, 4, 1]
    for index in order:
        leases[index] = None  # type: ignore[call-overload]
    gc.collect()
    assert [pool.take(100).buffer.serial for _ in range(2)] == [0, 0]
    kept = [pool.take(100) for _ in range(4)]
    assert [lease.buffer.serial for lease in kept] == [0, 1, 3, 4]


def test_counters_add_up() -> None:
    fake = Fake()
    pool = BufferPool(fake)
    first, second = pool.take(100), pool.take(1000)
    stats = pool.stats()
    assert (stats.in_use_bytes, stats.reserved_bytes, stats.peak_bytes) == (1280, 1280, 1280)
    assert (stats.created, stats.destroyed, stats.reused) == (2, 0, 0)
    del second
    third = pool.take(900)
    assert pool.stats().reused == 1
    del first, third
    assert pool.stats().in_use_bytes == 0
    assert pool.stats().reserved_bytes == 1280
    pool.trim()
    assert pool.stats().reserved_bytes == 0
    assert pool.stats().destroyed == 2
    assert not fake.live


def test_reserved_bytes_stay_below_twice_the_most_that_was_in_use() -> None:
    """P-ME04: what was free longest goes first."""
    pool = BufferPool(Fake())
    for nbytes in (4096, 2048, 2048, 1024):
        pool.take(nbytes)
        pool.flushed()
    assert pool.stats().reserved_bytes == 4096 + 2048 + 1024
    pool.take(512)
    assert pool.stats().reserved_bytes == 4096 + 2048 + 1024 + 512
    pool.take(3072)
    stats = pool.stats()
    assert stats.destroyed == 1
    assert stats.reserved_bytes == 2048 + 1024 + 512 + 3072, "the first was free longest"


def test_a_request_that_failed_does_not_raise_the_bound_on_what_is_free() -> None:
    pool = BufferPool(Fake())
    pool.take(2048)
    pool.limit = 10_000
    with pytest.raises(OutOfMemoryError, match="the limit is reached"):
        pool.take(100_000)
    pool.limit = None
    for nbytes in (2048, 1024, 768, 512):
        pool.take(nbytes)
    assert pool.stats().reserved_bytes == 1024 + 768 + 512


def test_a_reset_of_the_peak_does_not_lower_the_bound_on_what_is_free() -> None:
    pool = BufferPool(Fake())
    pool.take(2048)
    pool.take(1024)
    both = pool.take(2048), pool.take(1024)
    assert pool.stats().peak_bytes == 3072
    del both
    pool.reset_peak()
    assert pool.stats().peak_bytes == 0
    pool.take(1536)
    assert pool.stats().reserved_bytes == 2048 + 1024 + 1536


def test_destruction_waits_for_recorded_work() -> None:
    """M1 at its root: a free buffer that unsubmitted work refers to outlives trim until the flush."""
    fake = Fake()
    pool = BufferPool(fake)
    lease = pool.take(100)
    lease.buffer.recorded_in = pool.epoch
    pool.has_pending = True
    del lease
    pool.trim()
    assert pool.stats().pending_destroy == 1
    assert fake.live
    pool.flushed()
    assert not fake.live
    assert pool.stats().pending_destroy == 0


def test_trim_finds_what_waits_and_what_an_interruption_lost() -> None:
    fake = Fake()
    pool = BufferPool(fake)
    first, second, third = pool.take(100), pool.take(100), pool.take(1000)
    first.buffer.recorded_in = second.buffer.recorded_in = pool.epoch
    pool.has_pending = True
    del first, second, third
    pool.trim()
    pool.trim()
    assert pool.stats().pending_destroy == 2
    pool.flushed()
    assert pool.stats().destroyed == 3
    pool.take(100)
    pool.stats()
    pool._free.clear()  # as if Ctrl-C had come between the list and the lease
    assert pool.stats().reserved_bytes == 256
    pool.trim()
    assert pool.stats().reserved_bytes == 0
    assert not fake.live


def test_force_release_voids_every_lease_once() -> None:
    """M4: the count is ignored, later releases are no-ops, no buffer gets two owners."""
    pool = BufferPool(Fake())
    storage = pool.take(100, "weights", (3,))
    other = pool.take(100)
    storage2 = pool.take(100)
    storage2.adopt(storage)
    assert storage.buffer.count == 2
    pool.force_release(storage)
    pool.force_release(storage)
    pool.force_release(storage2)
    taken = pool.take(100)
    with pytest.raises(ReleasedBufferError, match=r"the buffer of weights \(3,\) was force-released"):
        storage.check()
    del storage, storage2
    again = [pool.take(100) for _ in range(3)]
    serials = [lease.buffer.serial for lease in (taken, other, *again)]
    assert len(set(serials)) == 5


def test_recorded_work_survives_force_release_and_trim(device: Device) -> None:
    """M1, P-ME01: y = 2 x, x released by force, trimmed, then y is read; x is unusable and says so."""
    x = gb.array([1.0, 2.0, 3.0], label="x")
    y = gb.multiply(x, 2.0)
    device.pool.force_release(x.storage)
    device.pool.trim()
    assert y.tolist() == [2.0, 4.0, 6.0]
    for use in (x.numpy, lambda: gb.add(x, 1.0)):
        with pytest.raises(ReleasedBufferError, match=r"x .*was force-released"):
            use()
    assert "released" in repr(x)


def test_trim_gives_back_all_that_is_free(device: Device) -> None:
    kept = gb.array(np.ones(1000, np.float32))
    dropped = gb.array(np.ones(5000, np.float32))
    del dropped
    gb.memory.trim()
    stats = gb.memory.stats()
    assert stats.reserved_bytes == stats.in_use_bytes
    assert kept.numpy().sum() == 1000


def test_bind_groups_of_a_destroyed_buffer_are_dropped(adapter: Any) -> None:
    x = gb.array(np.ones(3000, np.float32), device=adapter)
    y = gb.exp(x)
    y.numpy()
    groups = len(adapter.recorder.bind_groups)
    del x, y
    gb.memory.trim(adapter)
    assert len(adapter.recorder.bind_groups) < groups


def test_assignment_exchanges_memory_and_leaves_the_source_alone(device: Device) -> None:
    x, y = gb.array([1.0, 2.0]), gb.array([3.0, 4.0])
    view = x.reshape(2, 1)
    update.assign(x, y)
    assert view.tolist() == [[3.0], [4.0]]
    update.assign(x, gb.add(x, 1.0))
    assert x.tolist() == [4.0, 5.0]
    assert y.tolist() == [3.0, 4.0]
    assert view.tolist() == [[4.0], [5.0]]


def test_persistent_memory_stays_where_it_is(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    serial = w.array.storage.buffer.serial
    with ad.no_grad():
        w.add_(1.0)
        w.copy_(w * 10.0)
    assert w.tolist() == [20.0, 30.0]
    assert w.array.storage.buffer.serial == serial
    x = gb.array([0.0, 0.0])
    update.assign(x, w.array)
    assert x.storage.buffer.serial != serial
    with ad.no_grad():
        w.zero_()
    assert x.tolist() == [20.0, 30.0]


def test_movement_copies(device: Device) -> None:
    """M12: the result does not move with its source."""
    x = gb.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    moved = [gb.permute_dims(x, axes=(1, 0)), gb.broadcast_to(x, shape=(2, 2, 3)), gb.permute_dims(x, axes=(0, 1))]
    before = [m.numpy() for m in moved]
    update.copy_into(x, gb.full((2, 3), -1.0))
    for m, wanted in zip(moved, before, strict=True):
        np.testing.assert_array_equal(m.numpy(), wanted)
    assert x.reshape(6).tolist() == [-1.0] * 6


def test_a_forward_sees_the_weights_of_the_step_before(device: Device) -> None:
    """M6: no stale weights; a hundred fresh inputs give a hundred results and no growth."""
    w = nn.Parameter([[1.0, 0.0]])
    optimizer = optim.SGD([w], lr=1.0)
    x = ad.tensor([[1.0, 1.0]])
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        y = F.linear(x, w)
        seen.append(y.item())
        y.sum().backward()
        optimizer.step()
    assert seen == [1.0, -1.0, -3.0]
    results = set()
    with ad.no_grad():
        for k in range(100):
            results.add(F.linear(ad.tensor([[float(k), 2.0]]), w).item())
            if k == 3:
                reserved = gb.memory.stats().reserved_bytes
    assert len(results) == 100
    assert gb.memory.stats().reserved_bytes <= reserved


def test_memory_shared_by_assignment_is_left_before_a_write_where_it_lies(device: Device) -> None:
    """Two storages on one buffer: whichever is written first gets its own."""
    g = ad.tensor([1.0, 1.0])
    h = ad.tensor([0.0, 0.0]).copy_(g)
    x = ad.tensor([5.0, 5.0], requires_grad=True)
    x.grad = h
    (x * 1.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    assert g.tolist() == [1.0, 1.0]
    y = ad.tensor([3.0, 4.0])
    source = ad.tensor([0.0, 0.0]).copy_(y)
    p = nn.Parameter(source.array)
    p.grad = ad.tensor([1.0, 1.0])
    optim.SGD([p], lr=1.0).step()
    assert p.tolist() == [2.0, 3.0]
    assert y.tolist() == [3.0, 4.0]


def test_free_buffers_are_given_back_before_memory_runs_out() -> None:
    """M8: what is free is destroyed and the request tried once more; then the error, and the next request works."""

    class Small(Fake):
        def create(self, nbytes: int, label: str) -> Any:
            if len(self.live) >= 2:
                raise OutOfMemoryError("full")
            return super().create(nbytes, label)

    pool = BufferPool(Small())
    first, second = pool.take(1000), pool.take(2000)
    del second
    third = pool.take(5000)
    assert pool.stats().destroyed == 1
    with pytest.raises(OutOfMemoryError, match="full"):
        pool.take(9000)
    del third
    assert pool.take(100).buffer.nbytes == 256
    assert first.buffer.nbytes == 1024


def test_threads_that_take_get_buffers_of_their_own(adapter: Any) -> None:
    kept: list[Any] = []

    def take() -> None:
        kept.extend(gb.empty(1, device=adapter) for _ in range(200))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len({x.storage.buffer.serial for x in kept}) == len(kept) == 1600
