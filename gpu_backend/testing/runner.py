"""Dispatches of shaders under test, on a WebGPU device of their own, apart from that of ``gpu_backend``.

Buffers live as long as one call; compiled pipelines as long as the device. A device that is lost is replaced.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..adapter import Adapter, choose, install_hint, open_gpu, timestamp_period
from ..errors import DeviceError, DeviceLostError, ShaderError
from ..shader import ERROR_LINE
from ..syntax.module import Binding, Number
from .source import Source

T = TypeVar("T")
Memory = npt.NDArray[np.uint8]

KEPT_PIPELINES = 512


@dataclass(frozen=True)
class Program:
    """An entry point ready to run: its pipeline, and the layouts of its bind groups by group number."""

    pipeline: Any
    groups: tuple[Any, ...]


class Runner:
    """One adapter with the device on which shaders are tested."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.gpu = open_gpu(adapter)
        self.features = frozenset(self.gpu.features)
        self.limits: dict[str, int] = dict(self.gpu.limits)
        self.is_lost = False
        self.seconds = 0.0
        self.queries: tuple[Any, Any] | None = self._create_queries()
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._modules: dict[str, Any] = {}

    def _create_queries(self) -> tuple[Any, Any] | None:
        """Two timestamps and the buffer they are resolved into; None without the feature."""
        if "timestamp-query" not in self.features:
            return None
        import wgpu

        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        return (
            self.gpu.create_query_set(type="timestamp", count=2),
            self.gpu.create_buffer(label="timestamps", size=16, usage=usage),
        )

    def program(
        self, source: Source, entry: str, bindings: Sequence[Binding], overrides: Mapping[str, Number]
    ) -> Program:
        """The compiled entry point with these bindings, from the cache. ShaderError shows the lines around a fault."""
        own = tuple(sorted(overrides.items()))
        key = (source.text.whole, entry, own, tuple((one.group, one.number) for one in bindings))
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= KEPT_PIPELINES:
                self._programs.clear()
                self._modules.clear()
            program = self._programs[key] = self._compile(source, entry, bindings, dict(overrides))
        return program

    def module(self, source: Source) -> Any:
        """The compiled text, from the cache."""
        module = self._modules.get(source.text.whole)
        if module is None:
            module = self._guarded(
                source, lambda: self.gpu.create_shader_module(label=source.label, code=source.text.whole)
            )
            self._modules[source.text.whole] = module
        return module

    def _compile(
        self, source: Source, entry: str, bindings: Sequence[Binding], overrides: dict[str, Number]
    ) -> Program:
        module = self.module(source)
        count = max((binding.group for binding in bindings), default=-1) + 1

        def create() -> Program:
            groups = []
            for number in range(count):
                entries = [
                    {"binding": one.number, "visibility": 4, "buffer": {"type": _buffer_type(one)}}  # 4: compute
                    for one in bindings
                    if one.group == number
                ]
                groups.append(self.gpu.create_bind_group_layout(label=source.label, entries=entries))
            layout = self.gpu.create_pipeline_layout(label=source.label, bind_group_layouts=groups)
            pipeline = self.gpu.create_compute_pipeline(
                label=f"{source.label}.{entry}",
                layout=layout,
                compute={"module": module, "entry_point": entry, "constants": source.module.override_keys(overrides)},
            )
            return Program(pipeline, tuple(groups))

        return self._guarded(source, create)

    def _guarded(self, source: Source, create: Callable[[], T]) -> T:
        import wgpu

        try:
            return create()
        except wgpu.GPUError as error:
            message = str(error).strip()
            self.check_alive(message, error)
            found = ERROR_LINE.search(message)
            raise ShaderError(source.label, message, source.text.excerpt(int(found[1])) if found else "") from error

    def check_alive(self, message: str, error: Exception) -> None:
        """DeviceLostError if an error of wgpu says that the device is gone; the next test gets a new one."""
        if "device is lost" in message.lower() or "device lost" in message.lower():
            self.is_lost = True
            raise DeviceLostError(f"the device {self.adapter.name} was lost; the next call opens a new one") from error

    @contextmanager
    def watch(self, label: str) -> Iterator[None]:
        """Errors of wgpu in the body become DeviceLostError, or a DeviceError that names ``label``."""
        import wgpu

        try:
            yield
        except wgpu.GPUError as error:
            self.check_alive(str(error), error)
            raise DeviceError(f"{label}: {str(error).strip()}") from error

    def is_alive(self) -> bool:
        """Whether the device can still be used."""
        import wgpu

        if not self.is_lost:
            try:
                self.gpu.create_buffer(label="probe", size=16, usage=wgpu.BufferUsage.COPY_DST).destroy()
            except wgpu.GPUError:
                self.is_lost = True
        return not self.is_lost


class Bench:
    """The buffers of one call, and what runs on them. A context manager: the buffers are destroyed at its end."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._buffers: dict[str, Any] = {}
        self._staging: Any = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.runner.is_lost:
            return
        for buffer in [*self._buffers.values(), self._staging]:
            if buffer is not None:
                buffer.destroy()
        self._buffers.clear()

    def create(self, name: str, nbytes: int, *, is_uniform: bool) -> None:
        """A buffer under a name. DeviceError if the adapter grants no binding of that size."""
        import wgpu

        limit = self.runner.limits[
            "max-uniform-buffer-binding-size" if is_uniform else "max-storage-buffer-binding-size"
        ]
        if nbytes > limit:
            raise DeviceError(f"{name}: {nbytes} bytes are more than the {limit} that a binding may have here")
        usage = wgpu.BufferUsage.UNIFORM if is_uniform else wgpu.BufferUsage.STORAGE
        usage |= wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
        with self.runner.watch(name):
            self._buffers[name] = self.runner.gpu.create_buffer(label=name, size=nbytes, usage=usage)

    def size(self, name: str) -> int:
        """The size of a buffer in bytes."""
        return int(self._buffers[name].size)

    def write(self, name: str, content: Memory) -> None:
        """Fill a buffer from its start."""
        if content.size:
            with self.runner.watch(name):
                self.runner.gpu.queue.write_buffer(self._buffers[name], 0, content)

    def dispatch(
        self, program: Program, bindings: Sequence[Binding], groups: tuple[int, int, int], read: Sequence[str]
    ) -> tuple[dict[str, Memory], float | None]:
        """Run once; the content of the buffers named in ``read``, and the seconds on the GPU where they are known."""
        import wgpu

        runner = self.runner
        gpu = runner.gpu
        with runner.watch(str(program.pipeline.label)):
            encoder = gpu.create_command_encoder(label="test")
            queries = runner.queries
            timing: Any = None
            if queries is not None:
                timing = {
                    "query_set": queries[0],
                    "beginning_of_pass_write_index": 0,
                    "end_of_pass_write_index": 1,
                }
            compute = encoder.begin_compute_pass(label="test", timestamp_writes=timing)
            compute.set_pipeline(program.pipeline)
            for number, layout in enumerate(program.groups):
                entries = [
                    {"binding": one.number, "resource": {"buffer": self._buffers[one.name]}}
                    for one in bindings
                    if one.group == number
                ]
                compute.set_bind_group(number, gpu.create_bind_group(layout=layout, entries=entries))
            compute.dispatch_workgroups(*groups)
            compute.end()
            sizes = [self.size(name) for name in read]
            offsets = [16, *(16 + total for total in itertools.accumulate(sizes))]
            staging = self._staging_of(max(offsets[-1], 16))
            if queries is not None:
                encoder.resolve_query_set(queries[0], 0, 2, queries[1], 0)
                encoder.copy_buffer_to_buffer(queries[1], 0, staging, 0, 16)
            for name, offset, size in zip(read, offsets, sizes, strict=False):
                encoder.copy_buffer_to_buffer(self._buffers[name], 0, staging, offset, size)
            start = time.perf_counter()
            gpu.queue.submit([encoder.finish()])
            staging.map_sync(wgpu.MapMode.READ, 0, offsets[-1])
            wall = time.perf_counter() - start
            content = np.frombuffer(staging.read_mapped(0, offsets[-1], copy=True), np.uint8)
            staging.unmap()
        found = {
            name: content[offset : offset + size] for name, offset, size in zip(read, offsets, sizes, strict=False)
        }
        seconds = None if queries is None else self._seconds(content)
        runner.seconds += wall if seconds is None else seconds
        return found, seconds

    def _staging_of(self, nbytes: int) -> Any:
        import wgpu

        if self._staging is None or self._staging.size < nbytes:
            if self._staging is not None:
                self._staging.destroy()
            usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
            self._staging = self.runner.gpu.create_buffer(label="staging", size=nbytes, usage=usage)
        return self._staging

    def _seconds(self, content: Memory) -> float:
        begin, end = content[:16].view(np.uint64).tolist()
        return float(max(end - begin, 0) * timestamp_period(self.runner.gpu) * 1e-9)


def _buffer_type(binding: Binding) -> str:
    if binding.is_uniform:
        return "uniform"
    return "storage" if binding.writable else "read-only-storage"


_runners: dict[tuple[str, str, str], Runner] = {}
_lock = threading.Lock()


def runner_for(adapter: Adapter | str | None = None) -> Runner:
    """The runner of an adapter, opened at its first use and again after a loss.

    None: hardware, else software. A string is what ``gpu_backend.device`` takes. DeviceError if there is none.
    """
    if not isinstance(adapter, Adapter):
        chosen = choose(adapter or "")
        if chosen is None:
            raise DeviceError(f"no GPU adapter here. {install_hint()}")
        adapter = chosen
    with _lock:
        runner = _runners.get(adapter.key)
        if runner is None or not runner.is_alive():
            runner = _runners[adapter.key] = Runner(adapter)
        return runner


def gpu_clock() -> float:
    """Seconds that all dispatches of tests took on GPUs so far; of the wall, on an adapter without timestamps."""
    return sum(runner.seconds for runner in _runners.values())
