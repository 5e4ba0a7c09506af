"""Where the time of a device goes: GPU time per kernel, host time per op, bytes, memory over time.

    with profile() as p:
        step(x, target)
    print(p.table())
    p.chrome_trace("trace.json")  # for https://ui.perfetto.dev

While a profile runs, each dispatch has a compute pass of its own with a timestamp before and after it, so a program as
a whole is slower than without. Where the adapter has no ``timestamp-query``, each dispatch is submitted and waited for,
and its wall time is told instead, under ``clock`` ``"wall"``: that includes some tenths of a millisecond of waiting.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .adapter import timestamp_period
from .device import Device, GPUDevice, device
from .encoding import Part, Pass, PublicEncoding, Transfer
from .errors import DeviceError, DeviceLostError
from .observe import observed
from .pipeline import bound_nbytes
from .submission import Submissions

KEPT_EVENTS = 200_000
KEPT_SUBMITS = 32
QUERIES = 4096  # the most that a query set of WebGPU holds


@dataclass
class Times:
    """What calls of one kernel, op or host call came to: how many, seconds in all, bytes of the buffers they bound."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    nbytes: int = 0

    def add(self, seconds: float, nbytes: int) -> None:
        """One more call."""
        self.calls += 1
        self.seconds += seconds
        self.nbytes += nbytes


@dataclass(frozen=True)
class Event:
    """One bar of the trace: ``track`` is ``"GPU"`` or a thread; seconds since the profile began."""

    track: str
    name: str
    start: float
    seconds: float
    nbytes: int = 0


@dataclass(frozen=True)
class MemorySample:
    """Bytes of the pool at a submit; seconds since the profile began."""

    time: float
    in_use_bytes: int
    reserved_bytes: int


@dataclass
class _Submit:
    """Timestamps on their way to the host, and what they belong to."""

    passes: list[Pass]
    staging: Any
    queries: list[Any]
    encoded_at: float
    calls: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls = sum(len(part.calls) for part in self.passes)


class Profile:
    """What ``profile`` found. Complete when the body of its ``with`` is done.

    ``kernels``, ``ops`` and ``host_calls`` are ``Times`` by name; ``clock`` is ``"gpu"``, ``"wall"``, or ``"none"`` on
    the host; ``memory`` has a sample per submit, ``events`` at most the first 200,000 bars of the trace; ``seconds`` is
    the wall time of the body.
    """

    def __init__(self, target: Device) -> None:
        self.device = target
        self.clock = "none"
        self.kernels: dict[str, Times] = {}
        self.ops: dict[str, Times] = {}
        self.host_calls: dict[str, Times] = {}
        self.memory: list[MemorySample] = []
        self.events: list[Event] = []
        self.seconds = 0.0
        self._start = 0.0
        self._encoding: _ProfilingEncoding | None = None
        self._before: Any = None

    def __enter__(self) -> Profile:
        if observed.by is not None:
            raise DeviceError("a profile is running already; profiles do not nest")
        target = self.device
        with target.lock:
            if isinstance(target, GPUDevice):
                target.recorder.flush()
                submissions = target.recorder.submissions
                self._before = submissions.encoding
                self._encoding = _ProfilingEncoding(target, self, submissions)
                self.clock = "gpu" if self._encoding.has_timestamps else "wall"
                submissions.encoding = self._encoding
            self._start = time.perf_counter()
            observed.by = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        observed.by = None
        target = self.device
        with target.lock:
            try:
                if isinstance(target, GPUDevice) and not target.health.ended:
                    target.recorder.synchronize()
                    if self._encoding is not None:
                        self._encoding.drain()
            except DeviceLostError:
                if error is None:
                    raise
            finally:
                self.seconds = time.perf_counter() - self._start
                if isinstance(target, GPUDevice):
                    target.recorder.submissions.encoding = self._before
                self._encoding = self._before = None

    # what is observed

    def op(self, name: str, device: Device, start: float) -> None:
        """An op has ended; see ``observe``."""
        if device is self.device:
            self._note(self.ops, f"thread {threading.get_ident()}", name, start, time.perf_counter() - start, 0)

    def host_call(self, name: str, device: Device, start: float, nbytes: int) -> None:
        """numpy has computed; see ``observe``."""
        if device is self.device:
            seconds = time.perf_counter() - start
            self._note(
                self.host_calls, f"thread {threading.get_ident()}", f"{name} on the host", start, seconds, nbytes
            )

    def kernel(self, label: str, start: float, seconds: float, nbytes: int) -> None:
        """A dispatch has run from ``start`` on, by the clock of the host."""
        self._note(self.kernels, "GPU", label, start, seconds, nbytes)

    def sample_memory(self) -> None:
        """Note what the pool holds now."""
        stats = self.device.pool.stats()
        now = time.perf_counter() - self._start
        self.memory.append(MemorySample(now, stats.in_use_bytes, stats.reserved_bytes))

    def _note(self, table: dict[str, Times], track: str, name: str, start: float, seconds: float, nbytes: int) -> None:
        table.setdefault(name, Times(name)).add(seconds, nbytes)
        if len(self.events) < KEPT_EVENTS:
            self.events.append(Event(track, name, start - self._start, seconds, nbytes))

    # what is told

    def table(self, rows: int = 20) -> str:
        """Kernels by GPU time, ops by host time, host calls, and memory, as text; at most ``rows`` of each."""
        gpu = sum(times.seconds for times in self.kernels.values())
        called = sum(times.calls for times in self.kernels.values())
        lines = [
            f"{self.device.name}: {self.seconds * 1e3:.1f} ms wall, {called} dispatches, "
            f"{gpu * 1e3:.1f} ms in kernels ({_CLOCKS[self.clock]})"
        ]
        lines += _section(f"kernel ({self.clock} time)", self.kernels, rows, with_bytes=True)
        lines += _section("op (host time)", self.ops, rows, with_bytes=False)
        lines += _section("numpy in between (host time)", self.host_calls, rows, with_bytes=True)
        if self.memory:
            used = max(sample.in_use_bytes for sample in self.memory)
            reserved = max(sample.reserved_bytes for sample in self.memory)
            lines += ["", f"memory at submits: at most {used:,} bytes in use, {reserved:,} reserved"]
        return "\n".join(lines)

    def chrome_trace(self, path: str | Path) -> None:
        """Write the trace as JSON in Chrome's format, which https://ui.perfetto.dev opens."""
        tracks = {
            track: number for number, track in enumerate(dict.fromkeys(["GPU", *(e.track for e in self.events)]), 1)
        }
        records: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": track}}
            for track, number in tracks.items()
        ]
        records.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": self.device.summary}})
        records += [
            {
                "ph": "X",
                "name": event.name,
                "cat": "kernel" if event.track == "GPU" else "op",
                "pid": 1,
                "tid": tracks[event.track],
                "ts": event.start * 1e6,
                "dur": event.seconds * 1e6,
                "args": {"bytes": event.nbytes} if event.nbytes else {},
            }
            for event in self.events
        ]
        records += [
            {
                "ph": "C",
                "name": "memory",
                "pid": 1,
                "ts": sample.time * 1e6,
                "args": {"in use": sample.in_use_bytes, "free": sample.reserved_bytes - sample.in_use_bytes},
            }
            for sample in self.memory
        ]
        content = {"traceEvents": records, "displayTimeUnit": "ms", "otherData": {"clock of kernels": self.clock}}
        Path(path).write_text(json.dumps(content), encoding="utf-8")


def profile(of: str | Device | None = None) -> Profile:
    """A context manager that measures what runs on a device, the default one if none is named.

    DeviceError if a profile is running already. On the host there are ops and no kernels.
    """
    return Profile(device(of))


_CLOCKS = {
    "gpu": "timestamps of the GPU",
    "wall": "wall time of each dispatch, submitted by itself: the adapter has no timestamps",
    "none": "numpy",
}


def _section(title: str, table: dict[str, Times], rows: int, *, with_bytes: bool) -> list[str]:
    if not table:
        return []
    total = sum(times.seconds for times in table.values()) or 1.0
    ranked = sorted(table.values(), key=lambda times: -times.seconds)
    shown = ranked[:rows]
    width = max(len(title), *(len(times.name) for times in shown))
    lines = ["", f"{title:<{width}}  {'calls':>7}  {'total ms':>9}  {'mean us':>9}  {'share':>6}"]
    lines[1] += f"  {'bytes':>15}  {'GB/s':>6}" * with_bytes
    for times in shown:
        line = f"{times.name:<{width}}  {times.calls:>7}  {times.seconds * 1e3:>9.3f}"
        line += f"  {times.seconds / times.calls * 1e6:>9.1f}  {times.seconds / total:>6.1%}"
        if with_bytes:
            speed = times.nbytes / times.seconds / 1e9 if times.seconds else 0.0
            line += f"  {times.nbytes:>15,}  {speed:>6.2f}"
        lines.append(line)
    left = ranked[rows:]
    if left:
        seconds = sum(times.seconds for times in left)
        lines.append(f"{f'and {len(left)} more':<{width}}  {sum(t.calls for t in left):>7}  {seconds * 1e3:>9.3f}")
    return lines


class _ProfilingEncoding(PublicEncoding):
    """A pass per dispatch, with timestamps; or a submit per dispatch, with the time it takes to come back."""

    kind = "profiling"

    def __init__(self, target: GPUDevice, result: Profile, submissions: Submissions) -> None:
        import wgpu

        super().__init__(target.gpu)
        self.has_timestamps = "timestamp-query" in target.features
        self._usage = wgpu.BufferUsage
        self._result = result
        self._is_native = submissions.kind == "native"
        self._usual = submissions.encoding
        self._held: dict[Any, Any] = {}
        self._waiting: list[_Submit] = []
        self._period = timestamp_period(target.gpu) * 1e-9
        if self.has_timestamps:
            self._gpu.create_query_set(type="timestamp", count=2)  # the first takes long: before the clock starts
        self._fence: Any = None

    def encode(self, parts: Sequence[Part], label: str) -> Any:
        self._result.sample_memory()
        if self.has_timestamps:
            if len(self._waiting) >= KEPT_SUBMITS:
                self.drain()
            commands = self._encode_timed(parts, label)
        else:
            commands = self._run_each(parts, label)
        if not self._is_native:
            return commands
        self._held[commands._internal] = commands  # its handle lives as long as it does
        return commands._internal

    def prepare(self, part: Pass) -> None:
        self._usual.prepare(part)  # for what is replayed after the profile

    def release(self, handle: Any) -> None:
        """The submit of what ``encode`` returned is done."""
        self._held.pop(handle, None)

    def _encode_timed(self, parts: Sequence[Part], label: str) -> Any:
        encoder = self._gpu.create_command_encoder(label=label)
        passes = [part for part in parts if isinstance(part, Pass) and part.calls]
        submit = _Submit(passes, None, [], time.perf_counter())
        stamps = 2 * submit.calls
        for first in range(0, stamps, QUERIES):
            count = min(QUERIES, stamps - first)
            submit.queries.append(self._gpu.create_query_set(type="timestamp", count=count))
        number = 0
        for part in parts:
            if isinstance(part, Transfer):
                encoder.copy_buffer_to_buffer(part.source, 0, part.target, part.offset, part.nbytes)
                continue
            for call in part.calls:
                index = 2 * number % QUERIES
                stamp = {
                    "query_set": submit.queries[2 * number // QUERIES],
                    "beginning_of_pass_write_index": index,
                    "end_of_pass_write_index": index + 1,
                }
                self._encode_call(encoder, call, stamp)
                number += 1
        if stamps:
            usage = self._usage
            resolved = self._gpu.create_buffer(size=8 * stamps, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
            submit.staging = self._gpu.create_buffer(size=8 * stamps, usage=usage.MAP_READ | usage.COPY_DST)
            for position, queries in enumerate(submit.queries):
                encoder.resolve_query_set(queries, 0, queries.count, resolved, 8 * QUERIES * position)
            encoder.copy_buffer_to_buffer(resolved, 0, submit.staging, 0, 8 * stamps)
            self._waiting.append(submit)
        return encoder.finish(label=label)

    def _encode_call(self, encoder: Any, call: tuple[Any, ...], stamp: Any) -> None:
        kernel, group, offset, x, y = call
        compute = encoder.begin_compute_pass(label=kernel.label, timestamp_writes=stamp)
        compute.set_pipeline(kernel.pipeline)
        compute.set_bind_group(0, group, () if kernel.uniform_number is None else (offset,))
        compute.dispatch_workgroups(x, y)
        compute.end()

    def drain(self) -> None:
        """Read the timestamps of all submits so far; waits for them."""
        waiting, self._waiting = self._waiting, []
        read = []
        for submit in waiting:
            submit.staging.map_sync("READ")
            stamps = np.frombuffer(submit.staging.read_mapped(copy=True), np.uint64).astype(np.float64) * self._period
            submit.staging.destroy()
            read.append((submit, stamps.reshape(-1, 2)))
        # No dispatch begins before it was encoded: the least shift of the GPU's clock that makes that so.
        shift = max((submit.encoded_at - stamps[0, 0] for submit, stamps in read), default=0.0)
        for submit, stamps in read:
            rows = iter(stamps.tolist())
            for part in submit.passes:
                for index, call in enumerate(part.calls):
                    begin, end = next(rows)
                    self._tell(part, index, call, begin + shift, max(end - begin, 0.0))

    def _tell(self, part: Pass, index: int, call: tuple[Any, ...], start: float, seconds: float) -> None:
        self._result.kernel(call[0].label, start, seconds, bound_nbytes.get(call[1], 0))
        if part.seconds is None:
            part.seconds = [0.0] * len(part.calls)
        part.seconds[index] += seconds
        part.runs += index == 0

    def _run_each(self, parts: Sequence[Part], label: str) -> Any:
        if self._fence is None:
            usage = self._usage
            self._fence = self._gpu.create_buffer(size=16, usage=usage.MAP_READ | usage.COPY_DST)
        for part in parts:
            if isinstance(part, Transfer):
                encoder = self._gpu.create_command_encoder(label=label)
                encoder.copy_buffer_to_buffer(part.source, 0, part.target, part.offset, part.nbytes)
                self._gpu.queue.submit([encoder.finish()])
                continue
            for index, call in enumerate(part.calls):
                encoder = self._gpu.create_command_encoder(label=label)
                self._encode_call(encoder, call, None)
                self._wait()
                start = time.perf_counter()
                self._gpu.queue.submit([encoder.finish()])
                self._wait()
                self._tell(part, index, call, start, time.perf_counter() - start)
        return self._gpu.create_command_encoder(label=label).finish(label=label)

    def _wait(self) -> None:
        self._fence.map_sync("READ")
        self._fence.unmap()
