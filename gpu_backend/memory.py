"""What a device's memory does, in numbers, and how to give some of it back."""

from __future__ import annotations

from .buffer_pool import MemoryStats
from .device import Device, device

__all__ = ["MemoryStats", "stats", "trim"]


def stats(of: str | Device | None = None) -> MemoryStats:
    """Counters of the pool of a device (the default one): bytes in use, reserved and at the peak, buffers made,
    destroyed and reused. Whole buffers are counted."""
    target = device(of)
    with target.lock:
        return target.pool.stats()


def trim(of: str | Device | None = None) -> None:
    """Give the buffers that nothing uses back to the system; afterwards reserved bytes equal bytes in use."""
    target = device(of)
    with target.lock:
        target.recorder.flush()
        target.pool.trim()
