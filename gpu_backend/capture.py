"""Capture: the list of what one thread records on one device, while it runs for real.

The run is not disturbed: its arrays come from the pool and go back to it. The list speaks of *contents*, a buffer in
one of its generations, so that ``plan.Plan`` can find buffers of its own for those that were made and dropped inside.
Content that existed before is *outside*: it is pinned, so that it stays where it is, and a replay meets it there.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .buffer_pool import BufferPool
from .errors import CaptureError
from .pipeline import Kernel
from .spec import Shape
from .storage import Storage
from .submission import Bytes

Content = tuple[int, int]  # serial number and generation of a buffer; constants that were uploaded count below -1

_ROOT = Path(__file__).resolve().parent.parent
_OWN = tuple(str(_ROOT / package) for package in ("gpu_backend", "autodiff"))


def content_of(storage: Storage) -> Content:
    """What the storage holds, by name."""
    return storage.buffer.serial, storage.generation


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch: what it binds, in the order of the kernel's storage names, its packed Params and its grid."""

    kernel: Kernel
    contents: tuple[Content, ...]
    shapes: tuple[Shape, ...]
    params: bytes
    grid: tuple[int, int]
    work: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the first bytes of one content over another."""

    source: Content
    target: Content
    nbytes: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """A function of bytes on the host, between two dispatches: what it reads, what it writes."""

    label: str
    function: Callable[[list[Bytes]], Sequence[Bytes]]
    inputs: tuple[tuple[Content, int], ...]
    outputs: tuple[Content, ...]


Command = Dispatch | Copy | HostCall


class Mover(Protocol):
    """What a capture needs of the recorder."""

    def move(self, storage: Storage) -> None:
        """Give a storage that shares its buffer one of its own, with the same elements, outside any capture."""


class Capture:
    """What the thread that made it records on the device of ``pool``, from ``start`` to ``stop``.

    ``abandoned`` says why there is no list: the run read a value on the host, or did something else that a list cannot
    repeat. With ``strict`` that is a CaptureError, at the line that does it.
    """

    def __init__(self, pool: BufferPool, strict: bool = False) -> None:
        self.pool = pool
        self.strict = strict
        self.commands: list[Command] = []
        self.constants: dict[Content, Bytes] = {}
        self.inputs: dict[Content, int] = {}
        self.outside: dict[Content, Storage] = {}
        self.made: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.strangers: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.revocations = pool.revocations
        self.abandoned = ""
        self.line: tuple[str, int] = ("", 0)
        self._born: dict[Content, int] = {}
        self._used: set[Content] = set()

    def start(self) -> None:
        """Begin to note what this thread records."""
        self.pool.open_scope(self)
        active.capture = self

    def stop(self) -> None:
        """Note no more. A second time is a no-op."""
        if active.capture is self:
            active.capture = None
            self.pool.end_scope(self)

    def abandon(self, reason: str) -> None:
        """Give the list up: what runs now cannot be repeated. CaptureError if the capture is strict."""
        self.line = users_line()
        self.abandoned = reason
        self.stop()
        self.drop()
        if self.strict:
            raise self.error()

    def error(self) -> CaptureError:
        """Why it was given up, and where."""
        file, number = self.line
        return CaptureError(f"{self.abandoned} ({file}, line {number})")

    def drop(self) -> None:
        """Forget the list and let go of what it pinned."""
        for content, storage in self.outside.items():
            unpin(content, storage)
        self.commands, self.constants, self.outside = [], {}, {}
        self.strangers.clear()

    def add(self, storage: Storage) -> None:
        """A lease begins in this thread; called by the pool, as for ``memory.scope``."""
        self.made.add(storage)
        self._born[content_of(storage)] = storage.buffer.nbytes

    def add_stranger(self, storage: Storage) -> None:
        """A lease begins in another thread."""
        self.strangers.add(storage)

    def nbytes(self, content: Content) -> int:
        """Bytes of the buffer that holds a content made inside, an input or a constant."""
        return self.inputs.get(content) or self._born.get(content) or self.constants[content].nbytes

    def input(self, storage: Storage) -> None:
        """A storage holds what is bound anew on each replay. It must not escape, as if it were made inside."""
        self.inputs[content_of(storage)] = storage.buffer.nbytes
        self.made.add(storage)

    def scratch(self, nbytes: int) -> Content:
        """A content that counts as made inside, for a copy."""
        content = (-2 - len(self._born), 2)
        self._born[content] = nbytes
        return content

    def hold(self, storage: Storage, data: Bytes) -> None:
        """A storage made outside the list counts as made inside, with these bytes as its constant content."""
        self.add(storage)
        self.constants[content_of(storage)] = data

    def is_born(self, storage: Storage) -> bool:
        """Whether the content of a storage began inside."""
        content = content_of(storage)
        return storage.pool is self.pool and content in self._born and content not in self.outside

    def claim(self, mover: Mover, storage: Storage) -> None:
        """Something is about to use a storage: one from outside is pinned, so that it stays where it is."""
        if storage.pool is not self.pool:
            self.abandon("an op runs on another device than the one that is captured")
            return
        content = content_of(storage)
        if content in self._born or content in self.inputs or content in self.outside:
            return
        storage.check()
        if storage in self.strangers:
            self.abandon("another thread made a tensor that it uses, and would not make it again in a replay")
            return
        if storage.shared:
            mover.move(storage)
            content = content_of(storage)
        pin(storage)
        self.outside[content] = storage

    def dispatch(self, kernel: Kernel, arguments: dict[str, Any], numbers: list[Any], grid: Any, work: int) -> None:
        """Note a dispatch that was recorded."""
        contents, shapes = [], []
        for name in kernel.storage_names:
            if name == "fault":
                contents.append(FAULT)
                shapes.append((4,))
            else:
                contents.append(content_of(arguments[name].storage))
                shapes.append(arguments[name].shape)
        self._used.update(contents)
        params = kernel.packing.pack(*numbers)
        self.commands.append(Dispatch(kernel, tuple(contents), tuple(shapes), params, grid, work))

    def upload(self, mover: Mover, storage: Storage, data: Bytes) -> None:
        """Note bytes from the host. They are a constant of the list, whether they fill new memory or change old."""
        self.claim(mover, storage)
        if self.abandoned:
            return
        content = content_of(storage)
        constant = data.copy()
        if content in self._born and content not in self._used and content not in self.outside:
            known = self.constants.get(content)
            if known is not None and known.nbytes > data.nbytes:
                constant = known.copy()
                constant[: data.nbytes] = data
            self.constants[content] = constant
        else:
            source = (-2 - len(self.constants), 0)
            self.constants[source] = constant
            self._used.add(content)
            self.commands.append(Copy(source, content, data.nbytes))

    def host_call(
        self,
        label: str,
        function: Callable[[list[Bytes]], Sequence[Bytes]],
        inputs: Sequence[tuple[Storage, int]],
        outputs: Sequence[Storage],
    ) -> None:
        """Note a host call that was made: ``function`` of the first bytes of the inputs gives those of the outputs."""
        contents = tuple((content_of(storage), nbytes) for storage, nbytes in inputs)
        call = HostCall(label, function, contents, tuple(content_of(storage) for storage in outputs))
        self._used.update(content for content, _ in contents)
        self._used.update(call.outputs)
        self.commands.append(call)


FAULT: Content = (-1, 0)


class _Active(threading.local):
    capture: Capture | None = None


active = _Active()  # the capture of this thread


def pin(storage: Storage) -> None:
    """Keep the memory of a storage where it is."""
    storage.buffer.pins += 1


def unpin(content: Content, storage: Storage) -> None:
    """The opposite, at the next turn of the pool; a no-op if the lease ended meanwhile."""
    storage.pool.unpinned.append((storage.buffer, content[1]))


@contextmanager
def paused() -> Iterator[None]:
    """What this thread does in the body of this ``with`` is outside its capture, if there is one."""
    capture = active.capture
    if capture is not None:
        capture.stop()
    try:
        yield
    finally:
        if capture is not None:
            capture.start()


def escaped(capture: Capture, kept: Sequence[Storage]) -> Storage | None:
    """A storage that was made inside and is held by someone, those ``kept`` left out."""
    known = {id(storage) for storage in kept}
    return next((storage for storage in list(capture.made) if id(storage) not in known), None)


def users_line() -> tuple[str, int]:
    """File and line of the innermost frame outside this library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
