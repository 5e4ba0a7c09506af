"""Buffers, and the leases on them that arrays hold."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from .errors import ReleasedBufferError
from .spec import Shape

LEASE_ENDED = -1


class Lender(Protocol):
    """What a lease needs of the pool that gave it."""

    finalized: deque[tuple[Buffer, int]]
    unpinned: deque[tuple[Buffer, int]]
    scopes: Any
    revocations: int

    def note(self, storage: Storage) -> None:
        """Tell the scopes that are open of a new lease; called if there are any."""

    def drain(self) -> None:
        """Take back what is noted in ``finalized``."""


class Buffer:
    """One GPU buffer of a size class.

    ``count`` leases are on it; ``generation`` moves on each time it goes back to the pool. ``label`` and ``shape`` are
    those of its first lease, ``persistent`` buffers (parameters, gradients, optimizer state) have one lease alone, and
    so have those with ``pins``, the number of plans that meet them.
    ``recorded_in`` is the epoch of the last recorded work that refers to it, ``free_since`` that of its return.
    """

    __slots__ = (
        "bind_group_keys",
        "count",
        "free_since",
        "generation",
        "label",
        "memory",
        "nbytes",
        "persistent",
        "pins",
        "recorded_in",
        "serial",
        "shape",
    )

    def __init__(self, memory: Any, nbytes: int, serial: int) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.serial = serial
        self.count = 0
        self.generation = 0
        self.recorded_in = -1
        self.free_since = 0
        self.persistent = False
        self.pins = 0
        self.label = ""
        self.shape: Shape = ()
        self.bind_group_keys: set[tuple[int, ...]] = set()


class Storage:
    """A lease on a buffer, shared by the arrays that look at the same memory.

    ``version`` counts changes in place, so that the tape notices them. Two storages share a buffer only after a clone
    or an assignment; whichever is written first moves to a buffer of its own. Persistent storage never shares and
    never moves.
    """

    __slots__ = ("__weakref__", "buffer", "generation", "label", "pool", "shape", "version")

    def __init__(self, pool: Lender, buffer: Buffer, label: str, shape: Shape) -> None:
        self.pool = pool
        self.buffer = buffer
        self.generation = buffer.generation
        self.label = label
        self.shape = shape
        self.version = 0
        if pool.scopes:
            pool.note(self)

    def __del__(self) -> None:
        # Garbage collection may run anywhere, on any thread, inside the pool too: only note it.
        try:  # noqa: SIM105  contextlib.suppress costs more than the rest of this
            self.pool.finalized.append((self.buffer, self.generation))
        except AttributeError:
            pass  # a Ctrl-C came before there was a lease

    @property
    def released(self) -> bool:
        """Whether the lease has ended: by ``release``, or by force under it."""
        return self.generation != self.buffer.generation

    @property
    def persistent(self) -> bool:
        """Whether the memory stays where it is, and is spared by ``scope`` and ``reclaim``."""
        if self.buffer.pins and self.pool.unpinned:
            self.pool.drain()
        return (self.buffer.persistent or self.buffer.pins > 0) and self.generation == self.buffer.generation

    @property
    def shared(self) -> bool:
        """Whether another storage has a lease on the same buffer."""
        if self.buffer.count > 1 and self.pool.finalized:
            self.pool.drain()
        return self.buffer.count > 1 and self.generation == self.buffer.generation

    def persist(self, label: str) -> None:
        """Stay where it is from now on. Only for memory that no other storage shares."""
        self.check()
        self.label = self.buffer.label = label
        self.buffer.persistent = True

    def check(self) -> None:
        """ReleasedBufferError if the lease has ended."""
        if self.generation != self.buffer.generation:
            how = "released" if self.generation == LEASE_ENDED else "force-released"
            raise ReleasedBufferError(f"the buffer of {self} was {how}")

    def __str__(self) -> str:
        """What it was taken for, and the shape of the first array on it."""
        return f"{self.label or 'an array'} {self.shape}"

    def adopt(self, other: Storage) -> None:
        """Take over the memory of ``other`` and give back the own. Not for persistent storage."""
        self.check()
        other.check()
        own = self.buffer, self.generation
        other.buffer.count += 1
        self.buffer, self.generation = other.buffer, other.generation
        self.pool.finalized.append(own)  # last: interrupted before, it leaks a buffer, but frees none in use
