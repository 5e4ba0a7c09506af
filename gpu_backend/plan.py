"""Plan: a captured list with buffers of its own, ready to be submitted again and again.

Content that was made and dropped inside the list shares buffers by its lifetime, and so do inputs; those buffers are
shared with the other plans of the same ``Arena``, which never run at once. Constants, and values that the host writes
only when they change, have buffers to themselves. Content from outside is met where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from .array import Array
from .capture import FAULT, Capture, Command, Content, Copy, Dispatch, HostCall, content_of, unpin
from .device import GPUDevice
from .encoding import Call, Part, Pass, Transfer
from .errors import CaptureError
from .observe import observed
from .pipeline import bind
from .shader import PARAMS_NBYTES
from .storage import Buffer, Storage
from .submission import Bytes


class Arena:
    """Buffers that plans share. One that no plan uses any more goes back to the pool."""

    def __init__(self, device: GPUDevice) -> None:
        self._device = device
        self._users: Counter[Storage] = Counter()

    def free(self) -> dict[int, list[Storage]]:
        """All buffers by size, the lowest serial last."""
        found: dict[int, list[Storage]] = {}
        for storage in sorted(self._users, key=lambda storage: -storage.buffer.serial):
            found.setdefault(storage.buffer.nbytes, []).append(storage)
        return found

    def make(self, nbytes: int) -> Storage:
        """A new buffer."""
        storage = self._device.pool.take(nbytes, "compiled")
        storage.persist("compiled")
        return storage

    def retain(self, storages: Iterable[Storage]) -> None:
        """A plan uses these."""
        self._users.update(storages)

    def release(self, storages: Iterable[Storage]) -> None:
        """A plan is gone."""
        for storage in storages:
            self._users[storage] -= 1
            if self._users[storage] == 0:
                del self._users[storage]


@dataclass(slots=True)
class Segment:
    """What goes in one submit: passes and copies in order, and what the host does after it."""

    commands: list[Dispatch | Copy] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    call: HostCall | None = None
    work: int = 0


class Plan:
    """What a capture recorded, made to be replayed on ``device``. Callers hold the device's lock.

    It takes over what the capture pinned, also when it cannot be made.

    ``outputs``: what ``replay`` gives copies of. ``renamed``: content made inside that lives on in storage outside.
    ``refreshed``: constants that the host writes anew when they change.
    CaptureError if the list reads what nothing in it has written.
    """

    def __init__(
        self,
        capture: Capture,
        device: GPUDevice,
        arena: Arena,
        outputs: Sequence[Content],
        renamed: dict[Content, Storage],
        refreshed: Collection[Content] = (),
    ) -> None:
        self.device = device
        self.outside, capture.outside = capture.outside, {}
        self.commands = capture.commands
        self.constants = capture.constants
        self.inputs = list(capture.inputs)
        self.kernels = sum(isinstance(command, Dispatch) for command in self.commands)
        self.host_calls = sum(isinstance(command, HostCall) for command in self.commands)
        self.places: dict[Content, Storage] = {**self.outside, **renamed}
        self.segments: list[Segment] = []
        self.uniforms: Any = None
        self._arena = arena
        self._capture = capture
        self._shared: list[Storage] = []
        self._revocations = capture.revocations
        self._groups: dict[tuple[int, ...], Any] = {}
        try:
            _check_written(capture, self.outside, outputs)
            self._part_constants()
            written = {content for command in self.commands for content in _writes(command)}
            self.written = [storage for content, storage in self.outside.items() if content in written]
            self.written += [storage for content, storage in renamed.items() if content in written]
            self._place(outputs)
            self.segments = self._prepare()
            self.constant_nbytes = [c.nbytes for content, c in self.constants.items() if content not in refreshed]
            self.constants = {}
            del self._capture
        except BaseException:
            self.close()
            raise

    def storages(self) -> list[Storage]:
        """The plan's own memory, what it shares with other plans included."""
        known = {id(storage) for storage in self.outside.values()}
        return list({id(s): s for s in self.places.values() if id(s) not in known}.values())

    @property
    def uniform_nbytes(self) -> int:
        """Bytes of the Params."""
        return 0 if self.uniforms is None else int(self.uniforms.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the plan's own buffers, what it shares with other plans included."""
        return sum(storage.buffer.nbytes for storage in self.storages()) + self.uniform_nbytes

    def gpu_seconds(self) -> list[float]:
        """The mean time of each dispatch in the replays that a profiler has seen, in order; empty if none."""
        passes = [part for segment in self.segments for part in segment.parts if isinstance(part, Pass)]
        return [seconds / part.runs for part in passes if part.runs for seconds in part.seconds or ()]

    @property
    def is_intact(self) -> bool:
        """Whether all memory from outside is where it was."""
        if self._revocations != self.device.pool.revocations:
            for content, storage in self.places.items():
                if storage.released or (content in self.outside and content_of(storage) != content):
                    return False
            self._revocations = self.device.pool.revocations
        return True

    def replay(self, given: Sequence[Array | Bytes], results: Sequence[tuple[Content, Array]]) -> None:
        """Bind the inputs anew, submit, and copy content into ``results``."""
        recorder = self.device.recorder
        recorder.flush_if_full(self.segments[0].work)
        before = []
        for content, x in zip(self.inputs, given, strict=True):
            place = self.places.get(content)
            if place is None:
                continue  # nothing reads it
            if isinstance(x, Array):
                x.storage.check()
                if x.size:
                    before.append(Transfer(x.storage.buffer.memory, place.buffer.memory, 0, x.nbytes))
            else:
                recorder.upload(place, x)
        for storage in self.written:
            storage.version += 1  # first, so that the tape notices half a replay too
        after = [
            Transfer(self.places[content].buffer.memory, y.storage.buffer.memory, 0, y.nbytes)
            for content, y in results
            if y.size
        ]
        last = self.segments[-1]
        for segment in self.segments:
            parts = [*before, *segment.parts, *(after if segment is last else ())]
            recorder.submit_parts(parts, len(segment.commands))
            before = []
            if segment.call is not None:
                self._call(segment.call)

    def _call(self, call: HostCall) -> None:
        recorder = self.device.recorder
        reads = [recorder.start_download(self.places[content], nbytes) for content, nbytes in call.inputs]
        contents = [read.content() for read in reads]
        start = perf_counter()
        made = call.function(contents)
        if observed.by is not None:
            nbytes = sum(one.nbytes for one in (*contents, *made))
            observed.by.host_call(call.label, self.device, start, nbytes)
        for content, elements in zip(call.outputs, made, strict=True):
            recorder.upload(self.places[content], elements)
        recorder.host_calls += 1

    def close(self) -> None:
        """Give the buffers back. A second time is a no-op."""
        for content, storage in self.outside.items():
            unpin(content, storage)
        self._arena.release(self._shared)
        self.outside, self.places, self._shared, self.segments, self.uniforms = {}, {}, [], [], None

    def _part_constants(self) -> None:
        """A constant that the list changes, or that lives on outside, is copied from one that nobody changes, each time
        before it is used."""
        changes = {content for command in self.commands for content in _writes(command)} | self.places.keys()
        for content in [content for content in self.constants if content in changes]:
            source = (-2 - len(self.constants), 1)
            constant = self.constants[source] = self.constants.pop(content)
            first = lifetimes(self.commands).get(content, (0, 0))[0]
            self.commands.insert(first, Copy(source, content, constant.nbytes))

    def _place(self, outputs: Sequence[Content]) -> None:
        """Find a buffer for each content, by its lifetime."""
        begins: dict[int, list[Content]] = {}
        ends: dict[int, list[Content]] = {}
        for content, (first, last) in self._lifetimes(outputs).items():
            if content in self.constants:
                self.places[content] = self._constant(content)
            elif content not in self.places and content != FAULT:
                begins.setdefault(first, []).append(content)
                ends.setdefault(last, []).append(content)
        free = self._arena.free()
        used: dict[int, Storage] = {}
        for time in range(-1, len(self.commands) + 1):
            for content in begins.get(time, ()):
                nbytes = self._capture.nbytes(content)
                known = free.get(nbytes)
                self.places[content] = storage = known.pop() if known else self._arena.make(nbytes)
                used[id(storage)] = storage
            for content in ends.get(time, ()):
                storage = self.places[content]
                free.setdefault(storage.buffer.nbytes, []).append(storage)
        self._shared = list(used.values())
        self._arena.retain(self._shared)

    def _lifetimes(self, outputs: Sequence[Content]) -> dict[Content, tuple[int, int]]:
        """The first and the last command that uses each content; an input is there from the start."""
        spans = lifetimes(self.commands)
        end = len(self.commands)
        for content in outputs:
            spans[content] = (spans.get(content, (end, end))[0], end)
        for content in self.inputs:
            if content in spans:
                spans[content] = (-1, spans[content][1])
        return spans

    def _constant(self, content: Content) -> Storage:
        data = self.constants[content]
        storage = self._arena.make(max(data.nbytes, self._capture.nbytes(content)))
        self.device.recorder.upload(storage, data)
        return storage

    def _prepare(self) -> list[Segment]:
        """Segments, with Params in a uniform buffer and a bind group for each dispatch."""
        recorder = self.device.recorder
        params = bytearray()
        segments = [Segment()]
        for command in self.commands:
            work = command.work if isinstance(command, Dispatch) else 0
            if segments[-1].commands and segments[-1].work + work > recorder.work_budget:
                segments.append(Segment())
            if isinstance(command, HostCall):
                segments[-1].call = command
                segments.append(Segment())
                continue
            segments[-1].commands.append(command)
            segments[-1].work += work
            if isinstance(command, Dispatch):
                params += command.params.ljust(PARAMS_NBYTES, b"\0")
        if params:
            self.uniforms = recorder.create_uniforms("compiled params", params)
        offset = 0
        for segment in segments:
            run: list[Call] = []
            for command in segment.commands:
                if isinstance(command, Dispatch):
                    run.append(Call(command.kernel, self._group(command), offset, *command.grid))
                    offset += PARAMS_NBYTES
                else:
                    source, target = self.places[command.source].buffer, self.places[command.target].buffer
                    segment.parts += [Pass(run), Transfer(source.memory, target.memory, 0, command.nbytes)]
                    run = []
            segment.parts.append(Pass(run))
            for part in segment.parts:
                if isinstance(part, Pass):
                    recorder.submissions.encoding.prepare(part)
        return segments

    def _group(self, command: Dispatch) -> Any:
        recorder = self.device.recorder
        buffers: list[Buffer] = [
            recorder.fault if content == FAULT else self.places[content].buffer for content in command.contents
        ]
        key = (command.kernel.layout_number, *[buffer.serial for buffer in buffers])
        group = self._groups.get(key)
        if group is None:
            with self.device.health.watch():
                group = self._groups[key] = bind(self.device.gpu, command.kernel, buffers, self.uniforms)
        return group


def lifetimes(commands: Sequence[Command]) -> dict[Content, tuple[int, int]]:
    """The first and the last command that uses each content."""
    spans: dict[Content, tuple[int, int]] = {}
    for time, command in enumerate(commands):
        for content in (*_reads(command), *_writes(command)):
            spans[content] = (spans.get(content, (time, time))[0], time)
    return spans


def _reads(command: Command) -> Iterator[Content]:
    """What a command only reads."""
    if isinstance(command, Dispatch):
        for content, writable in zip(command.contents, command.kernel.writable, strict=True):
            if not writable:
                yield content
    elif isinstance(command, Copy):
        yield command.source
    else:
        yield from (content for content, _ in command.inputs)


def _writes(command: Command) -> Iterator[Content]:
    """What a command writes, or may."""
    if isinstance(command, Dispatch):
        for content, writable in zip(command.contents, command.kernel.writable, strict=True):
            if writable:
                yield content
    elif isinstance(command, Copy):
        yield command.target
    else:
        yield from command.outputs


def _check_written(capture: Capture, outside: Collection[Content], outputs: Sequence[Content]) -> None:
    known = {FAULT, *capture.constants, *capture.inputs, *outside}
    for command in capture.commands:
        empty = set()
        if isinstance(command, Dispatch):
            empty = {content for content, shape in zip(command.contents, command.shapes, strict=True) if 0 in shape}
        for content in _reads(command):
            if content not in known and content not in empty:
                label = command.kernel.label if isinstance(command, Dispatch) else "a copy"
                raise CaptureError(
                    f"{label} reads what no recorded work has written: an op before it made its result without "
                    "recording how, so a replay would repeat the result of the capture"
                )
        known.update(_writes(command))
    if any(content not in known for content in outputs):
        raise CaptureError(
            "a result was not written by any recorded work: an op made it without recording how, so a replay would "
            "repeat the result of the capture"
        )
