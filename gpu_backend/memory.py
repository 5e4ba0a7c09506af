"""What a device's memory does, in numbers, and how to bound it and to give it back.

Every function takes the device it is about, the default one otherwise; those about one array take an Array, or what
wraps one as its ``array``, such as a Tensor. Whole buffers are counted, not the elements in them.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeVar

from .array import Array
from .buffer_pool import BufferPool, LiveBuffer, MemoryStats
from .device import Device, device
from .ops import update
from .storage import Storage

__all__ = [
    "LiveBuffer",
    "MemoryStats",
    "Scope",
    "Snapshot",
    "expect_no_growth",
    "force_release",
    "persist",
    "reclaim",
    "release",
    "reset_peak",
    "scope",
    "set_limit",
    "snapshot",
    "stats",
    "trim",
    "unpersist",
]

T = TypeVar("T")


def stats(of: str | Device | None = None) -> MemoryStats:
    """Bytes in use, reserved and at the peak; buffers made, destroyed, reused and waiting to be destroyed; submits in
    flight."""
    target = device(of)
    with target.lock:
        return replace(target.pool.stats(), submits_in_flight=target.recorder.submits_in_flight)


def reset_peak(of: str | Device | None = None) -> None:
    """Let ``peak_bytes`` start anew from what is in use now."""
    target = device(of)
    with target.lock:
        target.pool.reset_peak()


def set_limit(nbytes: int | None, of: str | Device | None = None) -> None:
    """Bound the reserved bytes, None for no bound. What is in use stays, even above it; free buffers go.

    A request past the limit submits recorded work, destroys free buffers and tries once more, then it is an
    OutOfMemoryError. ValueError for anything but None or a number from 0 on.
    """
    if nbytes is not None and (isinstance(nbytes, bool) or not isinstance(nbytes, Integral) or nbytes < 0):
        raise ValueError(f"set_limit: a limit is a number of bytes or None, not {nbytes!r}")
    target = device(of)
    with target.lock:
        target.pool.limit = None if nbytes is None else int(nbytes)
        if nbytes is not None and target.pool.stats().reserved_bytes > nbytes:
            trim(target)


def trim(of: str | Device | None = None) -> None:
    """Give the buffers that nothing uses back to the system; afterwards reserved bytes equal bytes in use."""
    target = device(of)
    with target.lock:
        target.recorder.flush()
        target.pool.trim()


def reclaim(of: str | Device | None = None) -> None:
    """Release by force all that is live and not persistent, and trim: what is left are parameters, gradients and
    optimizer state, and whatever ``persist`` named. Every other array raises ReleasedBufferError from now on."""
    target = device(of)
    with target.lock:
        target.pool.reclaim()
        trim(target)


def release(x: Any) -> None:
    """End the lease of ``x``, and of all that shares its memory by reshape or detach, now instead of when it is
    collected. ReleasedBufferError the second time."""
    array = _array("release", x)
    with array.device.lock:
        array.device.pool.release(array.storage)


def force_release(x: Any) -> None:
    """Give the buffer of ``x`` back whoever else holds it, clones as well; all of them raise ReleasedBufferError from
    now on. Work that is recorded already still sees the elements. Twice is a no-op."""
    array = _array("force_release", x)
    with array.device.lock:
        array.device.pool.force_release(array.storage)


def persist(x: T) -> T:
    """Spare ``x`` in ``scope`` and ``reclaim``, and keep its memory where it is; returns ``x``."""
    array = _array("persist", x)
    array.storage.check()
    update.persist(array, array.storage.label)
    return x


def unpersist(x: T) -> T:
    """The opposite of ``persist``; returns ``x``."""
    array = _array("unpersist", x)
    with array.device.lock:
        array.storage.check()
        array.storage.buffer.persistent = False
    return x


class Scope:
    """What ``scope`` gives. It knows the arrays that its thread made on its device since it was opened."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._made: weakref.WeakSet[Storage] = weakref.WeakSet()

    def add(self, storage: Storage) -> None:
        """A lease begins in the thread that opened the scope; called by the pool."""
        self._made.add(storage)

    def add_stranger(self, storage: Storage) -> None:
        """A lease begins in another thread."""

    def keep(self, x: T) -> T:
        """Let ``x`` outlive this scope; returns ``x``. An outer scope still ends it."""
        self._made.discard(_array("keep", x).storage)
        return x

    def _end(self) -> None:
        for storage in list(self._made):
            if not storage.released and not storage.persistent:
                self._pool.release(storage)


@contextmanager
def scope(of: str | Device | None = None) -> Iterator[Scope]:
    """Release at the end what this thread made inside and neither kept nor made persistent, nor a compiled step met.

        with memory.scope() as inside:
            y = inside.keep(f(x))

    A graph whose arrays are gone cannot be walked: call ``backward`` inside. Parameters, gradients and optimizer state
    are persistent and stay.
    """
    target = device(of)
    pool = target.pool
    made = Scope(pool)
    with target.lock:
        pool.open_scope(made)
    try:
        yield made
    finally:
        with target.lock:
            pool.end_scope(made)
            made._end()


class Snapshot(Sequence[LiveBuffer]):
    """The buffers in use at one moment, largest first; prints as a table."""

    def __init__(self, rows: Sequence[LiveBuffer]) -> None:
        self._rows = tuple(rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(row.nbytes for row in self._rows)

    def __str__(self) -> str:
        cells = [("label", "shape", "bytes", "persistent")]
        cells += [
            (r.label or "array", str(r.shape), f"{r.nbytes:,}", "yes" if r.persistent else "") for r in self._rows
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            f"{label:<{widths[0]}}  {shape:<{widths[1]}}  {nbytes:>{widths[2]}}  {kept}".rstrip()
            for label, shape, nbytes, kept in cells
        ]
        return "\n".join([*lines, f"{len(self)} buffers, {self.nbytes:,} bytes"])

    def __repr__(self) -> str:
        return f"<Snapshot: {len(self)} buffers, {self.nbytes:,} bytes>"


def snapshot(of: str | Device | None = None) -> Snapshot:
    """The buffers in use now by label, shape and bytes, largest first."""
    target = device(of)
    with target.lock:
        return Snapshot(target.pool.live())


@contextmanager
def expect_no_growth(of: str | Device | None = None) -> Iterator[None]:
    """AssertionError, with a table of what is new, if more bytes are in use after the body than before. For tests.

    Garbage is collected at both ends, so that only what is held counts.
    """
    gc.collect()
    before = snapshot(of)
    yield
    gc.collect()
    after = snapshot(of)
    if after.nbytes > before.nbytes:
        known = {(row.serial, row.generation) for row in before}
        new = Snapshot([row for row in after if (row.serial, row.generation) not in known])
        raise AssertionError(f"memory in use grew by {after.nbytes - before.nbytes:,} bytes. New are:\n{new}")


def _array(name: str, x: Any) -> Array:
    found = x if isinstance(x, Array) else getattr(x, "array", None)
    if not isinstance(found, Array):
        raise TypeError(f"{name}: takes an array or a tensor, not {type(x).__name__}")
    return found
