"""What the recorders of both kinds of device have in common, and the recorder of the host.

``Recorder`` is the face that ops see; ``dispatch.GPURecorder`` is the one that waits and submits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .buffer_pool import BufferPool
from .capture import active
from .errors import DeviceError
from .pipeline import Kernel
from .storage import Storage
from .submission import Bytes

MAX_RECORDED = 1024
MAX_IN_FLIGHT = 8
MAX_UPLOADED = 2**26
READS = "it reads elements on the host, and what it does with them could not be repeated"
# By kind of device, in bytes of the buffers that dispatches refer to, or multiply-adds where a kernel says so. A submit
# of that much takes 0.3 seconds on lavapipe of Mesa 25, 1.3 on that of Mesa 22; a GPU is a hundred times as fast. An
# operating system resets a GPU that is busy for two.
WORK_BUDGET = {"software": 2**30, "hardware": 2**32, "host": 2**30}


class Recorder:
    """Notes work for one device; counts dispatches, flushes, downloads and host calls.

    At most ``max_recorded`` dispatches and work of ``work_budget`` wait for a flush, at most ``max_uploaded`` bytes for
    a submit, at most ``max_in_flight`` submits are under way; ``synchronize`` and reads wait ``timeout`` seconds, None
    for ever. ``configure`` changes them.
    """

    def __init__(self, pool: BufferPool, kind: str) -> None:
        self._pool = pool
        self._fault_sources: list[str] = []
        self.dispatches = 0
        self.flushes = 0
        self.downloads = 0
        self.host_calls = 0
        self.max_recorded = MAX_RECORDED
        self.max_in_flight = MAX_IN_FLIGHT
        self.max_uploaded = MAX_UPLOADED
        self.work_budget = WORK_BUDGET[kind]
        self.timeout: float | None = None

    def configure(self, **settings: float | None) -> None:
        """Change ``max_recorded`` (1 to 1024), ``max_in_flight``, ``max_uploaded``, ``work_budget`` (1 or more) or
        ``timeout``, which is looked at between submits."""
        for name, value in settings.items():
            if name not in ("max_recorded", "max_in_flight", "max_uploaded", "work_budget", "timeout"):
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

    def claim(self, storage: Storage) -> None:
        """Call before memory is shared, moved or changed: a capture of this thread pins what it did not make."""
        if active.capture is not None:
            active.capture.claim(self, storage)

    def move(self, storage: Storage) -> None:
        """Give a storage that shares its buffer one of its own, with the same elements, outside any capture."""
        raise NotImplementedError

    def upload(self, storage: Storage, data: Bytes) -> None:
        """Write ``data`` to the start of the storage, after the work recorded so far."""
        raise NotImplementedError

    def download(self, storage: Storage, nbytes: int) -> Bytes:
        """A copy of the first ``nbytes``, after the work recorded so far. The storage and where it lives stay the same.

        IndexError if a kernel met an index out of range since the last download; of several, the first is told.
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
    """Bytes of a storage on their way to the host: a ``submission.Read`` without the fault word, and what came of it.
    ``array.Readback`` makes elements of them.
    """

    def __init__(self, wait: Callable[[], Bytes], is_done: Callable[[], bool]) -> None:
        self._wait = wait
        self._is_done = is_done
        self._outcome: Bytes | Exception | None = None

    @property
    def done(self) -> bool:
        """Whether ``content`` returns at once."""
        return self._outcome is not None or self._is_done()

    def content(self) -> Bytes:
        """The bytes, or what went wrong; waits the first time. After Ctrl-C, TimeoutError or MemoryError call again."""
        if self._outcome is None:
            try:
                self._outcome = self._wait()
            except (TimeoutError, MemoryError):
                raise
            except Exception as error:
                self._outcome = error
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class HostRecorder(Recorder):
    """The recorder of the host device: nothing waits, uploads and downloads happen at once."""

    def record(self, kernel: Kernel, groups: int, work: int = 0, /, **arguments: Any) -> None:
        raise DeviceError(f"{kernel.label}: the host device runs numpy twins, not kernels")

    def upload(self, storage: Storage, data: Bytes) -> None:
        self.claim(storage)
        storage.check()
        storage.buffer.memory[: data.nbytes] = data

    def start_download(self, storage: Storage, nbytes: int) -> Download:
        storage.check()
        if active.capture is not None:
            active.capture.abandon(READS)
        self.downloads += 1
        self._pool.flushed()  # nothing waits here; free buffers age by reads
        copy: Bytes = storage.buffer.memory[:nbytes].copy()
        return Download(lambda: copy, lambda: True)

    def flush(self) -> None:
        self._pool.flushed()
