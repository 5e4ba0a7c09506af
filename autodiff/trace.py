"""Trace: a capture that is told of gradients, modules, optimizers and of what the host does.

Tensors, modules, optimizers, schedules and random numbers tell it, through ``tracing()`` and the ``note_`` functions.
``replay.TracedPlan`` is what becomes of it.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpu_backend import Array, array
from gpu_backend.array import bytes_of
from gpu_backend.capture import Capture, Content, active, content_of, escaped, paused
from gpu_backend.device import GPUDevice
from gpu_backend.plan import Plan

from .freeze import Mutations, freeze

if TYPE_CHECKING:
    from .nn.module import Module
    from .optim.optimizer import Optimizer
    from .tensor import Tensor

ABSENT = object()
Undo = Callable[[], None]
T = TypeVar("T")


def tracing() -> Trace | None:
    """The trace of this thread, if there is one."""
    capture = active.capture
    return capture if isinstance(capture, Trace) else None


def note_gradient(leaf: Tensor, is_read: bool) -> None:
    """``leaf.grad`` is looked at, or else replaced."""
    trace = tracing()
    if trace is not None:
        trace.gradient(leaf, is_read)


def note_leaf(leaf: Tensor) -> None:
    """``leaf.requires_grad`` is looked at, or about to be set."""
    trace = tracing()
    if trace is not None:
        trace.leaf(leaf)


def note_module(module: Module) -> None:
    """A module is called."""
    trace = tracing()
    if trace is not None:
        trace.module(module)


def note_attribute(module: Module, name: str) -> None:
    """An attribute of a module is about to be set."""
    Mutations.count += 1
    trace = tracing()
    if trace is not None:
        trace.attribute(module, name)


def abandon(reason: str) -> None:
    """This thread does what a replay could not repeat."""
    trace = tracing()
    if trace is not None:
        trace.abandon(reason)


def module_state(module: Module) -> Any:
    """The attributes of a module, frozen."""
    return freeze({"training": module.training, **vars(module)})


class Trace(Capture):
    """What a function does while it is captured, above what it records.

    ``first_entry``: the serial number from which on entries of the tape are made inside.
    """

    def __init__(self, device: GPUDevice, strict: bool, first_entry: int) -> None:
        super().__init__(device.pool, strict)
        self.device = device
        self.first_entry = first_entry
        self.hooks: list[Hook] = []
        self.gradients: dict[int, GradientNote] = {}
        self.leaves: dict[int, tuple[weakref.ref[Tensor], bool]] = {}
        self.modules: dict[int, tuple[weakref.ref[Module], Any]] = {}
        self.optimizers: dict[int, tuple[weakref.ref[Optimizer], Any]] = {}
        self._companions: dict[Callable[[Trace], Any], Any] = {}
        self._attributes: dict[tuple[int, str], tuple[weakref.ref[Module], str, Any]] = {}

    # What the function does.

    def gradient(self, leaf: Tensor, is_read: bool) -> None:
        """``leaf.grad`` is looked at, or else replaced."""
        note = self.gradients.get(id(leaf))
        if note is None or note.leaf() is not leaf:
            self.gradients[id(leaf)] = GradientNote(leaf, is_read)

    def leaf(self, leaf: Tensor) -> None:
        """``leaf.requires_grad`` is looked at, or about to be set."""
        known = self.leaves.get(id(leaf))
        if known is None or known[0]() is not leaf:
            self.leaves[id(leaf)] = weakref.ref(leaf), leaf._requires_grad

    def module(self, module: Module) -> None:
        """A module is called."""
        known = self.modules.get(id(module))
        if known is None or known[0]() is not module:
            self.modules[id(module)] = weakref.ref(module), module_state(module)

    def attribute(self, module: Module, name: str) -> None:
        """An attribute of a module is about to be set."""
        known = self._attributes.get((id(module), name))
        if known is None or known[0]() is not module:
            self._attributes[id(module), name] = weakref.ref(module), name, freeze(getattr(module, name, ABSENT))

    def optimizer(self, optimizer: Optimizer) -> None:
        """An optimizer takes a step, or is met before the function starts."""
        known = self.optimizers.get(id(optimizer))
        if known is not None and known[0]() is optimizer and known[1] != optimizer.options():
            self.abandon(
                f"it sets options of {optimizer.name} itself, and a replay reads them once; use a schedule, or set "
                "them before the call"
            )
        self.options_changed(optimizer)

    def options_changed(self, optimizer: Optimizer) -> None:
        """A schedule, which goes on with each replay, has set options."""
        self.optimizers[id(optimizer)] = weakref.ref(optimizer), optimizer.options()

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

    # Whether it left something behind that a replay would not.

    def finish(self) -> None:
        """The function has returned, its results are copied, and the arguments that it changed are written back."""
        self._companions.clear()
        reason = self._changed_on_the_host() or self._left_on_the_device()
        if reason:
            self.abandon(reason)

    def _changed_on_the_host(self) -> str:
        kept = "; keep what changes from call to call in a tensor, and change that in place"
        for module, name, before in self._attributes.values():
            owner = module()
            if owner is not None and freeze(getattr(owner, name, ABSENT)) != before:
                return f"it changes {type(owner).__name__}.{name}, which a replay would not{kept}"
        for module, state in self.modules.values():
            owner = module()
            if owner is not None and module_state(owner) != state:
                return f"it changes an attribute of {type(owner).__name__}, which a replay would not{kept}"
        for optimizer, options in self.optimizers.values():
            stepped = optimizer()
            if stepped is not None and stepped.options() != options:
                return f"it sets options of {stepped.name} itself, which a replay would not; use a schedule"
        for leaf, flag in self.leaves.values():
            tensor = leaf()
            if tensor is not None and tensor._requires_grad != flag:
                return f"it sets requires_grad of {tensor.array.storage}, which a replay would not"
        return ""

    def _left_on_the_device(self) -> str:
        gone = next((storage for storage in self.outside.values() if storage.released), None)
        if gone is not None:
            return f"it releases {gone}, which a replay would use again"
        mended = "and a replay would not renew it; return it, or update one in place that was made before"
        gradients = [leaf._grad.array.storage for leaf in self.live_leaves() if leaf._grad is not None]
        left = escaped(self, gradients)
        if left is None and not any(self._is_kept(leaf) for leaf in self.live_leaves()):
            return ""
        gc.collect()
        left = escaped(self, gradients)
        if left is not None:
            return f"a tensor that it made, {left}, is still held after the call, {mended}"
        if any(self._is_kept(leaf) for leaf in self.live_leaves()):
            return f"a gradient that it made is held after the call, beside grad, {mended}"
        return ""

    def _is_kept(self, leaf: Tensor) -> bool:
        return leaf._grad is not None and self.is_born(leaf._grad.array.storage) and is_held_elsewhere(leaf)

    def live_leaves(self) -> list[Tensor]:
        """The leaves whose gradient was met and that live on."""
        leaves = [note.leaf() for note in self.gradients.values()]
        return [leaf for leaf in leaves if leaf is not None]


class GradientNote:
    """A leaf whose gradient is met, and what it was, which counts if it was looked at before it was replaced."""

    __slots__ = ("_array", "_before", "_was_there", "is_read", "leaf")

    def __init__(self, leaf: Tensor, is_read: bool) -> None:
        self.leaf = weakref.ref(leaf)
        self.is_read = is_read
        self._was_there = leaf._grad is not None
        self._before = None if leaf._grad is None else weakref.ref(leaf._grad.array.storage)
        self._array = None if leaf._grad is None else weakref.ref(leaf._grad.array)

    def holds(self) -> bool:
        """Whether there is a gradient now as there was then: on the same memory, or where it can be carried there."""
        if not self.is_read:
            return True
        leaf = self.leaf()
        if leaf is None or leaf._grad is None or self._before is None:
            return self._was_there == (leaf is not None and leaf._grad is not None)
        before = self._before()  # the gradient itself gets no name here: that would count as a holder
        return before is leaf._grad.array.storage or (before is not None and not is_held_elsewhere(leaf))

    def keep(self, remember: Callable[[Tensor, Array], object]) -> None:
        """Remember the array that was there, if someone holds it."""
        leaf, array = self.leaf(), None if self._array is None else self._array()
        if leaf is not None and array is not None:
            remember(leaf, array)

    @property
    def before(self) -> Any:
        """The storage of the gradient that was there, if it lives."""
        return None if self._before is None else self._before()


def is_held_elsewhere(leaf: Any) -> bool:
    """Whether someone beside ``leaf`` holds its gradient, the tensor or the array in it."""
    return _references(leaf) > _alone


def _references(leaf: Any) -> int:
    gradient = leaf._grad
    elements = gradient.array
    return sys.getrefcount(gradient) + sys.getrefcount(elements)


class _Alone:
    """A gradient that nobody holds, to count by."""

    def __init__(self) -> None:
        self._grad: Any = None
        self.array: Any = None


_sample = _Alone()
_sample._grad = _Alone()
_sample._grad.array = _Alone()
_alone = _references(_sample)


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
