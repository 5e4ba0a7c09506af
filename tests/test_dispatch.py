"""The recorder: order, uploads, the fold of the grid, what a flush holds."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gpu_backend as gb
from gpu_backend import Device, DeviceError, OutOfMemoryError, ShaderError, dispatch
from gpu_backend.array import write
from gpu_backend.device import GPUDevice
from gpu_backend.dispatch import fold
from gpu_backend.recorder import MAX_RECORDED


@pytest.mark.parametrize("groups", [0, 1, 65535, 65536, 65537, 131070, 131071, 4_194_241, 65535 * 65535])
def test_the_fold_covers_every_group_and_wastes_less_than_a_row(groups: int) -> None:
    x, y = fold(groups)
    assert x <= 65535
    assert y <= 65535
    assert groups <= x * y < groups + max(y, 1)


def test_a_grid_that_cannot_be_folded_raises() -> None:
    with pytest.raises(DeviceError, match="do not fit a grid of 65535 x 65535"):
        fold(65535 * 65535 + 1)


def test_past_65535_groups_every_element_is_touched(adapter: GPUDevice) -> None:
    """K2, P-LM01: 16.8 million elements."""
    n = 65535 * 256 + 1
    x = gb.full((n,), 1.5, device=adapter)
    y = gb.add(x, 1.0).numpy()
    assert y.shape == (n,)
    assert (y == 2.5).all()


@pytest.mark.no_poison
def test_past_65535_rows_and_matrices(adapter: GPUDevice) -> None:
    """K2: 70,000 rows of a softmax, 70,000 matrices of a product, 70,000 class indices."""
    x = np.random.default_rng(0).standard_normal((70_000, 3)).astype(np.float32)
    rows = gb.array(x, device=adapter)
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(gb.softmax(rows).numpy(), shifted / shifted.sum(axis=1, keepdims=True), atol=1e-6)
    target = gb.array(np.full(70_000, 2, np.int32), device=adapter)
    losses = gb.cross_entropy(rows, target, reduction="none").numpy()
    np.testing.assert_allclose(losses, np.log(shifted.sum(axis=1)) - (x[:, 2] - x.max(axis=1)), atol=2e-6)
    a = gb.array(x[:, :2].reshape(-1, 1, 2), device=adapter)
    b = gb.array(x[:, 1:].reshape(-1, 2, 1).copy(), device=adapter)
    products = (x[:, :2] * x[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(gb.matmul(a, b).numpy().ravel(), products, atol=1e-5)


def test_each_dispatch_sees_its_own_params(device: Device) -> None:
    """P-ME07: one kernel recorded a thousand times with other numbers, one flush."""
    x = gb.array([1.0, 2.0])
    results = [gb.multiply(x, float(k)) for k in range(1000)]
    for k in (0, 1, 2, 500, 999):
        assert results[k].tolist() == [k, 2.0 * k]


@pytest.mark.no_poison
def test_a_flush_is_one_submit_and_happens_past_the_cap(adapter: GPUDevice) -> None:
    x = gb.array([1.0], device=adapter)
    adapter.recorder.flush()
    flushes = adapter.recorder.flushes
    for _ in range(MAX_RECORDED):
        x = gb.add(x, 1.0)
    assert adapter.recorder.flushes == flushes
    x = gb.add(x, 1.0)
    assert adapter.recorder.flushes == flushes + 1
    assert x.item() == MAX_RECORDED + 2
    assert adapter.recorder.flushes == flushes + 2


@pytest.mark.no_poison
def test_equal_steps_meet_equal_bind_groups_and_pipelines(adapter: GPUDevice) -> None:
    """Once each loop variable has let go of its first buffer, nothing is made anew."""
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    misses = []
    for _ in range(12):
        a = gb.array(x, device=adapter)
        y = gb.softmax(gb.multiply(gb.matmul(a, a, transpose_b=True), 2.0))
        assert gb.sum(y).item() == pytest.approx(4.0)
        misses.append(adapter.recorder.bind_groups.misses + adapter.pipelines.misses)
    assert misses[6] == misses[-1]


@pytest.mark.no_poison
def test_an_upload_waits_for_recorded_work_that_refers_to_the_buffer(device: Device) -> None:
    """M1: the queue writes before commands that are not submitted."""
    x = gb.array([1.0, 2.0])
    y = gb.multiply(x, 2.0)
    write(x, np.array([10.0, 20.0], np.float32))
    z = gb.multiply(x, 2.0)
    assert y.tolist() == [2.0, 4.0]
    assert z.tolist() == [20.0, 40.0]


@pytest.mark.no_poison
def test_an_upload_into_a_reused_buffer_waits_as_well(adapter: GPUDevice) -> None:
    gc.collect()
    gb.memory.trim(adapter)  # the buffer that is given back is then the only free one
    x = gb.array(np.arange(64, dtype=np.float32), device=adapter)
    y = gb.multiply(x, 2.0)
    serial = x.storage.buffer.serial
    del x
    gc.collect()
    uploads = [gb.array(np.full(64, 7, np.float32), device=adapter) for _ in range(3)]
    assert serial in [u.storage.buffer.serial for u in uploads], "the buffer was to be met again"
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(64, dtype=np.float32))


def test_a_read_right_after_an_upload_is_identical(device: Device) -> None:
    """P-ME06: no op between, a hundred times."""
    random = np.random.default_rng(0)
    for size in range(1, 101):
        x = random.standard_normal(size).astype(np.float32)
        np.testing.assert_array_equal(gb.array(x).numpy(), x)


@pytest.mark.no_poison
def test_reading_changes_nothing(device: Device) -> None:
    """M3: neither the elements nor where they live."""
    x = gb.array(np.arange(5, dtype=np.float32))
    y = gb.exp(x)
    serial, version = y.storage.buffer.serial, y.storage.version
    first = y.numpy()
    first[:] = -1
    assert (y.storage.buffer.serial, y.storage.version) == (serial, version)
    np.testing.assert_allclose(y.numpy(), np.exp(np.arange(5)), rtol=1e-6)


def test_equal_inputs_give_equal_bits(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal((300, 70)).astype(np.float32)
    a = gb.array(x)
    for op in (
        lambda: gb.sum(a),
        lambda: gb.softmax(a),
        lambda: gb.matmul(a, a, transpose_b=True),
        lambda: gb.mean(a, axis=0),
    ):
        np.testing.assert_array_equal(op().numpy(), op().numpy())


def test_a_device_index_out_of_range_is_told_at_the_next_read(adapter: GPUDevice) -> None:
    """K6: the loss is NaN, the read raises once, the next one works."""
    logits = gb.array(np.zeros((2, 3), np.float32), device=adapter)
    for wrong in (3, -1):
        losses = gb.cross_entropy(logits, gb.array(np.array([1, wrong], np.int32), device=adapter), reduction="none")
        with pytest.raises(IndexError, match=f"cross_entropy: index {wrong} is out of range for 3"):
            losses.numpy()
        np.testing.assert_allclose(losses.numpy(), [np.log(3), np.nan], rtol=1e-6)


def test_a_download_larger_than_the_kept_staging_buffer(adapter: GPUDevice) -> None:
    x = np.arange(2**21, dtype=np.float32)
    np.testing.assert_array_equal(gb.array(x, device=adapter).numpy(), x)
    assert gb.array([3.0], device=adapter).item() == 3.0


@pytest.mark.no_poison
def test_an_interrupted_flush_loses_nothing(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the recorded work is encoded: the next read has it."""
    x = gb.array([1.0, 2.0], device=adapter)
    y = gb.add(gb.multiply(x, 2.0), 100.0)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(adapter.recorder.submissions.encoding, "encode", interrupt)
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
    assert y.tolist() == [102.0, 104.0]


@pytest.mark.no_poison
def test_a_read_in_the_middle_of_recording_loses_and_repeats_nothing(adapter: GPUDevice) -> None:
    """As a signal handler does that saves a checkpoint: the dispatch at hand goes to the list that is current then."""
    x = gb.array([1.0, 2.0], device=adapter)
    other = gb.add(gb.array([5.0], device=adapter), 1.0)
    kernel = adapter.kernel("gradient", "accumulate")
    y = gb.full((2,), 0.0, device=adapter)
    packing, reads = kernel.packing, []

    class Interrupting:
        def pack_into(self, *arguments: object) -> None:
            packing.pack_into(*arguments)
            if not reads:
                reads.append(other.item())
                gb.multiply(other, 7.0)

    kernel.packing = Interrupting()
    try:
        adapter.recorder.record(kernel, 1, x=x, y=y, size=2, first=0, bound=0.0)
    finally:
        kernel.packing = packing
    adapter.recorder.record(kernel, 1, x=x, y=y, size=2, first=0, bound=0.0)
    assert reads == [6.0]
    assert y.tolist() == [2.0, 4.0]


@pytest.mark.no_poison
def test_a_use_inside_a_submit_is_told_and_spoils_nothing(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gb.array([1.0, 2.0], device=adapter)
    y = gb.add(x, 1.0)
    encoding, errors = adapter.recorder.submissions.encoding, []
    encode = encoding.encode

    def interrupting(*arguments: Any) -> object:
        if not errors:
            with pytest.raises(DeviceError, match="used inside one of its own submits") as raised:
                x.numpy()
            errors.append(raised)
        return encode(*arguments)

    monkeypatch.setattr(encoding, "encode", interrupting)
    assert y.tolist() == [2.0, 3.0]
    assert errors
    assert gb.add(y, 1.0).tolist() == [3.0, 4.0]


def test_an_upload_for_which_there_is_no_memory_is_named(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    import wgpu

    x = gb.array([1.0, 2.0], device=adapter, label="x")

    def refuse(*arguments: object) -> None:
        raise wgpu.GPUValidationError("Not enough memory left.")

    with monkeypatch.context() as patch:
        patch.setattr(adapter.recorder.submissions, "write", refuse)
        with pytest.raises(OutOfMemoryError, match=r"no memory to upload 8 bytes of x \(2,\): Not enough"):
            write(x, np.zeros(2, np.float32))
    assert gb.exp(gb.array([0.0], device=adapter)).item() == 1.0


def test_a_large_upload_goes_in_pieces(adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MAX_UPLOADED", 1000)
    x = np.arange(777, dtype=np.float32)
    np.testing.assert_array_equal(gb.array(x, device=adapter).numpy(), x)


def test_arrays_of_another_device_are_refused(adapter: GPUDevice, host: Device) -> None:
    """Serial numbers of two pools are alike; the recorder looks at the pool itself."""
    here = gb.array(np.ones(4, np.float32), device=adapter)
    there = gb.array(np.ones(4, np.float32), device=host)
    kernel = adapter.kernel("gradient", "accumulate")
    with pytest.raises(DeviceError, match=r"accumulate.*: x is on another device"):
        adapter.recorder.record(kernel, 1, x=there, y=here, size=4, first=0, bound=0.0)
    with pytest.raises(DeviceError, match="meets arrays on the host"):
        here.host()


def test_params_that_do_not_fit_are_named(adapter: GPUDevice) -> None:
    x = gb.array(np.ones(4, np.float32), device=adapter)
    y = gb.empty((4,), device=adapter)
    kernel = adapter.kernel("gradient", "accumulate")
    with pytest.raises(ShaderError, match="these Params do not fit"):
        adapter.recorder.record(kernel, 1, x=x, y=y, size=-1, first=0, bound=0.0)


@pytest.mark.no_poison
def test_a_read_for_which_there_is_no_memory_leaves_the_next_one_alone(
    adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wgpu

    x = gb.array(np.ones(2**20, np.float32), device=adapter)
    small = gb.array([3.0], device=adapter)

    def refuse(**options: object) -> None:
        raise wgpu.GPUValidationError("Not enough memory left.")

    small.numpy()
    with monkeypatch.context() as patch:
        patch.setattr(adapter.recorder._gpu, "create_buffer", refuse)
        with pytest.raises(OutOfMemoryError, match="a read-back: no memory for shape"):
            x.numpy()
        with pytest.raises(OutOfMemoryError, match="no memory for a buffer"):
            gb.empty(2**19 + 5, device=adapter)
    assert small.item() == 3.0
    assert x.numpy().sum() == 2**20
