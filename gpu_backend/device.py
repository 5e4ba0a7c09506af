"""A device: one adapter with its pool, kernels and recorder; or the host, where numpy computes.

The same adapter is reached by one device object, until ``reset_device``. ``GPU_BACKEND_DEVICE`` chooses the default.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, overload

import numpy as np

from . import adapter as adapters_module
from .adapter import Adapter, choose, install_hint, open_gpu
from .buffer_pool import BufferPool
from .dispatch import GPURecorder
from .errors import DeviceError, DeviceLostError, OutOfMemoryError
from .health import REMEDY, Health
from .pipeline import Constants, Kernel, PipelineCache
from .recorder import HostRecorder, Recorder
from .spec import DType, float32

HOST_LARGEST_BUFFER = 2**40
LARGEST_INDEXED = 2**33  # bytes: kernels count elements in u32, with room to round up
MATMUL_KERNELS = ("blocked", "tiled")


class Device:
    """What both kinds of device have.

    ``name`` and ``kind`` (``"hardware"``, ``"software"``, ``"host"``) tell what it is; ``pool`` holds its buffers,
    ``recorder`` its pending work, ``lock`` is held for a whole op, so that threads may share a device. ``constants``
    are small arrays that live as long as it does.
    """

    name: str
    kind: str
    pool: BufferPool
    recorder: Recorder
    is_host = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.health = Health()
        self.constants: dict[str, Any] = {}
        self._matmul_kernel = "blocked"

    @property
    def matmul_kernel(self) -> str:
        """Which kernel multiplies matrices: "tiled", through workgroup memory, which is for hardware and the choice
        there, or "blocked", through registers alone. ValueError for another."""
        return self._matmul_kernel

    @matmul_kernel.setter
    def matmul_kernel(self, kind: str) -> None:
        if kind not in MATMUL_KERNELS:
            raise ValueError(f"matmul_kernel: there is no {kind!r}; there are {' and '.join(MATMUL_KERNELS)}")
        self._matmul_kernel = kind

    @property
    def summary(self) -> str:
        """One line: name, driver, backend, kind."""
        raise NotImplementedError

    def kernel(self, file: str, entry: str, prelude: str = "", constants: Constants = (), label: str = "") -> Kernel:
        """The compiled kernel of an entry point of ``wgsl/<file>.wgsl``; DeviceError on the host, which runs none."""
        raise DeviceError(f"{label or file}: the host device runs numpy twins, not kernels")

    def storage_dtype(self, dtype: DType) -> np.dtype[np.generic]:
        """The numpy type of an element inside a buffer."""
        return dtype.storage

    def __repr__(self) -> str:
        return f"<Device {self.summary}>"

    def __reduce__(self) -> str:
        raise TypeError("a device cannot be pickled; pass its name and call gpu_backend.device(name)")

    def __deepcopy__(self, memo: dict[int, Any]) -> Device:
        return self


class GPUDevice(Device):
    """A WebGPU device. ``limits`` and ``features`` are those granted, ``adapter`` tells what the adapter has."""

    recorder: GPURecorder

    def __init__(self, adapter: Adapter) -> None:
        super().__init__()
        self.adapter = adapter
        self.name = adapter.name
        self.kind = adapter.kind
        self.matmul_kernel = "tiled" if self.kind == "hardware" else "blocked"
        self.gpu = open_gpu(adapter)
        self.limits: dict[str, int] = dict(self.gpu.limits)
        self.features = frozenset(self.gpu.features)
        self.pool = BufferPool(_GPUAllocator(self.gpu, self.limits, self.health))
        self.pipelines = PipelineCache(self.gpu, self.health)
        self.recorder = GPURecorder(self.gpu, self.pool, self.health, self.kind)
        self.pool.on_destroy = self.recorder.bind_groups.drop
        self.pool.on_pressure = self.recorder.synchronize

    @property
    def summary(self) -> str:
        return self.adapter.summary

    def kernel(self, file: str, entry: str, prelude: str = "", constants: Constants = (), label: str = "") -> Kernel:
        return self.pipelines.kernel(file, entry, prelude, constants, label)

    def destroy(self) -> None:
        """Give the device and all its memory back now. Every later use of it or of its arrays is a DeviceLostError."""
        with self.lock:
            self.health.end(f"the device {self.name} was destroyed, and every array on it. {REMEDY}")
            if not _forked:
                with _quiet_log():
                    self.gpu.destroy()


class HostDevice(Device):
    """The processor: each op is its numpy twin. ``float_type`` float64 turns it into an oracle for float32 results."""

    is_host = True
    kind = "host"

    def __init__(self, float_type: type[np.floating[Any]] = np.float32) -> None:
        super().__init__()
        self.float_type = np.dtype(float_type)
        self.name = "host" if float_type is np.float32 else f"host in {self.float_type.name}"
        self.pool = BufferPool(_HostAllocator())
        self.recorder = HostRecorder(self.pool, self.kind)

    @property
    def summary(self) -> str:
        return f"{self.name}, numpy {np.__version__}"

    def storage_dtype(self, dtype: DType) -> np.dtype[np.generic]:
        return self.float_type if dtype is float32 else dtype.storage


class _GPUAllocator:
    def __init__(self, gpu: Any, limits: dict[str, int], health: Health) -> None:
        import wgpu

        self._gpu = gpu
        self._health = health
        self._usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        self._error = wgpu.GPUError  # wgpu-native reports a lack of memory as a validation error
        largest = min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"], LARGEST_INDEXED)
        self.largest_buffer = largest // 16 * 16

    def create(self, nbytes: int, label: str) -> Any:
        try:
            return self._gpu.create_buffer(label=label, size=nbytes, usage=self._usage)
        except self._error as error:
            self._health.raise_if_lost(error)
            raise OutOfMemoryError(f"no memory for a buffer of {nbytes} bytes: {error}") from error

    def destroy(self, memory: Any) -> None:
        if not self._health.ended:
            memory.destroy()


class _HostAllocator:
    largest_buffer = HOST_LARGEST_BUFFER

    def create(self, nbytes: int, label: str) -> Any:
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError as error:
            raise OutOfMemoryError(f"no memory for a buffer of {nbytes} bytes: {error}") from error

    def destroy(self, memory: Any) -> None:
        """numpy frees it when the last view is gone."""


_lock = threading.RLock()
_devices: dict[tuple[str, str, str], GPUDevice] = {}
_by_request: dict[str, Device] = {}
_host = HostDevice()
_default: Device | None = None
_forked = False
FORKED = (
    "this process was forked from one that had opened a GPU, whose device it cannot use; numpy and the host device "
    "work here, the GPU in a process that multiprocessing starts with 'spawn'"
)


def device(request: str | Device | None = None) -> Device:
    """The device that ``request`` names, or the default one.

    ``"hardware"``, ``"software"``, ``"host"``, or a piece of an adapter's name in any case. Without a request: what
    ``set_default_device`` set, else ``GPU_BACKEND_DEVICE``, else a hardware adapter, else a software adapter, else the
    host with a warning. DeviceError lists what there is.
    """
    global _default
    if isinstance(request, Device):
        return request
    if request is None:
        if _default is None:
            with _lock:
                _default = _default or _open(requested())
        return _default
    key = request.strip().lower()
    found = _by_request.get(key)
    if found is None:
        with _lock:
            found = _by_request[key] = _open(key)
    return found


def set_default_device(request: str | Device) -> Device:
    """Make ``request`` what ``device()`` returns from now on, in every thread."""
    global _default
    _default = device(request)
    return _default


@contextmanager
def default_device(request: str | Device) -> Iterator[Device]:
    """``set_default_device`` for the body of a ``with``."""
    global _default
    before = _default
    try:
        yield set_default_device(request)
    finally:
        _default = _successor(before)


def reset_device(request: str | Device | None = None) -> Device:
    """A fresh device in place of a lost one, or of one that is no longer wanted, which is destroyed.

    What ``request`` names, by default the default device, is from now on the fresh one, on the same adapter. Arrays and
    models of the old one are gone: make them anew. The host has nothing to lose and is returned as it is.
    """
    global _default
    old = device(request)
    if not isinstance(old, GPUDevice):
        return old
    with _lock:
        _forbid_after_fork()
        if _successor(old) is not old:
            return _successor(old)  # someone else has reset it already
        fresh = GPUDevice(next((a for a in adapters() if a.key == old.adapter.key), old.adapter))
        _devices[old.adapter.key] = fresh
        _by_request.update({name: fresh for name, known in _by_request.items() if known is old})
        old.destroy()
        _default = _successor(_default)
    del old
    gc.collect()  # a device and its pool refer to each other, and hold megabytes of the driver's
    return fresh


@overload
def _successor(device: Device) -> Device: ...
@overload
def _successor(device: Device | None) -> Device | None: ...
def _successor(device: Device | None) -> Device | None:
    """The device that stands in for one that was reset; itself otherwise."""
    if isinstance(device, GPUDevice) and device.health.ended:
        return _devices.get(device.adapter.key, device)
    return device


def requested() -> str:
    """What ``GPU_BACKEND_DEVICE`` asks for; empty if it does not say."""
    return os.environ.get("GPU_BACKEND_DEVICE", "").strip()


def opened_devices() -> list[GPUDevice]:
    """The GPU devices that this process has opened and not reset."""
    with _lock:
        return list(_devices.values())


def adapters() -> list[Adapter]:
    """Every usable adapter of this machine, hardware first."""
    return adapters_module.adapters()


def _open(request: str) -> Device:
    if request.lower() == "host":
        return _host
    _forbid_after_fork()
    adapter = choose(request)
    if adapter is None:
        warnings.warn(
            f"no GPU adapter was found, so numpy computes on the host, slowly. {install_hint()}",
            RuntimeWarning,
            stacklevel=3,
        )
        return _host
    with _lock:
        if adapter.key not in _devices:
            _devices[adapter.key] = GPUDevice(adapter)
        return _devices[adapter.key]


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep wgpu-py from logging a loss that was asked for as an error."""
    log = logging.getLogger("wgpu")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _forbid_after_fork() -> None:
    if _forked:
        raise DeviceLostError(FORKED)


def _after_fork() -> None:
    """In a forked child: GPU devices are gone, and never touched again, since a driver's threads are not there; locks
    that another thread held are open.
    """
    global _forked, _lock
    _lock = threading.RLock()
    _host.lock = threading.RLock()
    for device in _devices.values():
        _forked = True
        device.lock = threading.RLock()
        device.health.end(FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def same_device(op: str, one: Device, other: Device) -> None:
    """DeviceError if two operands of ``op`` live on different devices."""
    if one is not other:
        raise DeviceError(f"{op}: operands are on two devices, {one.name} and {other.name}; move one with to()")
