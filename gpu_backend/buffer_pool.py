"""The buffer pool: buffers are leased, given back, and met again.

``Buffer`` is one whole GPU buffer of a size class. ``Storage`` is a lease on it, which arrays share. A buffer that was
given back may serve later recorded work at once, since the queue keeps order; the host may not write to it before the
next flush (``dispatch.Recorder.upload`` knows). Destruction waits until no unsubmitted work refers to the buffer.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import OutOfMemoryError, ReleasedBufferError

SMALLEST_BUFFER = 256


class Allocator(Protocol):
    """Where memory comes from: a WebGPU device, or numpy."""

    @property
    def largest_buffer(self) -> int:
        """Bytes of the largest buffer that can be made and bound whole."""

    def create(self, nbytes: int, label: str) -> Any:
        """Memory of ``nbytes``; its content is anything."""

    def destroy(self, memory: Any) -> None:
        """Give the memory back to the system."""


class Buffer:
    """One GPU buffer of a size class. ``count`` leases are on it; ``generation`` moves on when they are voided."""

    __slots__ = ("bind_group_keys", "count", "generation", "memory", "nbytes", "recorded_in", "serial")

    def __init__(self, memory: Any, nbytes: int, serial: int) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.serial = serial
        self.count = 0
        self.generation = 0
        self.recorded_in = -1
        self.bind_group_keys: set[tuple[int, ...]] = set()


class Storage:
    """A lease on a buffer, shared by the arrays that look at the same memory.

    ``version`` counts changes in place, so that the tape notices them. ``persistent`` storage (parameters, gradients,
    optimizer state) never moves to another buffer.
    """

    __slots__ = ("__weakref__", "buffer", "generation", "label", "nbytes", "persistent", "pool", "version")

    def __init__(self, pool: BufferPool, buffer: Buffer, nbytes: int, label: str) -> None:
        self.pool = pool
        self.buffer = buffer
        self.generation = buffer.generation
        self.nbytes = nbytes
        self.label = label
        self.version = 0
        self.persistent = False

    def __del__(self) -> None:
        # Garbage collection may run anywhere, on any thread, inside the pool too: only note it.
        self.pool.finalized.append((self.buffer, self.generation))

    @property
    def released(self) -> bool:
        """Whether the buffer was force-released under this lease."""
        return self.generation != self.buffer.generation

    def check(self, shape: object = "") -> None:
        """ReleasedBufferError if the buffer was force-released."""
        if self.generation != self.buffer.generation:
            raise ReleasedBufferError(f"the buffer of {self.label or 'this array'} {shape} was force-released")

    def adopt(self, other: Storage) -> None:
        """Take over the memory of ``other`` and give back the own, as a change in place. Not for persistent storage."""
        self.check()
        other.check()
        own = self.buffer, self.generation
        other.buffer.count += 1
        self.buffer, self.generation = other.buffer, other.generation
        self.version += 1
        self.pool.finalized.append(own)  # last: interrupted before, it leaks a buffer, but frees none in use


@dataclass(frozen=True)
class MemoryStats:
    """Counters of one device's pool, in bytes and buffers; whole buffers are counted, not the elements in them."""

    in_use_bytes: int
    reserved_bytes: int
    peak_bytes: int
    created: int
    destroyed: int
    reused: int
    pending_destroy: int


class BufferPool:
    """Buffers of one device by size class, the lowest serial first, so that equal steps meet equal buffers."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._free: dict[int, list[tuple[int, Buffer]]] = {}
        self._classes: dict[int, int] = {}
        self._doomed: list[Buffer] = []
        self._serials = itertools.count()
        self.finalized: deque[tuple[Buffer, int]] = deque()
        self.epoch = 0
        self.has_pending = False
        self.on_take: Callable[[Storage], None] | None = None
        self.on_destroy: Callable[[Buffer], None] | None = None
        self.on_pressure: Callable[[], None] | None = None
        self.in_use_bytes = self.reserved_bytes = self.peak_bytes = 0
        self.created = self.destroyed = self.reused = 0

    def take(self, nbytes: int, label: str = "") -> Storage:
        """A lease on a buffer of at least ``nbytes``; its content is anything. OutOfMemoryError past the limit."""
        if self.finalized:
            self._drain()
        wanted = self._classes.get(nbytes) or self.size_class(nbytes, label)
        free = self._free.get(wanted)
        if free:
            buffer = heapq.heappop(free)[1]
            self.reused += 1
        else:
            serial = next(self._serials)
            buffer = Buffer(self._create(wanted, f"buffer {serial} of {wanted} bytes"), wanted, serial)
            self.created += 1
            self.reserved_bytes += wanted
        buffer.count = 1
        self.in_use_bytes += wanted
        if self.in_use_bytes > self.peak_bytes:
            self.peak_bytes = self.in_use_bytes
        storage = Storage(self, buffer, nbytes, label)
        if self.on_take is not None:
            self.on_take(storage)
        return storage

    def _create(self, nbytes: int, label: str) -> Any:
        """Memory from the system; where there is none left, what is free is given back first."""
        try:
            return self._allocator.create(nbytes, label)
        except OutOfMemoryError:
            if self.on_pressure is not None:
                self.on_pressure()
            self.trim()
            return self._allocator.create(nbytes, label)

    def size_class(self, nbytes: int, label: str = "") -> int:
        """The bytes of the buffer that serves ``nbytes``: a power of two or one and a half of one, at least 256."""
        limit = self._allocator.largest_buffer
        if nbytes > limit:
            raise OutOfMemoryError(
                f"{label or 'an array'} takes {nbytes} bytes; the largest buffer this device can bind has {limit}"
            )
        power = 1 << (max(nbytes, SMALLEST_BUFFER) - 1).bit_length()
        smaller = power // 4 * 3
        wanted = min(smaller if max(nbytes, SMALLEST_BUFFER) <= smaller else power, limit)
        if len(self._classes) < 65536:
            self._classes[nbytes] = wanted
        return wanted

    def force_release(self, storage: Storage) -> None:
        """Give the buffer back whatever its count; every array on this storage raises on use. Twice is a no-op."""
        if not storage.released:
            buffer = storage.buffer
            buffer.generation += 1
            buffer.count = 0
            self._give_back(buffer)

    def trim(self) -> None:
        """Destroy every free buffer; those that unsubmitted work refers to go right after the next flush."""
        self._drain()
        for free in self._free.values():
            for _, buffer in free:
                if self.has_pending and buffer.recorded_in == self.epoch:
                    self._doomed.append(buffer)
                else:
                    self._destroy(buffer)
        self._free.clear()

    def flushed(self) -> None:
        """The recorded work is submitted: destroy what waited for that."""
        self.epoch += 1
        self.has_pending = False
        if self._doomed:
            doomed, self._doomed = self._doomed, []
            for buffer in doomed:
                self._destroy(buffer)
        if self.finalized:
            self._drain()

    def stats(self) -> MemoryStats:
        """The counters as they are now."""
        self._drain()
        return MemoryStats(
            self.in_use_bytes,
            self.reserved_bytes,
            self.peak_bytes,
            self.created,
            self.destroyed,
            self.reused,
            len(self._doomed),
        )

    def _drain(self) -> None:
        """Release what garbage collection noted. A lease of an older generation is void: nothing to release."""
        finalized = self.finalized
        while finalized:
            buffer, generation = finalized.popleft()
            if buffer.generation == generation:
                buffer.count -= 1
                if buffer.count == 0:
                    self._give_back(buffer)

    def _give_back(self, buffer: Buffer) -> None:
        self.in_use_bytes -= buffer.nbytes
        heapq.heappush(self._free.setdefault(buffer.nbytes, []), (buffer.serial, buffer))

    def _destroy(self, buffer: Buffer) -> None:
        if self.on_destroy is not None:
            self.on_destroy(buffer)
        self._allocator.destroy(buffer.memory)
        buffer.memory = None
        self.reserved_bytes -= buffer.nbytes
        self.destroyed += 1
