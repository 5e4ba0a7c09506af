"""The recorder: dispatches are noted, and go to the queue together, in one pass and one submit.

Recording costs a few microseconds; encoding and submitting happen at a flush: by a read-back, at a number of
dispatches, or when the recorded work reaches a budget, so that no submit runs long. Submits in flight are capped.
Params of all recorded dispatches lie in one uniform arena, each in a slot of its own, reached by dynamic offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .buffer_pool import BufferPool
from .errors import DeviceError, OutOfMemoryError, ShaderError
from .health import Health
from .pipeline import BindGroupCache, Kernel
from .shader import PARAMS_NBYTES
from .storage import Buffer, Storage
from .submission import Bytes, Read, open_submissions

MAX_GROUPS_PER_AXIS = 65535
MAX_RECORDED = 1024
MAX_IN_FLIGHT = 8
# By kind of device, in bytes of the buffers that dispatches refer to, or multiply-adds where a kernel says so. A submit
# of that much takes 0.3 seconds on lavapipe of Mesa 25, 1.3 on that of Mesa 22; a GPU is a hundred times as fast. An
# operating system resets a GPU that is busy for two.
WORK_BUDGET = {"software": 2**30, "hardware": 2**32, "host": 2**30}
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


class Recorder:
    """What the recorders of both kinds of device have; counts dispatches, flushes and downloads.

    ``max_recorded`` dispatches at most wait for a flush, as does work of at most ``work_budget``; ``max_in_flight``
    submits at most are under way; a wait lasts at most ``timeout`` seconds, None for ever. ``configure`` changes them.
    """

    def __init__(self, pool: BufferPool, kind: str) -> None:
        self._pool = pool
        self._fault_sources: list[str] = []
        self.dispatches = 0
        self.flushes = 0
        self.downloads = 0
        self.max_recorded = MAX_RECORDED
        self.max_in_flight = MAX_IN_FLIGHT
        self.work_budget = WORK_BUDGET[kind]
        self.timeout: float | None = None

    def configure(self, **settings: float | None) -> None:
        """Change ``max_recorded`` (1 to 1024), ``max_in_flight``, ``work_budget`` (1 or more) or ``timeout``."""
        for name, value in settings.items():
            if name not in ("max_recorded", "max_in_flight", "work_budget", "timeout"):
                raise TypeError(f"configure: no setting {name}")
            most = MAX_RECORDED if name == "max_recorded" else 2**63
            if name == "timeout":
                if value is not None and not value > 0:
                    raise ValueError(f"configure: timeout is a number of seconds or None, not {value}")
            elif not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"configure: {name} is a whole number from 1 to {most}, not {value}")
        for name, value in settings.items():
            setattr(self, name, value)

    @property
    def submits_in_flight(self) -> int:
        """Submits that are not known to be done."""
        return 0

    def record(self, kernel: Kernel, groups: int, work: int = 0, /, **arguments: Any) -> None:
        """Note one dispatch of ``groups`` workgroups. ``arguments``: arrays and Params by the names in the shader.

        ``work``: multiply-adds, for a kernel that does many more than it reads bytes. Nothing is noted for 0 groups.
        ShaderError if a name is missing or unknown, or an array that the kernel writes is bound twice;
        ReleasedBufferError if a buffer is gone; DeviceError on the host, which runs no kernels.
        """
        raise NotImplementedError

    def record_over(self, kernel: Kernel, count: int, /, **arguments: Any) -> None:
        """``record`` with one invocation for each of ``count`` items."""
        self.record(kernel, -(-count // kernel.invocations), **arguments)

    def record_parts(self, kernel: Kernel, groups: int, work: int, /, **arguments: Any) -> None:
        """``record`` in as many dispatches as the work budget asks for. The kernel's Params have ``first_group``."""
        each = max(groups * self.work_budget // work, 1) if work > self.work_budget else groups
        for first in range(0, groups, each or 1):
            count = min(each, groups - first)
            self.record(kernel, count, work * count // groups, first_group=first, **arguments)

    def upload(self, storage: Storage, data: Bytes) -> None:
        """Write ``data`` to the start of the storage, after the work recorded so far."""
        raise NotImplementedError

    def download(self, storage: Storage, nbytes: int) -> Bytes:
        """A copy of the first ``nbytes``, after the work recorded so far. The storage and where it lives stay the same.

        IndexError if a kernel met an index out of range since the last download.
        """
        return self.start_download(storage, nbytes).content()

    def start_download(self, storage: Storage, nbytes: int) -> Download:
        """``download`` without the wait. The bytes are those of now, whatever is recorded later."""
        raise NotImplementedError

    def flush(self) -> None:
        """Submit what is recorded. Does not wait for it, unless too many submits are in flight."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Submit what is recorded and wait until all of it is done."""
        self.flush()

    def fault_number(self, source: str) -> int:
        """The number by which a kernel names ``source``, its op, in the fault word."""
        if source not in self._fault_sources:
            self._fault_sources.append(source)
        return self._fault_sources.index(source) + 1


class Download:
    """Bytes on their way to the host."""

    def __init__(self, wait: Callable[[], Bytes], is_done: Callable[[], bool]) -> None:
        self._wait = wait
        self._is_done = is_done
        self._outcome: Bytes | Exception | None = None

    @property
    def done(self) -> bool:
        """Whether ``content`` returns at once."""
        return self._outcome is not None or self._is_done()

    def content(self) -> Bytes:
        """The bytes, or what went wrong; waits the first time. After Ctrl-C or TimeoutError it may be called again."""
        if self._outcome is None:
            try:
                self._outcome = self._wait()
            except TimeoutError:
                raise
            except Exception as error:
                self._outcome = error
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


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
        self._arena = bytearray(MAX_RECORDED * PARAMS_NBYTES)
        self._uniforms = gpu.create_buffer(
            label="params arena", size=len(self._arena), usage=usage.UNIFORM | usage.COPY_DST
        )
        fault = gpu.create_buffer(label="fault word", size=16, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        self._fault = Buffer(fault, 16, -1)
        self._fault_raised_at = 0
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
        pool = self._pool
        buffers: list[Buffer] = []
        key = [kernel.layout_number]
        try:
            if len(arguments) != len(kernel.arguments):
                raise KeyError
            for name in kernel.storage_names:
                if name == "fault":
                    buffer = self._fault
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
        commands = self._commands
        self._work += work
        if commands and (len(commands) >= self.max_recorded or self._work > self.work_budget):
            self.flush()
            commands = self._commands
            self._work = work
        x, y = (groups, 1) if groups <= self.max_groups_per_axis else fold(groups, self.max_groups_per_axis)
        offset = len(commands) * PARAMS_NBYTES
        try:
            kernel.packing.pack_into(self._arena, offset, *numbers)
        except struct.error as error:
            raise ShaderError(kernel.label, f"these Params do not fit: {error}") from None
        group = self.bind_groups.get(tuple(key))
        if group is None:
            with self._health.watch():
                group = self.bind_groups.create(kernel, buffers, self._uniforms)
        epoch = pool.epoch
        for buffer in buffers:
            buffer.recorded_in = epoch
        pool.has_pending = True
        commands.append((kernel, group, offset, x, y))
        self.dispatches += 1

    def upload(self, storage: Storage, data: Bytes) -> None:
        storage.check()
        # The queue would write before commands that are not submitted yet.
        if self._pool.has_pending and storage.buffer.recorded_in == self._pool.epoch:
            self.flush()
        if data.nbytes:
            with self._health.watch():
                self._gpu.queue.write_buffer(storage.buffer.memory, 0, data)
            self._work += data.nbytes
            if self._work > self.work_budget:
                self._submit([])  # wgpu keeps what is written until a submit

    def start_download(self, storage: Storage, nbytes: int) -> Download:
        storage.check()
        self.downloads += 1
        staging = self._take_staging(nbytes + 16)
        copies = [(self._fault.memory, 0, 16)] + [(storage.buffer.memory, 16, nbytes)] * bool(nbytes)
        self._submit([(source, staging, at, size) for source, at, size in copies])
        with self._health.watch():
            read = self.submissions.read(staging, nbytes + 16)
        return Download(lambda: self._finish_download(read, staging), lambda: bool(self._health.ended) or read.done)

    def flush(self) -> None:
        self._health.check()
        if self._commands:
            self._submit([])

    def synchronize(self) -> None:
        self._submit([])
        with self._health.watch():
            self.submissions.wait(self.submissions.count, self.timeout)

    def _submit(self, copies: list[tuple[Any, Any, int, int]]) -> None:
        """Submit the recorded dispatches, then copies (source, target, offset in the target, bytes).

        What cannot be encoded is dropped with the error that says why. An interruption before the submit drops nothing.
        """
        import wgpu

        with self._health.watch():
            try:
                encoder = self._gpu.create_command_encoder(label=f"flush {self.flushes}")
                self._encode(encoder)
                for source, target, at, nbytes in copies:
                    encoder.copy_buffer_to_buffer(source, 0, target, at, nbytes)
                finished = encoder.finish(label=f"flush {self.flushes}")
            except Exception as error:
                dropped = len(self._commands)
                self._commands, self._work = [], 0
                if not isinstance(error, wgpu.GPUError):
                    raise
                self._health.raise_if_lost(error)
                dispatches = f"{dropped} dispatch{'es' * (dropped != 1)}"
                raise DeviceError(f"flush {self.flushes} was refused, {dispatches} dropped: {error}") from error
            self._commands, self._work = [], 0
            try:
                number = self.submissions.submit(finished)
            finally:
                self.flushes += 1
                self._pool.flushed()
            self.submissions.wait(number - self.max_in_flight, self.timeout)

    def _encode(self, encoder: Any) -> None:
        """The recorded dispatches in one pass, their Params in the arena."""
        commands = self._commands
        if not commands:
            return
        self._gpu.queue.write_buffer(self._uniforms, 0, self._arena, 0, len(commands) * PARAMS_NBYTES)
        compute = encoder.begin_compute_pass(label=f"flush {self.flushes}")
        last = None
        for kernel, group, offset, x, y in commands:
            if kernel is not last:
                compute.set_pipeline(kernel.pipeline)
                last = kernel
            compute.set_bind_group(0, group, (offset,) if kernel.uniform_number is not None else ())
            compute.dispatch_workgroups(x, y)
        compute.end()

    def _take_staging(self, nbytes: int) -> Any:
        import wgpu

        for index, staging in enumerate(self._staging):
            if staging.size >= nbytes:
                return self._staging.pop(index)
        size = max(1 << (nbytes - 1).bit_length(), 4096) if nbytes <= KEPT_STAGING_NBYTES else nbytes
        try:
            return self._gpu.create_buffer(label="staging", size=size, usage=self._staging_usage)
        except wgpu.GPUError as error:
            self._health.raise_if_lost(error)
            raise OutOfMemoryError(f"no memory to read {nbytes} bytes back: {error}") from error

    def _finish_download(self, read: Read, staging: Any) -> Bytes:
        """The content of a read whose first 16 bytes are the fault word. An interrupted wait abandons the staging."""
        with self._health.watch():
            content = read.content(self.timeout)
        if staging.size <= KEPT_STAGING_NBYTES and len(self._staging) < KEPT_STAGING:
            self._staging.append(staging)
        else:
            staging.destroy()
        fault = content[:16].view(np.uint32)
        if fault[0] and read.number > self._fault_raised_at:
            self._fault_raised_at = self.submissions.count  # reads that are under way would tell the same again
            self._gpu.queue.write_buffer(self._fault.memory, 0, bytes(16))
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


class HostRecorder(Recorder):
    """The recorder of the host device: nothing waits, uploads and downloads happen at once."""

    def record(self, kernel: Kernel, groups: int, work: int = 0, /, **arguments: Any) -> None:
        raise DeviceError(f"{kernel.label}: the host device runs numpy twins, not kernels")

    def upload(self, storage: Storage, data: Bytes) -> None:
        storage.check()
        storage.buffer.memory[: data.nbytes] = data

    def start_download(self, storage: Storage, nbytes: int) -> Download:
        storage.check()
        self.downloads += 1
        copy: Bytes = storage.buffer.memory[:nbytes].copy()
        return Download(lambda: copy, lambda: True)

    def flush(self) -> None:
        self._pool.flushed()
