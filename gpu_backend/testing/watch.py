"""What a test left behind: buffers that are still there, errors that no call raised."""

from __future__ import annotations

import gc
import logging

import pytest

from ..adapter import Adapter
from ..device import opened_devices
from .runner import runner_for


class Watch:
    """From its making on: buffers that stay, and errors that wgpu only logs."""

    def __init__(self, adapter: Adapter) -> None:
        import wgpu

        self._adapter = adapter
        self._runner = runner_for(adapter)  # its own buffers are there before the count
        self._counts = wgpu.diagnostics.object_counts
        self._log = _ErrorLog()
        logging.getLogger("wgpu").addHandler(self._log)
        self._dispatches = _activity()
        self._before = self._buffers()

    def finish(self, leaks: bool, errors: bool) -> None:
        """Fail the test if something stayed, or was reported."""
        logging.getLogger("wgpu").removeHandler(self._log)
        if errors and self._log.messages:
            pytest.fail("the device reported, outside any call:\n" + "\n".join(self._log.messages), pytrace=False)
        # A test that computes with gpu_backend leaves free buffers in its pool, which counts them itself. One that lost
        # its device leaves buffers of two, the old one's for as long as wgpu has something to say of it.
        is_same = _activity() == self._dispatches and runner_for(self._adapter) is self._runner
        if leaks and is_same and self._buffers() > self._before:
            gc.collect()
            left = self._buffers() - self._before
            if left > 0:
                pytest.fail(f"{left} GPU buffer{'s' * (left > 1)} of this test still live after it", pytrace=False)

    def _buffers(self) -> int:
        return int(self._counts.get_dict()["Buffer"]["count"])


def _activity() -> list[tuple[int, int]]:
    return [(id(device), device.recorder.dispatches + device.pool.created) for device in opened_devices()]


class _ErrorLog(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
