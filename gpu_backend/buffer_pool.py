"""The buffer pool: buffers are leased, given back, and met again.

What is leased is a ``storage.Buffer``, the lease a ``storage.Storage``. A buffer that was given back may serve later
recorded work at once, since the queue keeps order; the host may not write to it before the next flush
(``dispatch.Recorder.upload`` knows). Destruction waits until no unsubmitted work refers to the buffer.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .errors import OutOfMemoryError, ReleasedBufferError
from .spec import Shape
from .storage import LEASE_ENDED, Buffer, Storage

SMALLEST_BUFFER = 256
FLUSHES_UNTIL_DESTROYED = 50
FLUSHES_BETWEEN_SWEEPS = 10


class Allocator(Protocol):
    """Where memory comes from: a WebGPU device, or numpy."""

    @property
    def largest_buffer(self) -> int:
        """Bytes of the largest buffer that can be made and bound whole."""

    def create(self, nbytes: int, label: str) -> Any:
        """Memory of ``nbytes``; its content is anything."""

    def destroy(self, memory: Any) -> None:
        """Give the memory back to the system."""


class Scoped(Protocol):
    """What is told of each lease that begins while it is open, in its thread and in others."""

    def add(self, storage: Storage) -> None: ...
    def add_stranger(self, storage: Storage) -> None: ...


@dataclass(frozen=True)
class MemoryStats:
    """Counters of one device, in bytes and buffers; whole buffers are counted, not the elements in them.

    ``reserved_bytes`` = in use + free in the pool + waiting for the next flush to be destroyed, ``pending_destroy``.
    """

    in_use_bytes: int
    reserved_bytes: int
    peak_bytes: int
    created: int
    destroyed: int
    reused: int
    pending_destroy: int
    submits_in_flight: int = 0


class LiveBuffer(NamedTuple):
    """A buffer in use: what it was taken for, its bytes, and the lease by which it is known again."""

    label: str
    shape: Shape
    nbytes: int
    persistent: bool
    serial: int
    generation: int


class BufferPool:
    """Buffers of one device by size class, the lowest serial first, so that equal steps meet equal buffers.

    ``epoch`` counts flushes, and ``has_pending`` tells whether work was recorded since the last. ``scopes`` holds what
    ``memory.scope`` opened, and captures, by thread; ``revocations`` counts pinned buffers that were taken by force,
    ``unpinned`` waits to be drained, as ``finalized`` does, since plans may go in a garbage collection.
    ``on_destroy`` is told of a buffer before it goes, ``on_pressure`` is to submit and finish what is recorded,
    ``on_take`` is told of what ``take`` gave, for tests that poison memory.

    ``limit`` bounds the reserved bytes. Without one, reserved bytes stay below twice the most that was ever in use:
    what was free longest goes first. What stays free for fifty flushes goes as well.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._buffers: dict[int, Buffer] = {}
        self._free: dict[int, list[tuple[int, Buffer]]] = {}
        self._classes: dict[int, int] = {}
        self._doomed: list[Buffer] = []
        self._serials = itertools.count()
        self._most_in_use = 0
        self.finalized: deque[tuple[Buffer, int]] = deque()
        self.epoch = 0
        self.has_pending = False
        self.limit: int | None = None
        self.scopes: dict[int, list[Scoped]] = {}
        self.unpinned: deque[tuple[Buffer, int]] = deque()
        self.revocations = 0
        self.on_take: Callable[[Storage], None] | None = None
        self.on_destroy: Callable[[Buffer], None] | None = None
        self.on_pressure: Callable[[], None] | None = None
        self.in_use_bytes = self.reserved_bytes = self.peak_bytes = 0
        self.created = self.destroyed = self.reused = 0

    def take(self, nbytes: int, label: str = "", shape: Shape = ()) -> Storage:
        """A lease on a buffer of at least ``nbytes``; its content is anything. OutOfMemoryError past a limit."""
        if self.finalized:
            self.drain()
        wanted = self._classes.get(nbytes) or self.size_class(nbytes, label, shape)
        free = self._free.get(wanted)
        if free:
            buffer = heapq.heappop(free)[1]
            self.reused += 1
        else:
            buffer = self._create(wanted, label, shape)
        buffer.count = 1
        buffer.label = label
        buffer.shape = shape
        self.in_use_bytes += wanted
        if self.in_use_bytes > self.peak_bytes:
            self.peak_bytes = self.in_use_bytes
        storage = Storage(self, buffer, label, shape)
        if self.on_take is not None:
            self.on_take(storage)
        return storage

    def size_class(self, nbytes: int, label: str = "", shape: Shape = ()) -> int:
        """The bytes of the buffer that serves ``nbytes``: a power of two or one and a half of one, at least 256."""
        largest = self._allocator.largest_buffer
        if nbytes > largest:
            raise OutOfMemoryError(
                f"{label or 'an array'}: shape {shape} takes {nbytes} bytes; "
                f"the largest buffer this device can bind has {largest}"
            )
        power = 1 << (max(nbytes, SMALLEST_BUFFER) - 1).bit_length()
        smaller = power // 4 * 3
        wanted = min(smaller if max(nbytes, SMALLEST_BUFFER) <= smaller else power, largest)
        if len(self._classes) < 65536:
            self._classes[nbytes] = wanted
        return wanted

    def retain(self, storage: Storage) -> Storage:
        """One more lease on the buffer of ``storage``. Whoever writes through either moves it to its own buffer first.

        ReleasedBufferError if it was released, ValueError if it is persistent, which shares with nobody.
        """
        storage.check()
        if storage.persistent:
            raise ValueError(f"{storage} is persistent: its buffer is not shared; copy it")
        storage.buffer.count += 1
        return Storage(self, storage.buffer, storage.label, storage.shape)

    def release(self, storage: Storage) -> None:
        """End a lease now; the buffer goes back when it was the last. ReleasedBufferError the second time.

        A lease that was voided by force has nothing left to release: a no-op.
        """
        if storage.generation == LEASE_ENDED:
            raise ReleasedBufferError(f"the buffer of {storage} is released a second time")
        generation, storage.generation = storage.generation, LEASE_ENDED
        self._end_lease(storage.buffer, generation)

    def force_release(self, storage: Storage) -> None:
        """Give the buffer back whatever its count; every array on it raises on use. Twice is a no-op."""
        if not storage.released:
            self._give_back(storage.buffer)

    def reclaim(self) -> None:
        """``force_release`` of everything that is live and not persistent."""
        self.drain()
        for buffer in self._buffers.values():
            if buffer.count and not buffer.persistent and not buffer.pins:
                self._give_back(buffer)

    def trim(self) -> None:
        """Destroy every free buffer; those that unsubmitted work refers to go right after the next flush."""
        self.drain()
        self._free.clear()
        waiting = {buffer.serial for buffer in self._doomed}
        for buffer in list(self._buffers.values()):  # all: an interrupted ``take`` may have lost one from the lists
            if buffer.count == 0 and buffer.serial not in waiting:
                self._destroy_when_submitted(buffer)

    def flushed(self) -> None:
        """The recorded work is submitted: destroy what waited for that, and now and then what stayed free for long."""
        self.epoch += 1
        self.has_pending = False
        doomed, self._doomed = self._doomed, []
        for buffer in doomed:
            self._destroy(buffer)
        if self.finalized:
            self.drain()
        if self.epoch % FLUSHES_BETWEEN_SWEEPS == 0:
            for nbytes, free in self._free.items():
                kept = [entry for entry in free if self.epoch - entry[1].free_since <= FLUSHES_UNTIL_DESTROYED]
                if len(kept) < len(free):
                    for _, buffer in free:
                        if self.epoch - buffer.free_since > FLUSHES_UNTIL_DESTROYED:
                            self._destroy(buffer)
                    heapq.heapify(kept)
                    self._free[nbytes] = kept

    def note(self, storage: Storage) -> None:
        """Tell the scopes that are open of a new lease."""
        mine = threading.get_ident()
        for thread, scopes in list(self.scopes.items()):
            for scope in scopes:
                if thread == mine:
                    scope.add(storage)
                else:
                    scope.add_stranger(storage)

    def open_scope(self, scope: Scoped) -> None:
        """Tell a scope of the leases of this thread from now on."""
        self.scopes.setdefault(threading.get_ident(), []).append(scope)

    def end_scope(self, scope: Scoped) -> None:
        """Tell a scope of this thread of no more leases."""
        thread = threading.get_ident()
        self.scopes[thread] = [other for other in self.scopes[thread] if other is not scope]
        if not self.scopes[thread]:
            del self.scopes[thread]

    def drain(self) -> None:
        """Release what garbage collection noted, and count the pins that went."""
        while self.unpinned:
            buffer, generation = self.unpinned.popleft()
            if buffer.generation == generation and buffer.pins:
                buffer.pins -= 1
        finalized = self.finalized
        while finalized:
            self._end_lease(*finalized.popleft())

    def stats(self) -> MemoryStats:
        """The counters as they are now."""
        self.drain()
        return MemoryStats(
            self.in_use_bytes,
            self.reserved_bytes,
            self.peak_bytes,
            self.created,
            self.destroyed,
            self.reused,
            len(self._doomed),
        )

    def reset_peak(self) -> None:
        """Let ``peak_bytes`` start anew from what is in use."""
        self.drain()
        self._most_in_use = max(self._most_in_use, self.peak_bytes)
        self.peak_bytes = self.in_use_bytes

    def live(self) -> list[LiveBuffer]:
        """The buffers in use, largest first."""
        self.drain()
        rows = [
            LiveBuffer(b.label, b.shape, b.nbytes, b.persistent, b.serial, b.generation)
            for b in self._buffers.values()
            if b.count
        ]
        return sorted(rows, key=lambda row: (-row.nbytes, row.serial))

    def _create(self, nbytes: int, label: str, shape: Shape) -> Buffer:
        """A new buffer. Where there is no room, recorded work is submitted, what is free is destroyed, and the request
        tried once more.
        """
        self._evict(nbytes)
        serial = next(self._serials)
        name = f"buffer {serial} of {nbytes} bytes"
        try:
            memory = self._create_within_limit(nbytes, name)
        except OutOfMemoryError:
            self.make_room()
            try:
                memory = self._create_within_limit(nbytes, name)
            except OutOfMemoryError as error:
                raise self.out_of_memory(nbytes, label, shape, error) from error
        buffer = self._buffers[serial] = Buffer(memory, nbytes, serial)
        self.created += 1
        self.reserved_bytes += nbytes
        return buffer

    def _create_within_limit(self, nbytes: int, name: str) -> Any:
        if self.limit is not None and self.reserved_bytes + nbytes > self.limit:
            raise OutOfMemoryError("the limit is reached")
        return self._allocator.create(nbytes, name)

    def _evict(self, nbytes: int) -> None:
        """Destroy what was free longest, where a new buffer would bring reserved bytes past twice the most in use."""
        self._most_in_use = max(self._most_in_use, self.peak_bytes)
        kept = self.reserved_bytes - sum(buffer.nbytes for buffer in self._doomed)
        excess = kept + nbytes - 2 * max(self._most_in_use, self.in_use_bytes + nbytes)
        if excess > 0:
            longest_first = sorted((b for free in self._free.values() for _, b in free), key=lambda b: b.free_since)
            for buffer in _until(excess, longest_first):
                free = self._free[buffer.nbytes]
                free.remove((buffer.serial, buffer))
                heapq.heapify(free)
                self._destroy_when_submitted(buffer)

    def make_room(self) -> None:
        """Submit what is recorded and destroy all that is free."""
        gc.collect()
        if self.on_pressure is not None:
            self.on_pressure()
        self.trim()

    def out_of_memory(self, nbytes: int, label: str, shape: Shape, cause: object) -> OutOfMemoryError:
        """The error for a request that failed, with every number."""
        largest = "; ".join(f"{row.label or 'array'} {row.shape} {row.nbytes}" for row in self.live()[:5]) or "none"
        return OutOfMemoryError(
            f"{label or 'an array'}: no memory for shape {shape}, a buffer of {nbytes} bytes ({cause}). "
            f"In use {self.in_use_bytes}, reserved {self.reserved_bytes}, "
            f"limit {'none' if self.limit is None else self.limit}. Largest in use: {largest}"
        )

    def _end_lease(self, buffer: Buffer, generation: int) -> None:
        """One lease less. A lease of an older generation is void: nothing to release."""
        if buffer.generation == generation:
            buffer.count -= 1
            if buffer.count == 0:
                self._give_back(buffer)

    def _give_back(self, buffer: Buffer) -> None:
        buffer.generation += 1
        buffer.count = 0
        buffer.persistent = False
        if buffer.pins:
            buffer.pins = 0
            self.revocations += 1
        buffer.free_since = self.epoch
        self.in_use_bytes -= buffer.nbytes
        heapq.heappush(self._free.setdefault(buffer.nbytes, []), (buffer.serial, buffer))

    def _destroy_when_submitted(self, buffer: Buffer) -> None:
        if self.has_pending and buffer.recorded_in == self.epoch:
            self._doomed.append(buffer)
        else:
            self._destroy(buffer)

    def _destroy(self, buffer: Buffer) -> None:
        if self.on_destroy is not None:
            self.on_destroy(buffer)
        self._allocator.destroy(buffer.memory)
        del self._buffers[buffer.serial]
        buffer.memory = None
        self.reserved_bytes -= buffer.nbytes
        self.destroyed += 1


def _until(nbytes: int, buffers: list[Buffer]) -> Iterator[Buffer]:
    """Buffers from the front of a list, until they make up ``nbytes``."""
    for buffer in buffers:
        if nbytes <= 0:
            return
        nbytes -= buffer.nbytes
        yield buffer
