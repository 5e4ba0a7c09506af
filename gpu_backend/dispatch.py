"""The recorder: dispatches are noted, and go to the queue together, in one pass and one submit.

Recording costs a few microseconds; encoding and submitting happen at a flush, by a read-back or the cap.
Params of all recorded dispatches lie in one uniform arena, each in a slot of its own, reached by dynamic offsets.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from .buffer_pool import Buffer, BufferPool, Storage
from .errors import DeviceError, OutOfMemoryError, ShaderError
from .pipeline import BindGroupCache, Kernel
from .shader import PARAMS_NBYTES

MAX_GROUPS_PER_AXIS = 65535
MAX_RECORDED = 1024
KEPT_STAGING_NBYTES = 2**22

Bytes = npt.NDArray[np.uint8]


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
    """What the recorders of both kinds of device have; counts dispatches, flushes and downloads."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._fault_sources: list[str] = []
        self.dispatches = 0
        self.flushes = 0
        self.downloads = 0

    def record(self, kernel: Kernel, groups: int, /, **arguments: Any) -> None:
        """Note one dispatch of ``groups`` workgroups. ``arguments``: arrays and Params by the names in the shader.

        Nothing is noted for 0 groups. ShaderError if a name is missing or unknown, or an array that the kernel writes
        is bound twice; ReleasedBufferError if a buffer is gone; DeviceError on the host, which runs no kernels.
        """
        raise NotImplementedError

    def record_over(self, kernel: Kernel, count: int, /, **arguments: Any) -> None:
        """``record`` with one invocation for each of ``count`` items."""
        self.record(kernel, -(-count // kernel.invocations), **arguments)

    def upload(self, storage: Storage, data: Bytes) -> None:
        """Write ``data`` to the start of the storage, after the work recorded so far."""
        raise NotImplementedError

    def download(self, storage: Storage, nbytes: int) -> Bytes:
        """A copy of the first ``nbytes``, after the work recorded so far. The storage and where it lives stay the same.

        IndexError if a kernel met an index out of range since the last download.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Submit what is recorded. Does not wait for it."""
        raise NotImplementedError

    def fault_number(self, source: str) -> int:
        """The number by which a kernel names ``source``, its op, in the fault word."""
        if source not in self._fault_sources:
            self._fault_sources.append(source)
        return self._fault_sources.index(source) + 1


class GPURecorder(Recorder):
    """Records dispatches for one WebGPU device, in order, and submits them. Callers hold the device's lock."""

    def __init__(self, gpu: Any, pool: BufferPool) -> None:
        import wgpu

        super().__init__(pool)
        usage = wgpu.BufferUsage
        self._gpu = gpu
        self._commands: list[tuple[Kernel, Any, int, int, int]] = []
        self._arena = bytearray(MAX_RECORDED * PARAMS_NBYTES)
        self._uniforms = gpu.create_buffer(
            label="params arena", size=len(self._arena), usage=usage.UNIFORM | usage.COPY_DST
        )
        fault = gpu.create_buffer(label="fault word", size=16, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        self._fault = Buffer(fault, 16, -1)
        self._staging: Any = None
        self._staging_usage = usage.MAP_READ | usage.COPY_DST
        self.bind_groups = BindGroupCache(gpu)
        self.max_groups_per_axis = MAX_GROUPS_PER_AXIS
        self.max_recorded = MAX_RECORDED

    def record(self, kernel: Kernel, groups: int, /, **arguments: Any) -> None:
        # The hot path of the whole library: every line here runs once per dispatch.
        commands = self._commands
        if len(commands) >= self.max_recorded:
            self.flush()
            commands = self._commands
        pool = self._pool
        epoch = pool.epoch
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
                        storage.check(arguments[name].shape)
                    if storage.pool is not pool:
                        raise DeviceError(f"{kernel.label}: {name} is on another device; move it with to()")
                buffers.append(buffer)
                key.append(buffer.serial)
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
        offset = len(commands) * PARAMS_NBYTES
        try:
            kernel.packing.pack_into(self._arena, offset, *numbers)
        except struct.error as error:
            raise ShaderError(kernel.label, f"these Params do not fit: {error}") from None
        group = self.bind_groups.get(tuple(key)) or self.bind_groups.create(kernel, buffers, self._uniforms)
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
            self._gpu.queue.write_buffer(storage.buffer.memory, 0, data)

    def download(self, storage: Storage, nbytes: int) -> Bytes:
        storage.check()
        self.downloads += 1
        staging = self._staging_buffer(nbytes + 16)
        copies = [(self._fault.memory, 0, 16)] + [(storage.buffer.memory, 16, nbytes)] * bool(nbytes)
        self._submit([(source, staging, at, size) for source, at, size in copies])
        try:
            # NOSYNC: plain "READ" would submit an empty command buffer first; the copies above were just submitted.
            staging.map_async("READ_NOSYNC", 0, nbytes + 16).sync_wait()
            content = np.frombuffer(staging.read_mapped(0, nbytes + 16, copy=False), np.uint8).copy()
            staging.unmap()
        except BaseException:  # an interrupted wait leaves the buffer waiting to be mapped: the next read gets another
            self._staging = None
            raise
        if staging.size > KEPT_STAGING_NBYTES:
            staging.destroy()
            self._staging = None
        self._raise_fault(content[:16].view(np.uint32))
        return content[16:]

    def flush(self) -> None:
        if self._commands:
            self._submit([])

    def _submit(self, copies: list[tuple[Any, Any, int, int]]) -> None:
        """Submit the recorded dispatches, then copies (source, target, offset in the target, bytes).

        What cannot be encoded is dropped with the error that says why. An interruption before the submit drops nothing.
        """
        try:
            encoder = self._gpu.create_command_encoder(label=f"flush {self.flushes}")
            self._encode(encoder)
            for source, target, at, nbytes in copies:
                encoder.copy_buffer_to_buffer(source, 0, target, at, nbytes)
            finished = encoder.finish(label=f"flush {self.flushes}")
        except Exception:
            self._commands = []
            raise
        self._commands = []
        try:
            self._gpu.queue.submit([finished])
        finally:
            self.flushes += 1
            self._pool.flushed()

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

    def _staging_buffer(self, nbytes: int) -> Any:
        import wgpu

        if self._staging is None or self._staging.size < nbytes:
            old, self._staging = self._staging, None
            if old is not None:
                old.destroy()
            size = max(1 << (nbytes - 1).bit_length(), 4096) if nbytes <= KEPT_STAGING_NBYTES else nbytes
            try:
                self._staging = self._gpu.create_buffer(label="staging", size=size, usage=self._staging_usage)
            except wgpu.GPUError as error:
                raise OutOfMemoryError(f"no memory to read {nbytes} bytes back: {error}") from error
        return self._staging

    def _raise_fault(self, fault: npt.NDArray[np.uint32]) -> None:
        if fault[0]:
            self._gpu.queue.write_buffer(self._fault.memory, 0, bytes(16))
            source = self._fault_sources[int(fault[0]) - 1]
            index, extent = int(fault[1].astype(np.int32)), int(fault[2])
            raise IndexError(f"{source}: index {index} is out of range for {extent}")

    @staticmethod
    def _check_aliases(kernel: Kernel, buffers: list[Buffer]) -> None:
        for position, buffer in enumerate(buffers):
            if kernel.writable[position] and buffers.count(buffer) > 1:
                name = kernel.storage_names[position]
                raise ShaderError(kernel.label, f"{name} is written and bound a second time; it needs its own buffer")


class HostRecorder(Recorder):
    """The recorder of the host device: nothing waits, uploads and downloads happen at once."""

    def record(self, kernel: Kernel, groups: int, /, **arguments: Any) -> None:
        raise DeviceError(f"{kernel.label}: the host device runs numpy twins, not kernels")

    def upload(self, storage: Storage, data: Bytes) -> None:
        storage.check()
        storage.buffer.memory[: data.nbytes] = data

    def download(self, storage: Storage, nbytes: int) -> Bytes:
        storage.check()
        self.downloads += 1
        copy: Bytes = storage.buffer.memory[:nbytes].copy()
        return copy

    def flush(self) -> None:
        self._pool.flushed()
