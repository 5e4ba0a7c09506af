"""What waits for a submit and what is in flight is capped, and no submit runs long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import poison

import gpu_backend as gb
from gpu_backend import Device, memory
from gpu_backend.device import GPUDevice
from gpu_backend.recorder import MAX_RECORDED

pytestmark = pytest.mark.no_poison


def test_submits_without_a_read_are_capped(adapter: GPUDevice) -> None:
    """P-ME03: dispatches wait for a flush up to a number, submits are in flight up to another."""
    recorder = adapter.recorder
    recorder.synchronize()
    assert memory.stats(adapter).submits_in_flight == 0
    x = gb.array(np.zeros(1, np.float32), device=adapter)
    recorder.configure(max_recorded=1, max_in_flight=3)
    try:
        flushes = recorder.flushes
        most = 0
        for _ in range(300):
            x = gb.add(x, 1.0)
            most = max(most, len(recorder.submissions._waiting))  # type: ignore[attr-defined]
            assert memory.stats(adapter).submits_in_flight <= 3
        assert recorder.flushes - flushes >= 299
        assert 1 <= most <= 3
        assert x.item() == 300.0
    finally:
        recorder.configure(max_recorded=MAX_RECORDED, max_in_flight=8)


def test_a_flush_splits_work_by_the_budget(adapter: GPUDevice) -> None:
    """P-PO04: small ops together, and one large product in parts, with the result of one dispatch."""
    recorder = adapter.recorder
    random = np.random.default_rng(0)
    a = gb.array(random.standard_normal((200, 90)).astype(np.float32), device=adapter)
    b = gb.array(random.standard_normal((90, 330)).astype(np.float32), device=adapter)
    bias = gb.array(random.standard_normal(200).astype(np.float32), device=adapter)
    ones = gb.array(np.ones((200, 330), np.float32), device=adapter)
    whole = gb.matmul(a, b).numpy(), gb.linear(gb.matmul(a, b), ones, bias).numpy()
    budget = recorder.work_budget
    recorder.configure(work_budget=300_000)
    adapter.pool.on_take = lambda storage: poison(storage, adapter)
    try:
        dispatches, flushes = recorder.dispatches, recorder.flushes
        parts = gb.matmul(a, b)
        assert recorder.dispatches - dispatches >= 200 * 90 * 330 // 300_000
        assert recorder.flushes - flushes >= 10
        np.testing.assert_array_equal(parts.numpy(), whole[0])
        y = gb.linear(parts, ones, bias)
        np.testing.assert_array_equal(y.numpy(), whole[1])
        flushes = recorder.flushes
        x = gb.full((10_000,), 1.0, device=adapter)
        for _ in range(20):
            x = gb.add(x, 1.0)
        assert recorder.flushes - flushes >= 5
        assert x.numpy().sum() == 210_000
    finally:
        recorder.configure(work_budget=budget)
        adapter.pool.on_take = None


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"max_recorded": 0}, ValueError, "max_recorded is a whole number from 1 to 1024, not 0"),
        ({"max_recorded": 2000}, ValueError, "not 2000"),
        ({"work_budget": 1.5}, ValueError, "work_budget is a whole number"),
        ({"timeout": 0}, ValueError, "timeout is a number of seconds or None"),
        ({"max_in_flight": 2, "speed": 3}, TypeError, "no setting speed"),
    ],
)
def test_settings_of_the_recorder_are_checked(
    settings: dict[str, Any], error: type[Exception], text: str, device: Device
) -> None:
    before = dict(vars(device.recorder))
    with pytest.raises(error, match=text):
        device.recorder.configure(**settings)
    assert vars(device.recorder)["max_in_flight"] == before["max_in_flight"]


def test_uploads_without_an_op_are_submitted(adapter: GPUDevice) -> None:
    """What the host writes waits inside wgpu for a submit: a loop that only loads data makes one now and then."""
    most = adapter.recorder.max_uploaded
    adapter.recorder.configure(max_uploaded=100_000)
    try:
        flushes = adapter.recorder.flushes
        arrays = [gb.array(np.full(10_000, n, np.float32), device=adapter) for n in range(10)]
        assert adapter.recorder.flushes - flushes >= 3
        assert [x.numpy()[-1] for x in arrays] == list(range(10))
    finally:
        adapter.recorder.configure(max_uploaded=most)
