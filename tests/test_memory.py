"""The public face of memory: numbers, limits, clones, scopes, what is freed when, and errors instead of aborts."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn
from gpu_backend import Device, OutOfMemoryError, ReleasedBufferError, memory
from gpu_backend.array import write
from gpu_backend.device import GPUDevice
from gpu_backend.ops import optimizer, update

pytestmark = pytest.mark.no_poison


def test_dropped_memory_stays_reserved_until_it_is_trimmed(device: Device) -> None:
    """P-ME05: two numbers, and the counters add up."""
    gc.collect()
    memory.trim()
    before = memory.stats()
    x = gb.empty(1_000_000)
    during = memory.stats()
    assert during.in_use_bytes - before.in_use_bytes == 2**22
    assert during.peak_bytes >= during.in_use_bytes
    del x
    after = memory.stats()
    assert after.in_use_bytes == before.in_use_bytes
    assert after.reserved_bytes == before.reserved_bytes + 2**22
    memory.trim()
    last = memory.stats()
    assert last.reserved_bytes == last.in_use_bytes == before.in_use_bytes
    assert last.created - last.destroyed == before.created - before.destroyed
    assert last.destroyed == before.destroyed + 1


def test_the_peak_starts_anew(device: Device) -> None:
    x = gb.empty(500_000)
    del x
    memory.reset_peak()
    assert memory.stats().peak_bytes == memory.stats().in_use_bytes
    y = gb.empty(100)
    assert memory.stats().peak_bytes == memory.stats().in_use_bytes
    assert y.size == 100


def test_past_the_limit_there_is_an_error_with_every_number_and_the_next_op_works(
    device: Device, limited: Callable[[int], None]
) -> None:
    """M8: flush, trim, retry once, then OutOfMemoryError, which is a MemoryError."""
    kept = [gb.array(np.ones(n, np.float32), label=f"kept {n}") for n in (100, 2000, 300, 400, 500, 600)]
    limited(10_000)
    free = gb.array(np.ones(1500, np.float32))
    del free
    x = gb.array(np.ones(2000, np.float32), label="fits once the free ones are gone")
    with pytest.raises(OutOfMemoryError) as raised:
        gb.add(x, 1.0)
    stats = memory.stats()
    text = str(raised.value)
    assert isinstance(raised.value, MemoryError)
    assert "add: no memory for shape (2000,), a buffer of 8192 bytes (the limit is reached)" in text
    assert f"In use {stats.in_use_bytes}, reserved {stats.reserved_bytes}, limit {device.pool.limit}." in text
    largest = text.partition("Largest in use: ")[2].split("; ")
    assert len(largest) == 5
    assert [int(entry.split()[-1]) for entry in largest] == [row.nbytes for row in memory.snapshot()[:5]]
    assert gb.sum(kept[0]).item() == 100
    assert gb.sum(x).item() == 2000


def test_recorded_work_is_submitted_before_memory_runs_out(adapter: GPUDevice) -> None:
    """M8, M1: buffers in unsubmitted work are destroyed after a flush, to make room, and their readers are right."""
    with gb.default_device(adapter):
        gc.collect()
        memory.trim()
        memory.set_limit(memory.stats().in_use_bytes + 22_000)
        try:
            x = gb.array(np.ones(2000, np.float32))
            y = gb.multiply(x, 3.0)
            del x
            flushes = adapter.recorder.flushes
            z = gb.empty(2500)
            assert adapter.recorder.flushes > flushes
            assert gb.sum(y).item() == 6000
            assert z.size == 2500
        finally:
            memory.set_limit(None)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1 GB", np.int64(-1)])
def test_a_limit_is_a_number_of_bytes(limit: Any, device: Device) -> None:
    with pytest.raises(ValueError, match="a limit is a number of bytes or None"):
        memory.set_limit(limit)


def test_a_limit_below_what_is_reserved_gives_free_buffers_back(device: Device) -> None:
    kept = gb.empty(1000)
    gb.empty(100_000)
    memory.set_limit(memory.stats().in_use_bytes)
    try:
        assert memory.stats().reserved_bytes == memory.stats().in_use_bytes
        assert kept.size == 1000
    finally:
        memory.set_limit(None)


@pytest.mark.parametrize("shape", [(2**31, 2**31, 4), (2**63,), (2**64, 2**64), (2**33,)])
def test_sizes_never_wrap_around(shape: tuple[int, ...], adapter: GPUDevice) -> None:
    """P-LM03: products of extents past 32 and 64 bits are told, not taken modulo."""
    row = gb.full((1,) * len(shape), 1.0, device=adapter)
    dispatches = adapter.recorder.dispatches
    nbytes = 4 * int(np.prod([int(n) for n in shape], dtype=object))
    for make in (lambda: gb.empty(shape, device=adapter), lambda: gb.broadcast_to(row, shape=shape)):
        with pytest.raises(OutOfMemoryError, match=f"takes {nbytes} bytes"):
            make()
    column = gb.full((2**20, 1), 1.0, device=adapter)
    with pytest.raises(OutOfMemoryError, match=r"matmul: shape \(1048576, 1048576\) takes 4398046511104 bytes"):
        gb.matmul(column, column, transpose_b=True)
    assert adapter.recorder.dispatches - dispatches == 1, "of the column"


def test_force_release_then_releases_leave_no_buffer_with_two_owners(device: Device) -> None:
    """M4: count 3, force_release, three releases."""
    x = gb.array([1.0, 2.0, 3.0], label="x")
    leases = [x, gb.clone(x), gb.clone(x)]
    assert x.storage.buffer.count == 3
    memory.force_release(x)
    memory.force_release(x)
    for lease in leases:
        with pytest.raises(ReleasedBufferError, match="was force-released"):
            lease.numpy()
    taken = gb.array([5.0, 6.0, 7.0])
    for lease in leases:
        memory.release(lease)
    more = [gb.array([float(n)] * 3) for n in range(4)]
    assert taken.tolist() == [5.0, 6.0, 7.0]
    assert [m.tolist() for m in more] == [[float(n)] * 3 for n in range(4)]
    with pytest.raises(ReleasedBufferError, match=r"the buffer of x \(3,\) is released a second time"):
        memory.release(x)


def test_release_is_at_once_and_only_once(device: Device) -> None:
    before = memory.stats().in_use_bytes
    x = gb.array(np.ones(1000, np.float32), label="x")
    y = gb.multiply(x, 2.0)
    memory.release(x)
    assert memory.stats().in_use_bytes - before == y.storage.buffer.nbytes
    with pytest.raises(ReleasedBufferError, match=r"the buffer of x \(1000,\) was released"):
        x.numpy()
    with pytest.raises(ReleasedBufferError, match="a second time"):
        memory.release(x)
    assert "released" in repr(x)
    assert y.numpy().sum() == 2000


def test_persistent_memory_is_not_retained(device: Device) -> None:
    w = nn.Parameter([1.0])
    with pytest.raises(ValueError, match=r"parameter \(1,\) is persistent: its buffer is not shared"):
        device.pool.retain(w.array.storage)


@pytest.mark.parametrize("writer", ["upload", "in place", "accumulate", "fill", "copy", "optimizer"])
@pytest.mark.parametrize("which", ["source", "clone"])
def test_a_clone_is_copied_when_either_is_written(writer: str, which: str, device: Device) -> None:
    x = ad.tensor([1.0, 2.0])
    y = x.clone()
    assert y.array.storage.buffer is x.array.storage.buffer
    target, other = (x, y) if which == "source" else (y, x)
    if writer == "upload":
        write(target.array, np.array([9.0, 9.0], np.float32))
    elif writer == "in place":
        target.add_(1.0)
    elif writer == "accumulate":
        update.accumulate(target.array, other.array)
    elif writer == "fill":
        target.zero_()
    elif writer == "copy":
        update.copy_into(target.array, gb.array([4.0, 4.0]))
    else:
        hyper, progress = gb.array([1.0, 0.0, 1.0, 0.0, 0.0]), gb.full((1, 3), 0.0)
        verdict = gb.array(np.array([1, 0], np.uint32))
        optimizer.sgd_update(target.array, gb.array([1.0, 1.0]), None, hyper, progress, 0, verdict)
    assert other.tolist() == [1.0, 2.0]
    assert target.tolist() != [1.0, 2.0]
    assert y.array.storage.buffer is not x.array.storage.buffer


def test_a_clone_of_persistent_memory_is_copied_at_once(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    serial = w.array.storage.buffer.serial
    y = w.detach().clone()
    assert y.array.storage.buffer.serial != serial
    with ad.no_grad():
        w.zero_()
    assert y.tolist() == [1.0, 2.0]
    assert w.array.storage.buffer.serial == serial


def test_a_clone_is_on_the_tape(device: Device) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (F.clone(x) * x.clone()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_move_to_a_buffer_of_its_own_is_no_change(device: Device) -> None:
    """The tape may have saved it: its elements are the same as before."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2.0
    y = (h * h).sum()
    twin = h.detach().clone()
    memory.persist(h)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [8.0, 16.0]
    assert twin.tolist() == [2.0, 4.0]


def test_what_was_released_is_neither_source_nor_target(device: Device) -> None:
    """Also where the released buffer serves the other operand by now."""
    x = gb.array([1.0, 2.0])
    memory.release(x)
    w = nn.Parameter([3.0, 4.0])
    assert w.array.storage.buffer is x.storage.buffer
    uses = (update.copy_into, update.assign, update.accumulate)
    for use in uses:
        for target, source in ((w.array, x), (x, w.array), (x, x)):
            with pytest.raises(ReleasedBufferError):
                use(target, source)
    assert w.tolist() == [3.0, 4.0]


def test_a_scope_ends_what_was_made_inside(device: Device) -> None:
    outside = ad.tensor([1.0, 2.0])
    w = nn.Parameter([3.0, 4.0])
    before = memory.stats().in_use_bytes
    with memory.scope() as outer:
        with memory.scope() as inner:
            a = outside * 2.0
            b = inner.keep(a + 1.0)
            (w * b).sum().backward()
            outside.add_(10.0)  # memory from inside, an array from outside
        with pytest.raises(ReleasedBufferError, match=r"multiply \(2,\) was released"):
            a.numpy()
        c = outer.keep(b * 1.0)
    with pytest.raises(ReleasedBufferError):
        b.numpy()
    assert c.tolist() == [3.0, 5.0]
    assert outside.tolist() == [11.0, 12.0]
    assert w.grad is not None
    assert w.grad.tolist() == [3.0, 5.0]
    assert memory.stats().in_use_bytes - before == 2 * 256, "c and the gradient"
    assert not device.pool.scopes


def test_a_scope_ends_with_an_error_too_and_spares_other_threads(device: Device) -> None:
    made: list[Any] = []

    def fail() -> None:
        with memory.scope():
            made.append(gb.array([1.0]))
            worker = threading.Thread(target=lambda: made.append(gb.array([2.0], device=device)))
            worker.start()
            worker.join()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(ReleasedBufferError):
        made[0].numpy()
    assert made[1].tolist() == [2.0]
    assert not device.pool.scopes


def test_a_snapshot_lists_live_buffers_largest_first(device: Device) -> None:
    small = gb.array(np.ones(10, np.float32), label="small")
    large = memory.persist(gb.array(np.ones((5000, 100), np.float32), label="large"))
    snapshot = memory.snapshot()
    assert snapshot.nbytes == memory.stats().in_use_bytes
    assert [row.nbytes for row in snapshot] == sorted((row.nbytes for row in snapshot), reverse=True)
    (row,) = [row for row in snapshot if row.label == "large"]
    assert row[:4] == ("large", (5000, 100), 2**21, True)
    lines = str(snapshot).splitlines()
    assert lines[0].split() == ["label", "shape", "bytes", "persistent"]
    (line,) = [line for line in lines if line.startswith("large")]
    assert line.split() == ["large", "(5000,", "100)", "2,097,152", "yes"]
    assert lines[-1] == f"{len(snapshot)} buffers, {snapshot.nbytes:,} bytes"
    assert any(row.label == "small" and row.shape == (10,) for row in snapshot)
    assert small.size + large.size == 500_010
    del large
    assert all(row.label != "large" for row in memory.snapshot())


def test_growth_is_told_with_what_is_new(device: Device) -> None:
    kept = [gb.array([1.0])]
    with memory.expect_no_growth():
        kept[0] = gb.exp(kept[0])
    with (
        pytest.raises(AssertionError, match=r"grew by 4,096 bytes. New are:\n(.*\n)*leak +\(1000,\) +4,096"),
        memory.expect_no_growth(),
    ):
        kept.append(gb.array(np.ones(1000, np.float32), label="leak"))


def test_every_function_serves_every_device_array_and_tensor(device: Device) -> None:
    """M5: by name, by object and by default; for arrays and for what wraps them."""
    about_arrays = {"release", "force_release", "persist", "unpersist"}
    about_devices = {"stats", "reset_peak", "trim", "reclaim", "scope", "snapshot", "expect_no_growth", "set_limit"}
    functions = {name for name in memory.__all__ if not inspect.isclass(getattr(memory, name))}
    assert functions == about_arrays | about_devices
    name = "host" if device.is_host else device.name
    for function in about_devices:
        for target in ((), (name,), (device,)):
            arguments = (None, *target) if function == "set_limit" else target
            result = getattr(memory, function)(*arguments)
            if function in ("scope", "expect_no_growth"):
                with result:
                    pass
    for function in about_arrays:
        for make in (gb.array, ad.tensor, nn.Parameter):
            x = make([1.0, 2.0])
            result = getattr(memory, function)(x)
            assert result is (x if function in ("persist", "unpersist") else None)
        with pytest.raises(TypeError, match=f"{function}: takes an array or a tensor, not list"):
            getattr(memory, function)([1.0])
    assert ad.memory is memory


@pytest.mark.parametrize("error", [KeyboardInterrupt, OutOfMemoryError])
def test_a_write_that_fails_leaves_the_elements_as_they_were(
    error: type[BaseException], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the tape notices that a write was begun."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2.0
    loss = (h * h).sum()
    twin = h.detach().clone()

    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    uses: tuple[Callable[[], object], ...] = (
        lambda: write(h.array, np.zeros(2, np.float32)),
        lambda: h.detach().zero_(),
        lambda: update.copy_into(h.array, x.array),
    )
    with monkeypatch.context() as patch:
        patch.setattr(device.recorder, "upload", fail)
        patch.setattr(device.recorder, "record", fail)
        for use in uses:
            with pytest.raises(error):
                use()
    assert h.tolist() == [2.0, 4.0]
    assert twin.tolist() == [2.0, 4.0]
    with pytest.raises(ad.GradientError, match="modified in place"):
        loss.backward()


def test_what_stays_free_for_fifty_flushes_is_destroyed(device: Device) -> None:
    gc.collect()
    memory.trim()
    x = gb.empty(300_000)
    del x
    small = gb.array([1.0])
    reserved = memory.stats().reserved_bytes
    for _ in range(45):
        small = gb.add(small, 1.0)
        small.item()
    assert memory.stats().reserved_bytes >= reserved
    for _ in range(20):
        small = gb.add(small, 1.0)
        small.item()
    assert memory.stats().reserved_bytes < reserved - 1_000_000


def test_stats_are_numbers_of_one_moment(device: Device) -> None:
    stats = memory.stats()
    assert {field.name for field in dataclasses.fields(stats)} == {
        "in_use_bytes",
        "reserved_bytes",
        "peak_bytes",
        "created",
        "destroyed",
        "reused",
        "pending_destroy",
        "submits_in_flight",
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.created = 0  # type: ignore[misc]
