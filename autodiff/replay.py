"""TracedPlan: a plan, what must hold when it is replayed, and what the host does around it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpu_backend import Array
from gpu_backend.capture import Content, Copy, content_of, pin
from gpu_backend.ops import update
from gpu_backend.plan import Arena, Plan, lifetimes
from gpu_backend.spec import Shape
from gpu_backend.storage import Storage

from .freeze import Mutations, is_mutable
from .nn.module import Module
from .surroundings import Surroundings
from .tensor import Tensor
from .trace import Refresh, Trace, Undo, is_held_elsewhere, module_state


class End(NamedTuple):
    """The gradient that a leaf has after a replay: None, or an array on the one storage that all plans use for it.

    ``is_new``: the function replaces the gradient, rather than adding to the one that is there.
    """

    leaf: weakref.ref[Tensor]
    storage: Storage | None
    shape: Shape
    is_new: bool

    def prepare(self) -> None:
        """Before a replay: whoever holds a gradient that will be replaced gets a copy of it."""
        leaf = self.leaf()
        if leaf is not None and self.storage is not None and self.is_new:
            vacate(leaf, self.storage)

    def settle(self) -> None:
        """After a replay: the leaf has this gradient."""
        leaf = self.leaf()
        if leaf is None:
            return
        if self.storage is None:
            leaf._grad = None
        elif leaf._grad is None or leaf._grad.array.storage is not self.storage:
            leaf._grad = Tensor(housed(leaf, Array(self.storage, self.shape, leaf.dtype, leaf.device)))

    def take_over(self) -> None:
        """The gradient that the leaf has moves to the storage that all plans use."""
        leaf = self.leaf()
        if leaf is not None and self.storage is not None:
            carry(leaf, self.storage)


def carry(leaf: Tensor, home: Storage) -> None:
    """Move the gradient that a leaf has, if it has one, to another home."""
    if leaf._grad is not None and leaf._grad.array.storage is not home:
        made = leaf._grad.array
        vacate(leaf, home)
        update.copy_into(Array(home, made.shape, made.dtype, made.device), made)
        leaf._grad = Tensor(housed(leaf, Array(home, made.shape, made.dtype, made.device)))


def housed(leaf: Tensor, gradient: Array) -> Array:
    """Remember an array that is, or was, the gradient of a leaf on memory that plans write; returns it."""
    known = [one for one in leaf._housed if (there := one()) is not None and there is not gradient]
    leaf._housed = [*known, weakref.ref(gradient)]
    return gradient


def vacate(leaf: Tensor, home: Storage) -> None:
    """Before other elements come to the home of a gradient: whoever holds an array there, beside ``grad``, keeps what
    it is, on memory of its own. ``grad`` is None then, if it was that array."""
    for reference in leaf._housed:
        held = reference()
        if held is not None and held.storage is home and (leaf._grad is None or held is not leaf._grad.array):
            _move(held)
    held = None  # it would count as a holder
    if leaf._grad is not None and leaf._grad.array.storage is home and is_held_elsewhere(leaf):
        _move(leaf._grad.array)
        leaf._grad = None


def _move(held: Array) -> None:
    moved = update.persist(update.copy(held), "gradient").storage
    moved.version = held.storage.version
    held.storage = moved
    Mutations.count += 1  # it may be an attribute of a module


class TracedPlan:
    """What a trace becomes: ``matches`` tells whether ``replay`` would do what the function would do now.

    The device's lock is held when it is made. OutOfMemoryError if there is no room for its buffers, CaptureError if the
    list reads what nothing in it has written; the trace has let go of everything then.
    """

    def __init__(self, trace: Trace, arena: Arena, outputs: list[Content], surroundings: Surroundings) -> None:
        self.replays = 0
        self.ends: list[End] = []
        self._hooks = trace.hooks
        self._surroundings = surroundings
        self._gradients = [note for note in trace.gradients.values() if note.is_read and note.leaf() is not None]
        self._leaves = [known for known in trace.leaves.values() if known[0]() is not None]
        modules = [known for known in trace.modules.values() if known[0]() is not None]
        self._changing = [known for known in modules if _may_change(known[0]())]
        self._modules = [known for known in modules if not _may_change(known[0]())]
        optimizers = [known[0]() for known in trace.optimizers.values()]
        self._optimizers = [(weakref.ref(o), o.structure()) for o in optimizers if o is not None]
        self._mutations = Mutations.count
        for note in self._gradients:
            note.keep(housed)
        renamed = self._settle_gradients(trace, outputs)
        refreshed = {hook.content for hook in self._hooks if isinstance(hook, Refresh)}
        self.plan = Plan(trace, trace.device, arena, outputs, renamed, refreshed)

    def matches(self) -> bool:
        """Whether a replay would do what the function would do now."""
        for note in self._gradients:
            if not note.holds():
                return False
        for reference, before in self._optimizers:
            optimizer = reference()
            if optimizer is None or optimizer.structure() != before:
                return False
        if not _as_they_were(self._changing):
            return False
        if self._mutations != Mutations.count:
            count = Mutations.count
            if not _as_they_were(self._modules):
                return False
            for leaf_reference, flag in self._leaves:
                leaf = leaf_reference()
                if leaf is not None and leaf._requires_grad != flag:
                    return False
            self._mutations = count
        return not self._surroundings.changed()

    def keep(self) -> Undo:
        """A way to undo what the hooks will do."""
        undo = [hook.keep() for hook in self._hooks]

        def back() -> None:
            for step in undo:
                step()

        return back

    def replay(self, given: Sequence[Any], results: Sequence[tuple[Content, Array]]) -> None:
        """Do what the function would do. Callers hold the device's lock."""
        self.plan.device.health.check()
        for x in given:
            if isinstance(x, Array):
                x.storage.check()
        for note in self._gradients:
            leaf = note.leaf()
            if leaf is not None and note.before is not None:
                carry(leaf, note.before)  # a gradient that is read, from wherever it was made since
        for end in self.ends:
            end.prepare()
        for hook in self._hooks:
            hook.run()
        for hook in self._hooks:
            if isinstance(hook, Refresh):
                hook.write(self.plan)
        self.plan.replay(given, results)
        for end in self.ends:
            end.settle()
        self.replays += 1

    def _settle_gradients(self, trace: Trace, outputs: list[Content]) -> dict[Content, Storage]:
        """Move each gradient that was made inside to the storage that all plans use for it; what it is called now."""
        renamed: dict[Content, Storage] = {}
        spans = lifetimes(trace.commands)
        for content in outputs:
            spans[content] = (spans.get(content, (len(trace.commands),))[0], len(trace.commands))
        for note in list(trace.gradients.values()):
            leaf = note.leaf()
            if leaf is None:
                continue
            if leaf._grad is not None and trace.is_born(leaf._grad.array.storage):
                self._settle(trace, leaf, renamed, spans, outputs)
                storage: Storage | None = leaf._grad.array.storage
                is_new = True
            else:
                storage = None if leaf._grad is None else leaf._grad.array.storage
                is_new = False
            self.ends.append(End(note.leaf, storage, leaf.shape, is_new))
        return renamed

    @staticmethod
    def _settle(
        trace: Trace,
        leaf: Tensor,
        renamed: dict[Content, Storage],
        spans: dict[Content, tuple[int, int]],
        outputs: list[Content],
    ) -> None:
        assert leaf._grad is not None
        made = leaf._grad.array
        content = content_of(made.storage)
        home = leaf._home() if leaf._home is not None else None
        if home is None or home.released or home.pool is not made.storage.pool:
            leaf._home = weakref.ref(housed(leaf, made).storage)
            pin(made.storage)
            trace.outside[content] = made.storage
            return
        carry(leaf, home)
        old = content_of(home)
        if old not in trace.outside:
            pin(home)
            trace.outside[old] = home
            renamed[content] = home
        elif spans.get(content, (0, 0))[0] > spans.get(old, (0, -1))[1]:
            renamed[content] = home
        else:  # the old gradient is still read when the new one is made
            if old in outputs:
                kept = trace.scratch(made.storage.buffer.nbytes)
                trace.commands.append(Copy(old, kept, made.nbytes))
                outputs[:] = [kept if output == old else output for output in outputs]
            trace.commands.append(Copy(content, old, made.nbytes))


ModuleNote = tuple[weakref.ref[Module], Any]


def _may_change(module: Module | None) -> bool:
    """Whether a module has attributes that change without being set."""
    return any(is_mutable(value) for value in vars(module).values())


def _as_they_were(notes: list[ModuleNote]) -> bool:
    for reference, state in notes:
        module = reference()
        if module is None or module_state(module) != state:
            return False
    return True
