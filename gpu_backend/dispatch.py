"""The recorder of a GPU: dispatches are noted, and go to the queue together, in one pass and one submit.

Recording costs a few microseconds; encoding and submitting happen at a flush: by a read-back, at a number of
dispatches, or when the recorded work reaches a budget, so that no submit runs long. Submits in flight are capped.
Params of all recorded dispatches lie in one uniform arena, each in a slot of its own, reached by dynamic offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .buffer_pool import BufferPool
from .capture import active, paused
from .encoding import Part, Pass, Transfer
from .errors import DeviceError, OutOfMemoryError, ShaderError
from .health import Health
from .pipeline import BindGroupCache, Kernel
from .recorder import MAX_RECORDED, MAX_UPLOADED, READS, Download, Recorder
from .shader import PARAMS_NBYTES
from .storage import Buffer, Storage
from .submission import Bytes, Read, open_submissions

MAX_GROUPS_PER_AXIS = 65535
KEPT_STAGING = 4
KEPT_STAGING_NBYTES = 2**22


def fold(groups: int, limit: int = MAX_GROUPS_PER_AXIS) -> tuple[int, int]:
    """A number of workgroups as an (x, y) grid with at most ``limit`` on an axis and less than one row to spare.

    ``group_index`` of lib/index.wgsl undoes it. DeviceError past ``limit`` squared.
    """
    if groups <= limit:
        return groups, 1
    rows = -(-groups // limit)
    if rows > limit:
        raise DeviceError(f"{groups} workgroups do not fit a grid of {limit} x {limit}")
    return -(-groups // rows), rows


class GPURecorder(Recorder):
    """Records dispatches for one WebGPU device, in order, and submits them. Callers hold the device's lock."""

    def __init__(self, gpu: Any, pool: BufferPool, health: Health, kind: str) -> None:
        import wgpu

        super().__init__(pool, kind)
        usage = wgpu.BufferUsage
        self._gpu = gpu
        self._health = health
        self._commands: list[tuple[Kernel, Any, int, int, int]] = []
        self._work = 0
        self._uploaded = 0
        self._slot = 0
        self._submitting = False
        self._arena = bytearray(MAX_RECORDED * PARAMS_NBYTES)
        self._usage = usage
        self._uniforms = self.create_uniforms("params arena", self._arena)
        fault = gpu.create_buffer(label="fault word", size=16, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        self.fault = Buffer(fault, 16, -1)
        self._fault_raised_at = 0
        self._error = wgpu.GPUError
        self._staging: list[Any] = []
        self._staging_usage = usage.MAP_READ | usage.COPY_DST
        self.submissions = open_submissions(gpu)
        self.bind_groups = BindGroupCache(gpu)
        self.max_groups_per_axis = MAX_GROUPS_PER_AXIS

    @property
    def submits_in_flight(self) -> int:
        return 0 if self._health.ended else self.submissions.in_flight

    def record(self, kernel: Kernel, groups: int, work: int = 0, /, **arguments: Any) -> None:
        # The hot path of the whole library: every line here runs once per dispatch.
        if self._health.ended:
            self._health.check()
        capture = active.capture
        if capture is not None and groups:
            for name in kernel.storage_names:
                if name in arguments:
                    self.claim(arguments[name].storage)
        pool = self._pool
        buffers: list[Buffer] = []
        key = [kernel.layout_number]
        try:
            if len(arguments) != len(kernel.arguments):
                raise KeyError
            for name in kernel.storage_names:
                if name == "fault":
                    buffer = self.fault
                else:
                    storage = arguments[name].storage
                    buffer = storage.buffer
                    if storage.generation != buffer.generation:
                        storage.check()
                    if storage.pool is not pool:
                        raise DeviceError(f"{kernel.label}: {name} is on another device; move it with to()")
                buffers.append(buffer)
                key.append(buffer.serial)
                work += buffer.nbytes
            if kernel.vector_fields:
                numbers = kernel.flatten(arguments)
            else:
                numbers = [arguments[name] for name in kernel.field_names]
        except KeyError:
            raise kernel.complain(arguments) from None
        if len(set(key[1:])) != len(buffers):
            self._check_aliases(kernel, buffers)
        if groups == 0:
            return
        x, y = (groups, 1) if groups <= self.max_groups_per_axis else fold(groups, self.max_groups_per_axis)
        group = self.bind_groups.get(tuple(key))
        if group is None:
            with self._health.watch():
                group = self.bind_groups.create(kernel, buffers, self._uniforms)
        while True:  # again if a signal handler, or a finalizer, used the recorder in between
            commands, slot = self._commands, self._slot
            if slot and (slot >= self.max_recorded or self._work + work > self.work_budget):
                self.flush()
                continue
            offset = slot * PARAMS_NBYTES
            try:
                kernel.packing.pack_into(self._arena, offset, *numbers)
            except (struct.error, OverflowError) as error:
                raise ShaderError(kernel.label, f"these Params do not fit: {error}") from None
            epoch = pool.epoch
            for buffer in buffers:
                buffer.recorded_in = epoch
            pool.has_pending = True
            if commands is self._commands and slot == self._slot:  # no call, so no handler, from here to the append
                self._slot = slot + 1
                self._work += work
                commands.append((kernel, group, offset, x, y))
                break
        self.dispatches += 1
        if capture is not None and capture is active.capture:
            capture.dispatch(kernel, arguments, numbers, (x, y), work)

    def move(self, storage: Storage) -> None:
        with paused():
            fresh = self._pool.take(storage.buffer.nbytes, storage.label, storage.shape)
            self._submit([Transfer(storage.buffer.memory, fresh.buffer.memory, 0, fresh.buffer.nbytes)])
            storage.adopt(fresh)

    def upload(self, storage: Storage, data: Bytes) -> None:
        self._health.check()
        storage.check()
        if active.capture is not None:
            active.capture.upload(self, storage, data)
        # The queue would write before commands that are not submitted yet.
        if self._pool.has_pending and storage.buffer.recorded_in == self._pool.epoch:
            self.flush()
        for start in range(0, data.nbytes, MAX_UPLOADED):
            piece = data[start : start + MAX_UPLOADED]
            try:
                self.submissions.write(storage.buffer.memory, start, piece, piece.nbytes)
            except self._error as error:
                self._health.raise_if_lost(error)
                raise OutOfMemoryError(f"no memory to upload {piece.nbytes} bytes of {storage}: {error}") from error
            self._uploaded += piece.nbytes
            if self._uploaded > self.max_uploaded:
                self._submit([])  # wgpu keeps what is written until a submit

    def start_download(self, storage: Storage, nbytes: int) -> Download:
        self._health.check()
        storage.check()
        if active.capture is not None:
            active.capture.abandon(READS)
        self.downloads += 1
        staging = self._take_staging(nbytes + 16)
        copies = [(self.fault.memory, 0, 16)] + [(storage.buffer.memory, 16, nbytes)] * bool(nbytes)
        self._submit([Transfer(source, staging, at, size) for source, at, size in copies])
        with self._health.watch():
            read = self.submissions.read(staging, nbytes + 16)
        return Download(lambda: self._finish_download(read), lambda: bool(self._health.ended) or read.done)

    def flush(self) -> None:
        self._health.check()
        if self._slot:
            self._submit([])

    def synchronize(self) -> None:
        self._submit([])
        with self._health.watch():
            self.submissions.wait(self.submissions.count, self.timeout)

    def _submit(self, parts: Sequence[Part]) -> None:
        """Submit the recorded dispatches, then ``parts``.

        What cannot be encoded is dropped with the error that says why. An interruption before the submit drops nothing.
        """
        if self._submitting:
            raise DeviceError(
                "the device is used inside one of its own submits, by a signal handler or a finalizer: "
                "let it set a flag, and act on that after the op"
            )
        self._submitting = True
        try:
            with self._health.watch():
                self._submit_alone(parts)
        finally:
            self._submitting = False

    def _submit_alone(self, parts: Sequence[Part]) -> None:
        recorded = self._commands
        try:
            if recorded:
                self.submissions.write(self._uniforms, 0, self._arena, len(recorded) * PARAMS_NBYTES)
                parts = [Pass(recorded), *parts]
            finished = self.submissions.encoding.encode(parts, f"flush {self.flushes}")
        except Exception as error:
            dropped = self._slot
            self._forget_commands()
            self._pool.flushed()
            if not isinstance(error, self._error):
                raise
            self._health.raise_if_lost(error)
            dispatches = f"{dropped} dispatch{'es' * (dropped != 1)}"
            raise DeviceError(f"flush {self.flushes} was refused, {dispatches} dropped: {error}") from error
        self._forget_commands()
        try:
            number = self.submissions.submit(finished)
        finally:
            self.flushes += 1
            self._pool.flushed()
        self.submissions.wait(number - self.max_in_flight, None)  # no timeout: an op must not be left half done

    def _forget_commands(self) -> None:
        self._commands, self._slot, self._work, self._uploaded = [], 0, 0, 0

    def flush_if_full(self, work: int) -> None:
        """Submit what is recorded, if so much more work would pass the budget of a submit."""
        self._health.check()
        if self._work + work > self.work_budget:
            self.flush()

    def submit_parts(self, parts: Sequence[Part], dispatches: int) -> None:
        """Submit what is recorded, and after it ``parts``."""
        self._health.check()
        self._submit(parts)
        self.dispatches += dispatches

    def create_uniforms(self, label: str, content: bytes | bytearray) -> Any:
        """A uniform buffer with this content."""
        usage = self._usage.UNIFORM | self._usage.COPY_DST
        with self._health.watch():
            uniforms = self._gpu.create_buffer(label=label, size=len(content), usage=usage)
            self._gpu.queue.write_buffer(uniforms, 0, content)
        return uniforms

    def _take_staging(self, nbytes: int) -> Any:
        for index, staging in enumerate(self._staging):
            if staging.size >= nbytes:
                return self._staging.pop(index)
        size = max(1 << (nbytes - 1).bit_length(), 4096) if nbytes <= KEPT_STAGING_NBYTES else nbytes
        try:
            return self._create_staging(size)
        except OutOfMemoryError:
            self._pool.make_room()
            return self._create_staging(size)

    def _create_staging(self, size: int) -> Any:
        try:
            return self._gpu.create_buffer(label="staging", size=size, usage=self._staging_usage)
        except self._error as error:
            self._health.raise_if_lost(error)
            raise self._pool.out_of_memory(size, "a read-back", (), error) from error

    def _finish_download(self, read: Read) -> Bytes:
        """The content of a read whose first 16 bytes are the fault word."""
        with self._health.watch():
            content = read.content(self.timeout)
        staging = read.take_staging()
        if staging is not None and staging.size <= KEPT_STAGING_NBYTES and len(self._staging) < KEPT_STAGING:
            self._staging.append(staging)
        elif staging is not None:
            staging.destroy()
        fault = content[:16].view(np.uint32)
        if fault[0] and read.number > self._fault_raised_at:
            self._fault_raised_at = self.submissions.count  # reads that are under way would tell the same again
            self._gpu.queue.write_buffer(self.fault.memory, 0, bytes(16))
            source = self._fault_sources[int(fault[0]) - 1]
            index, extent = int(fault[1].astype(np.int32)), int(fault[2])
            raise IndexError(f"{source}: index {index} is out of range for {extent}")
        return content[16:]

    @staticmethod
    def _check_aliases(kernel: Kernel, buffers: list[Buffer]) -> None:
        for position, buffer in enumerate(buffers):
            if kernel.writable[position] and buffers.count(buffer) > 1:
                name = kernel.storage_names[position]
                raise ShaderError(kernel.label, f"{name} is written and bound a second time; it needs its own buffer")
