"""The tape: one entry per differentiable op that ran, and the walk back over them.

There is no list. Each entry knows the entries its inputs came from, so a forward that is never followed by a backward
frees itself, and an op recorded after the loss is not reached.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from gpu_backend import Array, Op, ops
from gpu_backend.spec import Shape

from .errors import GradientError
from .trace import tracing


def next_serial() -> int:
    """The serial number that the next entry would have; entries have larger ones afterwards."""
    return next(_serials)


class Leaf(Protocol):
    """Where gradients end: a tensor that asked for one."""

    def prepare_gradient(self, gradient: Array, exclusive: bool) -> Array:
        """``gradient`` as the leaf will take it: a copy if its memory cannot be the leaf's own. Changes nothing."""

    def receive_gradient(self, gradient: Array) -> None:
        """Take what was prepared."""


class Entry:
    """One op that ran: its inputs' places on the tape, what it saved, and its serial number."""

    __slots__ = ("needs", "nodes", "op", "saved", "serial", "shapes", "versions")

    def __init__(
        self, op: Op, nodes: Sequence[Entry | Leaf | None], shapes: Sequence[Shape | None], saved: Any
    ) -> None:
        self.op = op
        self.nodes = nodes
        self.shapes = shapes
        self.needs = [node is not None for node in nodes]
        self.saved = saved
        self.versions = [item.storage.version for item in saved if isinstance(item, Array)]
        self.serial = next(_serials)

    def check(self) -> None:
        """GradientError if the entry was freed, or if an array it saved was changed in place; ReleasedBufferError if
        one was released."""
        if self.saved is None:
            raise GradientError(
                f"{self.op.name}: this part of the graph was freed by an earlier backward, done or failed; "
                "pass retain_graph=True to the first one to go through it twice"
            )
        arrays = (item for item in self.saved if isinstance(item, Array))
        for array, version in zip(arrays, self.versions, strict=True):
            array.storage.check()
            if array.storage.version != version:
                raise GradientError(
                    f"{self.op.name}: an array of shape {array.shape} that its gradient needs was modified in place "
                    f"after the op ran ({array.storage.version - version} times)"
                )

    def free(self) -> None:
        """Give back what was saved and forget where the inputs came from."""
        self.saved = None
        self.nodes = ()

    def __lt__(self, other: Entry) -> bool:
        return self.serial > other.serial


_serials = itertools.count()
_state = threading.local()


def is_grad_enabled() -> bool:
    """Whether ops of this thread go on the tape."""
    return getattr(_state, "enabled", True)


@contextmanager
def grad_enabled(enabled: bool) -> Iterator[None]:
    """Turn recording on or off for the body of a ``with``, in this thread; also a decorator."""
    before = is_grad_enabled()
    _state.enabled = enabled
    try:
        yield
    finally:
        _state.enabled = before


def no_grad() -> Any:
    """Ops in the body of this ``with`` are not recorded; also a decorator."""
    return grad_enabled(False)


def walk(root: Entry, gradient: Array, retain_graph: bool) -> None:
    """Carry ``gradient`` of the result of ``root`` back to every leaf it depends on.

    Entries come by falling serial number, so all that use a result are done before the op that made it. Leaves receive
    their sums at the end: an error on the way changes no gradient.
    """
    _check_reachable(root)
    pending: dict[Entry, Array] = {root: gradient}
    leaves: dict[Leaf, Array] = {}
    waiting = [root]
    while waiting:
        entry = heapq.heappop(waiting)
        made = entry.op.run_backward(pending.pop(entry), entry.saved, entry.needs)
        for node, shape, dx in zip(entry.nodes, entry.shapes, made, strict=True):
            if node is None:
                continue
            if dx is None or dx.shape != shape:
                got = "none" if dx is None else f"shape {dx.shape}"
                raise GradientError(f"{entry.op.name}: its backward gave {got} for an input of shape {shape}")
            if isinstance(node, Entry):
                if node not in pending:
                    heapq.heappush(waiting, node)
                pending[node] = ops.add(pending[node], dx) if node in pending else dx
            else:
                leaves[node] = ops.add(leaves[node], dx) if node in leaves else dx
        if not retain_graph:
            entry.free()
    deliver(leaves, gradient)


def _check_reachable(root: Entry) -> None:
    """Check every entry that the walk will meet, before it changes anything."""
    seen = {root}
    waiting = [root]
    trace = tracing()
    while waiting:
        entry = waiting.pop()
        entry.check()
        if trace is not None and entry.serial < trace.first_entry:
            trace.abandon("it goes back through a graph that was made before, whose checks a replay would not repeat")
            trace = None
        for node in entry.nodes:
            if isinstance(node, Entry) and node not in seen:
                seen.add(node)
                waiting.append(node)


def deliver(leaves: dict[Leaf, Array], given: Array) -> None:
    """Hand each leaf its gradient; only the first of several that share memory, or share it with ``given``, owns it."""
    taken = {id(given.storage)}
    prepared = []
    for leaf, gradient in leaves.items():  # all of them before the first is taken: memory may run out
        prepared.append((leaf, leaf.prepare_gradient(gradient, exclusive=id(gradient.storage) not in taken)))
        taken.add(id(gradient.storage))
    for leaf, gradient in prepared:
        leaf.receive_gradient(gradient)
