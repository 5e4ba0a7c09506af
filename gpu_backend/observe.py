"""What a profiler hangs itself on: ops and host calls tell the observer of the process, if there is one, how long they
took.
"""

from __future__ import annotations

from typing import Any, Protocol


class Observer(Protocol):
    """Who is told. Times are those of ``time.perf_counter``."""

    def op(self, name: str, device: Any, start: float) -> None:
        """An op of this name began at ``start`` and has just ended, on this thread."""

    def host_call(self, name: str, device: Any, start: float, nbytes: int) -> None:
        """numpy computed ``name`` in the middle of work on a device; ``nbytes`` went back and forth."""


class Observed:
    """Holds the observer."""

    __slots__ = ("by",)

    def __init__(self) -> None:
        self.by: Observer | None = None


observed = Observed()
