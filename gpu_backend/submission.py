"""The way to the queue: numbered submits, waiting for one of them, and content that comes back.

``NativeSubmissions`` calls functions of wgpu-native on the handles of wgpu-py: they wait for one submit while later
ones run. The public API has only a wait for everything, during which nothing can be submitted; ``PublicSubmissions``
makes do with it where the handles are not as expected.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .encoding import NativeEncoding, PublicEncoding
from .errors import DeviceError

Bytes = npt.NDArray[np.uint8]
COPY_DST = 8  # wgpu.BufferUsage.COPY_DST


class Read(Protocol):
    """Bytes on their way from a staging buffer, as they were when the read was started."""

    @property
    def number(self) -> int:
        """The submit after which the bytes are there."""

    @property
    def done(self) -> bool:
        """Whether ``content`` would return at once."""

    def content(self, timeout: float | None) -> Bytes:
        """A copy of the bytes; waits for them, as ``wait`` does. What interrupts the wait does no harm: call again."""

    def take_staging(self) -> Any:
        """The staging buffer, free for other uses: once, after ``content``; None before and afterwards."""


class Submissions:
    """Submits of one device by number, from 1 on."""

    kind = ""
    encoding: PublicEncoding | NativeEncoding

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self.count = 0

    @property
    def in_flight(self) -> int:
        """Submits that are not known to be done."""
        raise NotImplementedError

    def submit(self, commands: Any) -> int:
        """Hand a command buffer that ``encoding`` made to the queue; its number."""
        raise NotImplementedError

    def write(self, target: Any, offset: int, data: Bytes | bytearray, nbytes: int) -> None:
        """Write the first ``nbytes`` of ``data`` into a buffer, before the next submit."""
        raise NotImplementedError

    def wait(self, number: int, timeout: float | None) -> None:
        """Until this submit and all before it are done; TimeoutError after ``timeout`` seconds, None for ever.

        The time is looked at between submits. The public way has no bound.
        """
        raise NotImplementedError

    def read(self, staging: Any, nbytes: int) -> Read:
        """Start to read the first ``nbytes`` of a staging buffer that the last submit writes."""
        raise NotImplementedError


class PublicSubmissions(Submissions):
    """Through the public API of wgpu-py."""

    kind = "public"

    def __init__(self, gpu: Any) -> None:
        import wgpu

        super().__init__(gpu)
        self.encoding = PublicEncoding(gpu)
        usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        self._fence = gpu.create_buffer(label="fence", size=16, usage=usage)
        self._mapping: Any = None
        self._goal = self._done = 0

    @property
    def in_flight(self) -> int:
        return self.count - self._done

    def submit(self, commands: Any) -> int:
        self._gpu.queue.submit([commands])
        self.count += 1
        return self.count

    def write(self, target: Any, offset: int, data: Bytes | bytearray, nbytes: int) -> None:
        self._gpu.queue.write_buffer(target, offset, data, 0, nbytes)

    def wait(self, number: int, timeout: float | None) -> None:
        while number > self._done:
            if self._mapping is None:
                self._goal = self.count
                self._mapping = self._fence.map_async("READ", 0, 16)  # "READ" submits an empty command buffer before
            self._mapping.sync_wait()
            self._mapping = None
            self._fence.unmap()
            self._done = self._goal

    def read(self, staging: Any, nbytes: int) -> Read:
        return _PublicRead(self, staging, nbytes)


class _PublicRead:
    def __init__(self, submissions: PublicSubmissions, staging: Any, nbytes: int) -> None:
        self._submissions = submissions
        self._staging = staging
        self._nbytes = nbytes
        self._mapping: Any = None
        self._copy: Bytes | None = None
        self._free: Any = None
        self.number = submissions.count

    @property
    def done(self) -> bool:
        self._submissions.wait(self.number, None)  # there is no other way to know
        return True

    def content(self, timeout: float | None) -> Bytes:
        if self._copy is None:
            # Mapped as late as this: from map_async until it is done, wgpu-py's poll thread keeps every submit waiting.
            self._mapping = self._mapping or self._staging.map_async("READ_NOSYNC", 0, self._nbytes)
            self._mapping.sync_wait()
            self._copy = np.frombuffer(self._staging.read_mapped(0, self._nbytes, copy=False), np.uint8).copy()
            self._staging.unmap()
            self._free = self._staging
        return self._copy

    def take_staging(self) -> Any:
        staging, self._free = self._free, None
        return staging


class NativeSubmissions(Submissions):
    """Through wgpu-native's functions on wgpu-py's handles. ImportError or AttributeError where those differ."""

    kind = "native"

    def __init__(self, gpu: Any) -> None:
        super().__init__(gpu)
        from wgpu.backends.wgpu_native import ffi, lib
        from wgpu.backends.wgpu_native._api import libf  # the same functions, raising what the device reports

        self._ffi, self._lib, self._calls = ffi, lib, libf
        self._device, self._queue = gpu._internal, gpu.queue._internal
        self.encoding: NativeEncoding = NativeEncoding(gpu)
        self._submit = libf.wgpuQueueSubmitForIndex
        self._write = libf.wgpuQueueWriteBuffer
        self._waiting: deque[tuple[int, Any]] = deque()
        self._probe = gpu.create_buffer(label="probe", size=16, usage=COPY_DST)
        _mapped_callback(ffi)

    @property
    def in_flight(self) -> int:
        if self._waiting and self.poll(False):
            self._waiting.clear()
        return len(self._waiting)

    def submit(self, commands: Any) -> int:
        try:
            index = self._submit(self._queue, 1, self._ffi.new("WGPUCommandBuffer[]", [commands]))
        finally:
            self.encoding.release(commands)
        self.count += 1
        self._waiting.append((self.count, self._ffi.new("WGPUSubmissionIndex *", index)))
        return self.count

    def write(self, target: Any, offset: int, data: Bytes | bytearray, nbytes: int) -> None:
        self._write(self._queue, target._internal, offset, self._ffi.from_buffer(data), nbytes)

    def wait(self, number: int, timeout: float | None) -> None:
        # One submit after the other: between two of them Python sees a Ctrl-C.
        start = time.monotonic()
        while self._waiting and self._waiting[0][0] <= number:
            if timeout is not None and time.monotonic() - start > timeout:
                raise TimeoutError(f"the device was not done after {timeout} seconds; its work goes on")
            self.poll(True, self._waiting[0][1])
            self._waiting.popleft()

    def poll(self, wait: bool, index: Any = None) -> bool:
        """Let reads finish, ``wait`` for a submit by its native index first; whether the queue is empty."""
        empty = self._calls.wgpuDevicePoll(self._device, wait, self._ffi.NULL if index is None else index)
        if _interruptions:
            raise _interruptions.pop()
        return bool(empty & 0xFF)  # a C bool: one byte of the word

    def read(self, staging: Any, nbytes: int) -> Read:
        return _NativeRead(self, staging, nbytes)

    def check_alive(self) -> None:
        """GPUError if the device is lost: by a write of nothing, 2 us."""
        self._calls.wgpuQueueWriteBuffer(self._queue, self._probe._internal, 0, self._ffi.NULL, 0)


class _NativeRead:
    def __init__(self, submissions: NativeSubmissions, staging: Any, nbytes: int) -> None:
        ffi, lib = submissions._ffi, submissions._lib
        self._submissions = submissions
        self._staging = staging
        self._nbytes = nbytes
        self._tag = next(_tags)
        self._copy: Bytes | None = None
        self._free: Any = None
        self.number = submissions.count
        _statuses[self._tag] = None
        info = ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = lib.WGPUCallbackMode_AllowProcessEvents
        info.callback = _mapped_callback(ffi)
        info.userdata1 = ffi.cast("void *", self._tag)
        submissions._calls.wgpuBufferMapAsync(staging._internal, lib.WGPUMapMode_Read, 0, nbytes, info[0])

    @property
    def done(self) -> bool:
        if _statuses[self._tag] is None:
            self._submissions.poll(False)
        return _statuses[self._tag] is not None

    def content(self, timeout: float | None) -> Bytes:
        if self._copy is not None:
            return self._copy
        ffi, calls = self._submissions._ffi, self._submissions._calls
        self._submissions.wait(self.number, timeout)
        if not self.done or _statuses[self._tag] != self._submissions._lib.WGPUMapAsyncStatus_Success:
            raise DeviceError(f"{self._nbytes} bytes did not come back from the device (status {_statuses[self._tag]})")
        self._submissions.check_alive()  # to touch what was mapped on a device that is gone aborts the process
        handle = self._staging._internal
        start = calls.wgpuBufferGetConstMappedRange(handle, 0, self._nbytes)
        self._copy = np.frombuffer(ffi.buffer(start, self._nbytes), np.uint8).copy()
        calls.wgpuBufferUnmap(handle)
        self._free = self._staging
        return self._copy

    def take_staging(self) -> Any:
        staging, self._free = self._free, None
        return staging

    def __del__(self) -> None:
        _statuses.pop(self._tag, None)


# One callback for every read of the process, kept for its whole life: a buffer that is dropped calls back late.
_tags = itertools.count(1)
_statuses: dict[int, int | None] = {}
_interruptions: list[BaseException] = []
_callback: Any = None


def _mapped_callback(ffi: Any) -> Any:
    global _callback
    if _callback is None:

        def note(status: int, tag: Any) -> None:
            number = int(ffi.cast("intptr_t", tag))
            if number in _statuses:
                _statuses[number] = status

        def mapped(status: int, message: Any, tag: Any, unused: Any) -> None:
            note(status, tag)

        def interrupted(kind: Any, error: BaseException, trace: Any) -> None:
            # A Ctrl-C during the wait comes up in the first Python that runs after it, which is ``mapped``.
            arguments = trace.tb_frame.f_locals
            note(arguments["status"], arguments["tag"])
            _interruptions.append(error)

        signature = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"
        _callback = ffi.callback(signature, mapped, onerror=interrupted)
    return _callback


def open_submissions(gpu: Any) -> Submissions:
    """The better of the two ways that works here."""
    try:
        return NativeSubmissions(gpu)
    except (ImportError, AttributeError):
        return PublicSubmissions(gpu)
