"""Fixtures: the adapter and the host, with every buffer poisoned; a run without one adapter test fails."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import gpu_backend as gb
from gpu_backend import memory
from gpu_backend.array import Array
from gpu_backend.device import Device, GPUDevice
from gpu_backend.ops.creation import fill
from gpu_backend.spec import float32
from gpu_backend.storage import Storage

POISON = 0x7FC00000  # the bits of a NaN
ON_ADAPTER = ("runs on", "adapter")
_seen = {"passed": 0, "failed": 0, "skipped": 0}


@functools.cache
def find_adapter() -> GPUDevice | None:
    """The device the adapter tests run on: what ``GPU_BACKEND_DEVICE`` says, else the best adapter."""
    found = gb.device() if gb.adapters() else None
    return found if isinstance(found, GPUDevice) else None


@pytest.fixture(scope="session")
def adapter() -> GPUDevice:
    """A device with kernels."""
    device = find_adapter()
    if device is None:
        pytest.skip("no GPU adapter here")
    return device


@pytest.fixture
def gpu(adapter: GPUDevice) -> Iterator[GPUDevice]:
    """The adapter as the default device."""
    with gb.default_device(adapter):
        yield adapter


@pytest.fixture
def host() -> Device:
    """The numpy device."""
    return gb.device("host")


@pytest.fixture(params=["adapter", "host"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Both kinds of device, each the default of its test."""
    chosen: Device = request.getfixturevalue(request.param)
    with gb.default_device(chosen):
        yield chosen


@pytest.fixture
def limited(device: Device) -> Iterator[Callable[[int], None]]:
    """Sets a limit of so many bytes above what is in use, lifted after the test."""

    def limit(room: int) -> None:
        gc.collect()
        memory.trim(device)
        memory.set_limit(memory.stats(device).in_use_bytes + room, device)

    yield limit
    memory.set_limit(None, device)


def poison(storage: Storage, device: Device) -> None:
    """Fill a whole buffer with NaN, whatever was in it, so that a read of something never written shows."""
    words = storage.buffer.nbytes // 4
    if device.is_host:
        storage.buffer.memory.view(np.uint32)[:] = POISON
    else:
        fill(Array(storage, (words,), float32, device), float("nan"))


@pytest.fixture(autouse=True)
def _poisoned(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every buffer comes from the pool full of NaN."""
    devices = [gb.device("host"), find_adapter()]
    clean = request.node.get_closest_marker("no_poison") is not None
    for device in devices:
        if device is not None and not clean:
            device.pool.on_take = lambda storage, device=device: poison(storage, device)
    yield
    for device in devices:
        if device is not None:
            device.pool.on_take = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tour comes first."""
    items.sort(key=lambda item: item.path.name != "test_tiny.py")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Mark the reports of adapter tests."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    names = getattr(item, "fixturenames", ())
    parameter = getattr(getattr(item, "callspec", None), "params", {}).get("device")
    if "adapter" in names or "wgsl_adapter" in names or parameter == "adapter":
        report.user_properties.append(ON_ADAPTER)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count how adapter tests ended; under xdist, where their reports come together."""
    if ON_ADAPTER in map(tuple, report.user_properties) and (report.when == "call" or report.outcome == "skipped"):
        _seen[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which every adapter test was skipped proves nothing about adapters: it fails."""
    is_worker = hasattr(session.config, "workerinput")
    if _seen["skipped"] and not _seen["passed"] and not _seen["failed"] and not is_worker:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which adapter it was, or why the run fails."""
    device = find_adapter()
    if device is not None:
        terminalreporter.write_line(f"adapter: {device.summary}; tests on it: {_seen}")
    elif _seen["skipped"]:
        terminalreporter.write_line(
            "every adapter test was skipped: install an adapter with `shadertape setup`", red=True
        )


def pytest_report_header() -> str:
    """The device under test."""
    device = find_adapter()
    return f"shadertape on {device.summary if device else 'no adapter'}"
