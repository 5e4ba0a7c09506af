"""compiled: a function on tensors, captured at its first call and replayed at the next.

A capture is a run for real, with a list of what it recorded. ``Compiled`` chooses between a replay, a capture and a
plain call; ``trace.Trace`` is the capture, ``gpu_backend.plan.Plan`` the list made ready to be submitted.
"""

from __future__ import annotations

import functools
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, overload

from gpu_backend import Device, DType
from gpu_backend.array import allocate
from gpu_backend.capture import Content, active, content_of, users_line
from gpu_backend.check_mode import checking
from gpu_backend.device import GPUDevice
from gpu_backend.errors import OutOfMemoryError
from gpu_backend.ops import update
from gpu_backend.plan import Arena, Plan
from gpu_backend.spec import Shape

from .call import Call, Given, Slot, detached, filled
from .explain import CompiledStats, explanation
from .freeze import has_gone
from .replay import TracedPlan
from .signature import rebuild
from .surroundings import Surroundings
from .tape import next_serial
from .tensor import Tensor
from .trace import Trace
from .verify import Verification

FAILURES_UNTIL_EAGER = 3
KEPT_FAILURES = 256
IDLE_CAPTURES = 12
ON_HOST = "the host runs numpy, which has no dispatches to replay"
CHECKING = "check mode compares every op with its numpy twin"
INSIDE = "it is called inside another capture, which records it"


class CaptureWarning(UserWarning):
    """A function was not captured, so it runs as if it were not compiled; the text says why."""


@dataclass(eq=False)
class Kept:
    """A plan in the cache, with the way its arguments come in and its results go out."""

    key: Any
    traced: TracedPlan
    bound: list[int]
    changed: list[tuple[int, Content]]
    results: list[tuple[Content, Shape, DType]]
    template: Any


class Compiled:
    """A function that is captured and replayed; ``compiled`` makes it."""

    def __init__(self, fn: Callable[..., Any], verify: int, fallback: bool, max_plans: int) -> None:
        if not callable(fn):
            raise TypeError(f"compiled: takes a function or a module, not {type(fn).__name__}")
        if verify < 0 or max_plans < 1:
            raise ValueError(f"compiled: verify is 0 or more and max_plans 1 or more, not {verify} and {max_plans}")
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = getattr(fn, "__qualname__", type(fn).__name__)
        self._options = verify, fallback, max_plans
        self._lock = threading.RLock()  # not held while the function runs
        self._plans: dict[Any, list[Kept]] = {}
        self._recent: dict[int, Kept] = {}
        self._arenas: dict[Device, Arena] = {}
        self._failures: dict[Any, tuple[int, str]] = {}
        self._warned = False
        self._methods: dict[int, tuple[weakref.ref[Any], Compiled]] = {}
        self._stats = CompiledStats()
        self._live: list[Plan] = []
        self._idle_captures = 0
        weakref.finalize(self, _close, self._live).atexit = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        call = Call(self.name, arguments, options)
        if checking.is_on:
            return self._plain(call, CHECKING)
        if active.capture is not None:
            return self._plain(call, INSIDE)
        with self._lock:
            self._drop_lost()
            kept = self._find(call)
            if kept is not None and kept.traced.replays >= self._options[0]:
                return self._replay(kept, call)
            failures, why = self._failures.get(call.key, (0, ""))
        if kept is not None:
            return self._verified(kept, call)
        if not isinstance(call.device, GPUDevice):
            return self._plain(call, ON_HOST)
        if failures >= FAILURES_UNTIL_EAGER and self._options[1]:
            return self._plain(call, why)
        return self._capture(call, call.device)

    def __get__(self, instance: Any, owner: type | None = None) -> Compiled:
        if instance is None:
            return self
        known = self._methods.get(id(instance))
        if known is None or known[0]() is not instance:
            try:
                reference = weakref.ref(instance, functools.partial(_forget, self._methods, id(instance)))
            except TypeError:
                raise TypeError(
                    f"{self.name}: a compiled method wants instances that can be referred to weakly; add "
                    f"'__weakref__' to the __slots__ of {type(instance).__name__}"
                ) from None
            known = reference, Compiled(self.fn.__get__(weakref.proxy(instance)), *self._options)
            self._methods[id(instance)] = known
        return known[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """The same function, without its plans."""
        return Compiled(self.fn, *self._options)

    def __reduce__(self) -> str:
        raise TypeError(f"{self.name}: a compiled function is not pickled; compile the plain one after loading")

    def stats(self) -> CompiledStats:
        """What the calls came to so far."""
        with self._lock:
            kept = list(self._recent.values())
            own = {id(s): s.buffer.nbytes for k in kept for s in k.traced.plan.storages()}
            nbytes = sum(own.values()) + sum(k.traced.plan.uniform_nbytes for k in kept)
            stats = replace(self._stats, plans=len(kept), nbytes=nbytes)
            stats.eager_calls = Counter(self._stats.eager_calls)
            return stats

    def explain(self) -> str:
        """The kernels of the plan used last, with shapes and bytes; what is constant in it; why calls ran plainly."""
        with self._lock:
            kept = list(self._recent.values())
            return explanation(self.name, kept[-1].traced if kept else None, self._stats.eager_calls)

    def invalidate(self) -> None:
        """Forget every plan and every failure: the next call captures anew."""
        with self._lock:
            for kept in list(self._recent.values()):
                self._drop(kept)
            self._arenas.clear()
            self._failures.clear()
            self._warned = False

    # Which plan. The lock is held.

    def _find(self, call: Call) -> Kept | None:
        for kept in list(self._plans.get(call.key, ())):
            with kept.traced.plan.device.lock:
                is_intact = kept.traced.plan.is_intact
            if not is_intact:
                self._drop(kept)
            elif kept.traced.matches():
                self._recent[id(kept)] = self._recent.pop(id(kept))
                return kept
        return None

    def _keep(self, kept: Kept) -> None:
        for other in list(self._recent.values()):
            if has_gone(other.key):
                self._drop(other)
        self._plans.setdefault(kept.key, []).append(kept)
        self._recent[id(kept)] = kept
        self._live.append(kept.traced.plan)
        for oldest in list(self._recent.values())[: -self._options[2]]:
            self._drop(oldest)

    def _drop(self, kept: Kept) -> None:
        if self._recent.pop(id(kept), None) is None:
            return
        self._live.remove(kept.traced.plan)
        # Not by key: one that holds an object which is gone equals nothing.
        self._plans = {key: rest for key, known in self._plans.items() if (rest := [k for k in known if k is not kept])}
        with kept.traced.plan.device.lock:
            kept.traced.plan.close()

    def _drop_lost(self) -> None:
        """DeviceLostError, once, if plans went with their device."""
        lost = [kept for kept in self._recent.values() if kept.traced.plan.device.health.ended]
        for kept in lost:
            self._drop(kept)
            self._arenas.pop(kept.traced.plan.device, None)
        for kept in lost:
            kept.traced.plan.device.health.check()

    # The ways to run.

    def _plain(self, call: Call, reason: str) -> Any:
        self._stats.eager_calls[reason] += 1
        return self._run(call)

    def _run(self, call: Call) -> Any:
        given = call.plain_leaves()
        arguments, options = call.arguments(given)
        try:
            return detached(self.fn(*arguments, **options))
        finally:
            call.write_back(given)

    def _replay(self, kept: Kept, call: Call) -> Any:
        plan, device = kept.traced.plan, kept.traced.plan.device
        with device.lock:
            call.check_changed(kept.changed, plan.written)
            made = [allocate(shape, dtype, device, self.name) for _, shape, dtype in kept.results]
            results = [(content, y) for (content, _, _), y in zip(kept.results, made, strict=True)]
            for leaf, (_, content) in zip(call.tensors(kept.changed), kept.changed, strict=True):
                update.own(leaf.array)
                leaf.array.storage.version += 1
                results.append((content, leaf.array))
            kept.traced.replay(call.inputs(kept.bound), results)
        self._count(kept)
        return filled(kept.template, [Tensor(y) for y in made])

    def _count(self, kept: Kept) -> None:
        plan = kept.traced.plan
        self._idle_captures = 0
        self._stats.replays += 1
        self._stats.kernels += plan.kernels
        self._stats.host_calls += plan.host_calls
        self._stats.encoding = plan.device.recorder.submissions.encoding.kind

    def _verified(self, kept: Kept, call: Call) -> Any:
        """A replay that is undone, a plain call for real, and a comparison."""
        check = Verification(kept.traced, self.name)
        changed = call.tensors(kept.changed)
        outputs = [*kept.results, *((c, x.shape, x.dtype) for x, (_, c) in zip(changed, kept.changed, strict=True))]
        with self._lock:
            is_kept = id(kept) in self._recent  # another thread may have dropped it meanwhile
            if is_kept:
                call.check_changed(kept.changed, kept.traced.plan.written)
                check.replay([call.copied(index) for index in kept.bound], outputs)
                self._count(kept)
        result = self._run(call)
        if not is_kept:
            return result
        found: list[Tensor] = []
        rebuild(result, lambda x: found.append(x) if isinstance(x, Tensor) else x)
        try:
            check.compare([x.array for x in (*found, *changed)])
        except BaseException:
            with self._lock:
                self._drop(kept)
            raise
        return result

    def _capture(self, call: Call, device: GPUDevice) -> Any:
        surroundings = Surroundings(self.fn)
        trace = Trace(device, not self._options[1], next_serial())
        given = call.captured_leaves(trace)
        try:
            returned, results, template = self._traced_run(trace, call, given, surroundings)
            changed = call.changed(given)
            del given
            if not trace.abandoned:
                trace.finish()
            if not trace.abandoned and surroundings.changed():
                trace.abandon("it changes a variable or a container that it names, which a replay would not")
            kept = None
            if not trace.abandoned:
                outputs = [content for content, shape, _ in results if 0 not in shape] + [c for _, c in changed]
                with self._lock, device.lock:
                    traced = self._plan(trace, device, outputs, surroundings)
                    if traced is not None:
                        results = [(c, s, t) for c, (_, s, t) in zip(_renamed(results, outputs), results, strict=True)]
                        kept = Kept(call.key, traced, call.bound, changed, results, template)
        except BaseException:
            trace.drop()
            raise
        if trace.abandoned and trace.strict:
            raise trace.error()
        with self._lock:
            if kept is None:
                self._note_failure(call.key, trace)
            else:
                self._stats.captures += 1
                self._idle_captures += 1
                self._failures.pop(call.key, None)
                self._keep(kept)
        if trace.abandoned:
            self._warn(
                f"{self.name} was not captured: {trace.abandoned}. The call ran plainly; it is tried "
                f"{FAILURES_UNTIL_EAGER - 1} times more. stats().eager_calls counts such calls",
                trace.line,
            )
        elif self._idle_captures == IDLE_CAPTURES:
            self._warn(
                f"{self.name} was captured {IDLE_CAPTURES} times in a row and not replayed: a number among its "
                "arguments, or something that it names, differs in each call; a tensor would be bound anew",
                users_line(),
            )
        return returned

    def _traced_run(self, trace: Trace, call: Call, given: list[Given], surroundings: Surroundings) -> Any:
        """The function's result in memory of its own; its parts, and a structure with slots for them."""
        arguments, options = call.arguments(given)
        trace.start()
        try:
            surroundings.note(trace, (arguments, options))
            result = self.fn(*arguments, **options)
            results, template = self._outputs(trace, result)
        finally:
            trace.stop()
            call.write_back(given)
        return detached(result), results, template

    def _plan(
        self, trace: Trace, device: GPUDevice, outputs: list[Content], surroundings: Surroundings
    ) -> TracedPlan | None:
        arena = self._arenas.get(device) or self._arenas.setdefault(device, Arena(device))
        try:
            return TracedPlan(trace, arena, outputs, surroundings)
        except OutOfMemoryError:
            trace.abandon("there is no memory for the buffers of its plan")
            return None

    def _outputs(self, trace: Trace, result: Any) -> tuple[list[tuple[Content, Shape, DType]], Any]:
        results: list[tuple[Content, Shape, DType]] = []

        def note(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x.copy()
            if not trace.abandoned:
                with x.device.lock:
                    trace.claim(x.device.recorder, x.array.storage)
            results.append((content_of(x.array.storage), x.shape, x.dtype))
            return Slot(len(results) - 1)

        template = rebuild(result, note)
        return results, template

    def _note_failure(self, key: Any, trace: Trace) -> None:
        self._stats.eager_calls[trace.abandoned] += 1
        self._failures[key] = self._failures.get(key, (0, ""))[0] + 1, trace.abandoned
        while len(self._failures) > KEPT_FAILURES:
            del self._failures[next(iter(self._failures))]

    def _warn(self, text: str, line: tuple[str, int]) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn_explicit(text, CaptureWarning, *line)


def _renamed(results: list[tuple[Content, Shape, DType]], outputs: list[Content]) -> list[Content]:
    """The contents of results after the plan gave some of them another place; those of empty ones stay."""
    places = iter(outputs)
    return [content if 0 in shape else next(places) for content, shape, _ in results]


def _close(live: list[Plan]) -> None:
    """Let go of what plans pinned, when their function is gone; may run in a garbage collection."""
    for plan in live:
        plan.close()


def _forget(methods: dict[int, Any], key: int, reference: Any) -> None:
    if key in methods and methods[key][0] is reference:
        del methods[key]


@overload
def compiled(fn: Callable[..., Any], *, verify: int = 0, fallback: bool = True, max_plans: int = 16) -> Compiled: ...
@overload
def compiled(
    fn: None = None, *, verify: int = 0, fallback: bool = True, max_plans: int = 16
) -> Callable[[Callable[..., Any]], Compiled]: ...
def compiled(
    fn: Callable[..., Any] | None = None, *, verify: int = 0, fallback: bool = True, max_plans: int = 16
) -> Any:
    """A function of tensors, such as a training step or a model, whose dispatches are recorded once and replayed.

        @ad.compiled
        def step(x, target):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

    Tensors and numpy arrays among the arguments, also inside lists, tuples and dicts, are bound anew on each call;
    numpy arrays arrive as tensors. Numbers and strings decide which plan fits. Whatever it returns comes back off the
    tape, in memory of its own. A function that reads elements on the host runs plainly, with a warning; with
    ``fallback`` False that is a CaptureError. ``verify``: so many replays of each plan are checked against a plain
    call, DivergenceError if they differ by a bit. ``max_plans``: those not used for longest give way.
    docs/compiled.md has the whole story.
    """
    if fn is None:
        return functools.partial(compiled, verify=verify, fallback=fallback, max_plans=max_plans)
    return Compiled(fn, verify, fallback, max_plans)
