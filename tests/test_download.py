"""Reading back: handles that do not stall, both ways to the queue, waits that end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import gpu_backend as gb
from gpu_backend import Device, DeviceError, ShapeError
from gpu_backend.array import write
from gpu_backend.device import GPUDevice
from gpu_backend.dispatch import GPURecorder
from gpu_backend.encoding import Transfer
from gpu_backend.recorder import Download
from gpu_backend.submission import NativeSubmissions, PublicSubmissions


@pytest.fixture(params=[NativeSubmissions, PublicSubmissions], ids=lambda way: way.kind)
def way(request: pytest.FixtureRequest, adapter: GPUDevice) -> Iterator[GPURecorder]:
    """The adapter's recorder with each of the two ways to the queue."""
    recorder = adapter.recorder
    recorder.synchronize()
    before = recorder.submissions
    recorder.submissions = request.param(adapter.gpu)
    yield recorder
    recorder.synchronize()
    before.count = recorder.submissions.count
    recorder.submissions = before
    recorder._fault_raised_at = 0


def test_the_native_way_is_taken_where_it_works(adapter: GPUDevice) -> None:
    assert adapter.recorder.submissions.kind == "native"


def test_a_handle_has_the_elements_of_when_it_was_asked_for(device: Device) -> None:
    x = ad.tensor([1.0, 2.0])
    handle = x.download_async()
    write(x.array, np.array([7.0, 8.0], np.float32))
    x.add_(1.0)
    later = x.download_async()
    del x
    gc.collect()
    assert later.tolist() == [8.0, 9.0]
    assert handle.tolist() == [1.0, 2.0]
    assert handle.done
    first = handle.numpy()
    first[:] = 0
    assert handle.tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError, match=r"item: shape \(2,\) has 2 elements"):
        handle.item()


@pytest.mark.no_poison
def test_a_loss_of_an_earlier_step_is_had_without_waiting_for_the_present_one(adapter: GPUDevice) -> None:
    """Its handle waits for its own submit: the long work after it is still under way when the number is here."""
    recorder = adapter.recorder
    loss = gb.sum(gb.array([1.0, 2.0], device=adapter))
    handle = loss.download_async()
    a = gb.array(np.ones((700, 700), np.float32), device=adapter)
    recorder.configure(max_in_flight=64)
    try:
        for _ in range(12):
            a = gb.multiply(gb.matmul(a, a), 1 / 700)
            recorder.flush()
        assert handle.item() == 3.0
        if adapter.name.startswith("SwiftShader"):  # lavapipe's submits wait for each other by themselves
            assert recorder.submits_in_flight > 0
        assert a.numpy()[5, 5] == pytest.approx(1.0)
        assert recorder.submits_in_flight == 0
    finally:
        recorder.configure(max_in_flight=8)


def test_many_reads_and_handles_by_both_ways(way: GPURecorder, adapter: GPUDevice) -> None:
    """P-ME06, P-ME07: a hundred uploads read back at once; handles read in any order; nothing is in flight after."""
    random = np.random.default_rng(0)
    for size in range(1, 101):
        x = random.standard_normal(size).astype(np.float32)
        np.testing.assert_array_equal(gb.array(x, device=adapter).numpy(), x)
    x = gb.array(np.float32(0), device=adapter)
    handles = []
    for _ in range(40):
        x = gb.add(x, 1.0)
        handles.append(x.download_async())
    order = random.permutation(40)
    for k in order[:30]:
        assert handles[k].item() == k + 1.0
    del handles
    gc.collect()
    assert gb.add(x, 1.0).item() == 41.0
    way.synchronize()
    assert way.submits_in_flight == 0


def test_an_index_out_of_range_is_told_once_by_each_way(way: GPURecorder, adapter: GPUDevice) -> None:
    """K6: of two handles that are under way, the first that is read tells."""
    logits = gb.array(np.zeros((2, 3), np.float32), device=adapter)
    losses = gb.cross_entropy(logits, gb.array(np.array([1, 5], np.int32), device=adapter), reduction="none")
    first, second = losses.download_async(), losses.download_async()
    for _ in range(2):
        with pytest.raises(IndexError, match="cross_entropy: index 5 is out of range for 3"):
            first.numpy()
    assert np.isnan(second.numpy()[1])
    assert gb.exp(gb.array([0.0], device=adapter)).item() == 1.0


def test_a_wait_may_be_bounded(adapter: GPUDevice) -> None:
    """P-ME08: the error says so, the handle can be read later, nothing is lost."""
    recorder = adapter.recorder
    recorder.synchronize()
    x = gb.array(np.ones((600, 600), np.float32), device=adapter)
    for _ in range(4):
        y = gb.matmul(x, x)
        recorder.flush()
    handle = y.download_async()
    clock = iter([0.0, 0.5, 99.0])
    recorder.configure(timeout=10)
    import gpu_backend.submission as submission

    real = submission.time
    submission.time = type("Clock", (), {"monotonic": staticmethod(lambda: next(clock, 99.0))})  # type: ignore[misc]
    try:
        with pytest.raises(TimeoutError, match="not done after 10 seconds; its work goes on"):
            handle.numpy()
    finally:
        submission.time = real
        recorder.configure(timeout=None)
    assert handle.numpy()[3, 3] == 600.0


def test_back_pressure_has_no_timeout(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that waits for room in the queue is not left half done."""
    import gpu_backend.submission as submission

    now = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(submission.time, "monotonic", lambda: float(next(now)))
    recorder = adapter.recorder
    recorder.configure(max_recorded=1, max_in_flight=1, timeout=1)
    try:
        x = gb.array([1.0], device=adapter)
        for _ in range(20):
            x = gb.add(x, 1.0)
    finally:
        recorder.configure(max_recorded=1024, max_in_flight=8, timeout=None)
    assert x.item() == 21.0


LONG = """
import numpy as np
import gpu_backend as gb
x = gb.array(np.ones((700, 700), np.float32))
gb.matmul(x, x).numpy()
print("go", flush=True)
for _ in range(3000):
    y = gb.matmul(x, x)
    gb.device().recorder.flush()
y.numpy()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_a_long_wait(adapter: GPUDevice) -> None:
    """P-ME08: a minute of work in three thousand submits is left within moments, without a crash."""
    child = subprocess.Popen(
        [sys.executable, "-c", LONG],
        env={**os.environ, "GPU_BACKEND_DEVICE": adapter.name},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "go\n"
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    finally:
        child.kill()
    assert "KeyboardInterrupt" in errors
    assert child.returncode in (1, -signal.SIGINT), errors


def wait(source: Any) -> None:
    """Read, and where that was done before the signal came, wait for the signal."""
    source.numpy()
    time.sleep(10)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX signals")
@pytest.mark.parametrize("how", ["numpy", "handle"])
def test_ctrl_c_in_a_wait_comes_up_as_itself(how: str, adapter: GPUDevice) -> None:
    """P-ME08: it may come up inside the callback of the read; the read can be taken up again."""
    x = gb.array(np.ones((700, 700), np.float32), device=adapter)
    gb.matmul(x, x).numpy()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(8):
            y = gb.matmul(x, x)
        source: Any = y.download_async() if how == "handle" else y
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            wait(source)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert source.numpy()[3, 3] == 700.0
    assert gb.sum(x).item() == 490_000.0


def test_an_interrupt_after_the_bytes_came_does_no_harm(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gb.array([1.0, 2.0], device=adapter)
    handle = x.download_async()
    read = type(adapter.recorder.submissions.read(adapter.recorder._take_staging(16), 16))

    def interrupt(self: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(read, "take_staging", interrupt)
        with pytest.raises(KeyboardInterrupt):
            handle.numpy()
    assert handle.tolist() == [1.0, 2.0]
    assert [gb.array([float(k)], device=adapter).item() for k in range(10)] == list(range(10))


def test_an_interrupted_wait_can_be_taken_up_again() -> None:
    outcomes: list[Any] = [KeyboardInterrupt(), TimeoutError("later"), np.zeros(4, np.uint8)]

    def wait() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    download = Download(wait, lambda: False)
    with pytest.raises(KeyboardInterrupt):
        download.content()
    with pytest.raises(TimeoutError):
        download.content()
    assert not download.done
    assert download.content().nbytes == 4
    assert download.done
    assert download.content().nbytes == 4


def test_bytes_that_do_not_come_back_are_an_error(adapter: GPUDevice) -> None:
    """A read whose staging buffer is destroyed under it raises; it is never zeros."""
    x = gb.array([3.0], device=adapter)
    recorder = adapter.recorder
    staging = recorder._take_staging(32)
    recorder._submit([Transfer(x.storage.buffer.memory, staging, 0, 16)])
    read = recorder.submissions.read(staging, 16)
    staging.destroy()
    with pytest.raises(DeviceError, match="16 bytes did not come back from the device"):
        read.content(None)
    assert x.tolist() == [3.0]
