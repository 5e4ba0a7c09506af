"""Trace: a capture that knows of gradients, modules, optimizers and what the host does between two replays.

Tensors, modules, optimizers, schedules and random numbers tell it what they do, through ``tracing()``. It becomes a
``TracedPlan``: the list, what must hold for a replay to be right, and what the host does around one.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpu_backend import Array, array
from gpu_backend.array import bytes_of
from gpu_backend.capture import Capture, Content, Copy, active, content_of, escaped, paused, pin
from gpu_backend.device import GPUDevice
from gpu_backend.ops import update
from gpu_backend.plan import Arena, Plan, uses
from gpu_backend.storage import Storage

from .freeze import freeze, is_mutable

if TYPE_CHECKING:
    from .nn.module import Module
    from .optim.optimizer import Optimizer
    from .tensor import Tensor

ABSENT = object()
Undo = Callable[[], None]
T = TypeVar("T")


class Mutations:
    """How often an attribute of any module was set: as long as it stands still, no module needs to be looked at."""

    count = 0


def tracing() -> Trace | None:
    """The trace of this thread, if there is one."""
    capture = active.capture
    return capture if isinstance(capture, Trace) else None


def note_gradient(leaf: Tensor, is_read: bool) -> None:
    """``leaf.grad`` is looked at, or else replaced; a trace of this thread wants to know."""
    trace = tracing()
    if trace is not None:
        trace.gradient(leaf, is_read)


def note_module(module: Module) -> None:
    """A module is called; a trace of this thread wants to know."""
    trace = tracing()
    if trace is not None:
        trace.module(module)


def note_attribute(module: Module, name: str) -> None:
    """An attribute of a module is about to be set."""
    Mutations.count += 1
    trace = tracing()
    if trace is not None:
        trace.attribute(module, name)


class Trace(Capture):
    """What a function does while it is captured, above what it records."""

    def __init__(self, device: GPUDevice, strict: bool) -> None:
        super().__init__(device.pool, strict)
        self.device = device
        self.hooks: list[Hook] = []
        self._companions: dict[Callable[[Trace], Any], Any] = {}
        self._gradients: dict[int, GradientNote] = {}
        self._modules: dict[int, Module] = {}
        self._optimizers: dict[int, Optimizer] = {}
        self._attributes: dict[tuple[int, str], tuple[Module, str, Any]] = {}

    # What the function does.

    def gradient(self, leaf: Tensor, is_read: bool) -> None:
        """``leaf.grad`` is looked at, or else replaced."""
        note = self._gradients.get(id(leaf))
        if note is None or note.leaf() is not leaf:
            self._gradients[id(leaf)] = GradientNote(leaf, is_read)

    def module(self, module: Module) -> None:
        """A module is called."""
        self._modules[id(module)] = module

    def attribute(self, module: Module, name: str) -> None:
        """An attribute of a module is about to be set."""
        if (id(module), name) not in self._attributes:
            self._attributes[id(module), name] = module, name, freeze(vars(module).get(name, ABSENT))

    def optimizer(self, optimizer: Optimizer) -> None:
        """An optimizer takes a step."""
        self._optimizers[id(optimizer)] = optimizer

    def refreshed(self, produce: Callable[[], np.ndarray[Any, Any]], label: str) -> Array:
        """An array that holds what ``produce`` gives now, and before each replay what it gives then."""
        elements = produce()
        with paused():
            made = array(elements, device=self.device, label=label)
        self.hold(made.storage, bytes_of(elements, self.device))
        self.hooks.append(Refresh(content_of(made.storage), produce))
        return made

    def on_replay(self, run: Callable[[], object], keep: Callable[[], Undo]) -> None:
        """Call ``run`` before each replay, in order with what is refreshed. ``keep`` gives a way to undo it."""
        self.hooks.append(Action(run, keep))

    def companion(self, kind: Callable[[Trace], T]) -> T:
        """The one object of a kind that goes along with this trace, made when it is first asked for."""
        if kind not in self._companions:
            self._companions[kind] = kind(self)
        made: T = self._companions[kind]
        return made

    # What becomes of it.

    def finish(self, changed: Sequence[Tensor]) -> None:
        """The function has returned, its results are copied, and arguments that it ``changed`` are written back. Gives
        up if it left something behind that a replay would not."""
        self._companions.clear()
        outside = {id(storage) for storage in self.outside.values()}
        if any(id(x.array.storage) in outside for x in changed):
            self.abandon("it changes an argument in place whose memory it also meets from outside")
            return
        for module, name, before in self._attributes.values():
            if freeze(vars(module).get(name, ABSENT)) != before:
                self.abandon(
                    f"it changes {type(module).__name__}.{name}, which a replay would not; keep what changes from call "
                    "to call in a tensor, and change that in place"
                )
                return
        gradients = [leaf._grad.array.storage for leaf in self._leaves() if leaf._grad is not None]
        left = escaped(self, gradients)
        if left is not None:
            gc.collect()
            left = escaped(self, gradients)
        if left is not None:
            self.abandon(
                f"a tensor that it made, {left}, is still held after the call, and a replay would not renew it; return "
                "it, or update one in place that was made before"
            )

    def plan(self, arena: Arena, outputs: Sequence[Content]) -> TracedPlan:
        """The plan, after ``finish``. Each parameter's gradient moves to the one buffer that all plans use for it."""
        renamed: dict[Content, Storage] = {}
        ends: list[tuple[Tensor, Tensor | None]] = []
        for leaf in self._leaves():
            if leaf._grad is not None and self.is_born(content_of(leaf._grad.array.storage)):
                self._settle(leaf, renamed)
            ends.append((leaf, leaf._grad))
        plan = Plan(self, self.device, arena, outputs, renamed)
        return TracedPlan(plan, self, ends)

    def _leaves(self) -> list[Tensor]:
        """The leaves whose gradient was met and that live on."""
        leaves = [note.leaf() for note in self._gradients.values()]
        return [leaf for leaf in leaves if leaf is not None]

    def _settle(self, leaf: Tensor, renamed: dict[Content, Storage]) -> None:
        made = leaf._grad
        assert made is not None
        content = content_of(made.array.storage)
        home = leaf._home() if leaf._home is not None else None
        if home is None or home.array.storage.released or home.device is not made.device:
            home = made
            leaf._home = weakref.ref(home)
        else:
            update.copy_into(home.array, made.array)
            leaf._grad = home
        storage = home.array.storage
        if content_of(storage) not in self.outside:
            pin(storage)
            self.outside[content_of(storage)] = storage
            if home is not made:
                renamed[content] = storage
        elif uses(self.commands, content)[0] > uses(self.commands, content_of(storage))[1]:
            renamed[content] = storage
        else:  # the old gradient is still read when the new one is made
            self.commands.append(Copy(content, content_of(storage), made.array.nbytes))


class GradientNote:
    """A leaf whose gradient is met, and what it was, which counts if it was looked at before it was replaced.

    Leaves that the function makes and drops are not held.
    """

    __slots__ = ("before", "is_read", "leaf")

    def __init__(self, leaf: Tensor, is_read: bool) -> None:
        self.leaf = weakref.ref(leaf)
        self.is_read = is_read
        self.before = None if leaf._grad is None else leaf._grad.array.storage

    def holds(self) -> bool:
        """Whether the gradient is now what it was then."""
        leaf = self.leaf()
        now = None if leaf is None else leaf._grad
        return not self.is_read or (None if now is None else now.array.storage) is self.before


class Hook:
    """What the host does before each replay."""

    def run(self) -> None:
        """Do it."""

    def keep(self) -> Undo:
        """A way back to how it is now."""
        return lambda: None


class Refresh(Hook):
    """Bytes that a plan reads and the host writes, if they changed."""

    def __init__(self, content: Content, produce: Callable[[], np.ndarray[Any, Any]]) -> None:
        self.content = content
        self._produce = produce
        self._written = self._made = b""

    def run(self) -> None:
        self._made = self._produce().tobytes()

    def write(self, plan: Plan) -> None:
        """Hand over what ``run`` made."""
        if self._made != self._written and self.content in plan.places:
            plan.device.recorder.upload(plan.places[self.content], np.frombuffer(self._made, np.uint8))
            self._written = self._made


class Action(Hook):
    """Something on the host alone, such as a schedule."""

    def __init__(self, run: Callable[[], object], keep: Callable[[], Undo]) -> None:
        self._run = run
        self._keep = keep

    def run(self) -> None:
        self._run()

    def keep(self) -> Undo:
        return self._keep()


class TracedPlan:
    """A plan, what must hold when it is replayed, and what the host does around it.

    ``ends``: the gradient that each leaf has afterwards.
    """

    def __init__(self, plan: Plan, trace: Trace, ends: list[tuple[Tensor, Tensor | None]]) -> None:
        self.plan = plan
        self.ends = ends
        self.replays = 0
        self._hooks = trace.hooks
        plan.refreshed = {hook.content for hook in self._hooks if isinstance(hook, Refresh)}
        self._gradients = [note for note in trace._gradients.values() if note.is_read and note.leaf() is not None]
        self._modules = [(module, freeze(vars(module))) for module in trace._modules.values()]
        self._optimizers = [(optimizer, optimizer.structure()) for optimizer in trace._optimizers.values()]
        self._is_mutable = any(is_mutable(value) for module, _ in self._modules for value in vars(module).values())
        self._mutations = Mutations.count

    def matches(self) -> bool:
        """Whether a replay would do what the function would do now."""
        if not all(note.holds() for note in self._gradients):
            return False
        if any(optimizer.structure() != before for optimizer, before in self._optimizers):
            return False
        if self._is_mutable or self._mutations != Mutations.count:
            if any(freeze(vars(module)) != before for module, before in self._modules):
                return False
            self._mutations = Mutations.count
        return True

    def keep(self) -> Undo:
        """A way to undo what the hooks will do."""
        undo = [hook.keep() for hook in self._hooks]

        def back() -> None:
            for step in undo:
                step()

        return back

    def replay(self, given: Sequence[Any], results: Sequence[tuple[Content, Array]]) -> None:
        """Do what the function would do. Callers hold the device's lock."""
        for hook in self._hooks:
            hook.run()
        for hook in self._hooks:
            if isinstance(hook, Refresh):
                hook.write(self.plan)
        self.plan.replay(given, results)
        for leaf, gradient in self.ends:
            leaf._grad = gradient
        self.replays += 1
