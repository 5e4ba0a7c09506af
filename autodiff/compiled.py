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
from dataclasses import dataclass, field, replace
from typing import Any, overload

from gpu_backend import Device
from gpu_backend.array import allocate
from gpu_backend.capture import Content, active, content_of
from gpu_backend.device import GPUDevice
from gpu_backend.errors import OutOfMemoryError
from gpu_backend.ops import update
from gpu_backend.plan import Arena

from .call import Call, Slot, detached, filled
from .explain import explanation
from .signature import rebuild
from .tensor import Tensor
from .trace import Trace, TracedPlan
from .verify import Verification

FAILURES_UNTIL_EAGER = 3
ON_HOST = "the host runs numpy, which has no dispatches to replay"
INSIDE = "it is called inside another capture, which records it"


class CaptureWarning(UserWarning):
    """A function was not captured, so it runs as if it were not compiled; the text says why."""


@dataclass
class CompiledStats:
    """What the calls of a compiled function came to.

    ``eager_calls``: how many calls ran plainly, by reason. ``kernels`` and ``host_calls``: dispatches, and calls of
    numpy twins, in all replays together. ``nbytes``: the buffers of all ``plans``. ``encoding``: how dispatches are
    encoded, ``"native"`` through functions of wgpu-native, ``"public"`` through the API of wgpu-py.
    """

    captures: int = 0
    replays: int = 0
    eager_calls: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    host_calls: int = 0
    plans: int = 0
    nbytes: int = 0
    encoding: str = "none"


@dataclass
class Kept:
    """A plan in the cache, with the way its arguments come in and its results go out."""

    key: Any
    traced: TracedPlan
    bound: list[int]
    changed: list[tuple[int, Content]]
    results: list[tuple[Content, tuple[int, ...], Any]]
    template: Any
    step: int = 0


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
        self._lock = threading.RLock()
        self._plans: dict[Any, list[Kept]] = {}
        self._recent: dict[int, Kept] = {}
        self._arenas: dict[Device, Arena] = {}
        self._failures: Counter[Any] = Counter()
        self._why: dict[Any, str] = {}
        self._warned = False
        self._bound: weakref.WeakKeyDictionary[Any, Compiled] = weakref.WeakKeyDictionary()
        self._stats = CompiledStats()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if active.capture is not None:
            return self._plain(Call(self.name, arguments, options), INSIDE)
        with self._lock:
            call = Call(self.name, arguments, options)
            self._drop_lost()
            kept = self._find(call)
            if kept is not None:
                return self._replay(kept, call)
            if not isinstance(call.device, GPUDevice):
                return self._plain(call, ON_HOST)
            if self._failures[call.key] >= FAILURES_UNTIL_EAGER:
                return self._plain(call, self._why[call.key])
            return self._capture(call, call.device)

    def __get__(self, instance: Any, owner: type | None = None) -> Compiled:
        if instance is None:
            return self
        if instance not in self._bound:
            self._bound[instance] = Compiled(self.fn.__get__(weakref.proxy(instance)), *self._options)
        return self._bound[instance]

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

    # Which plan.

    def _find(self, call: Call) -> Kept | None:
        for kept in list(self._plans.get(call.key, ())):
            if not kept.traced.plan.is_intact:
                self._drop(kept)
            elif kept.traced.matches():
                return kept
        return None

    def _keep(self, kept: Kept) -> None:
        self._plans.setdefault(kept.key, []).append(kept)
        self._recent[id(kept)] = kept
        for oldest in list(self._recent.values())[: -self._options[2]]:
            self._drop(oldest)

    def _drop(self, kept: Kept) -> None:
        del self._recent[id(kept)]
        self._plans[kept.key].remove(kept)
        if not self._plans[kept.key]:
            del self._plans[kept.key]
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

    # The three ways to run.

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
        self._recent[id(kept)] = self._recent.pop(id(kept))
        traced = kept.traced
        plan, device = traced.plan, traced.plan.device
        kept.step += 1
        self._stats.replays += 1
        self._stats.kernels += plan.kernels
        self._stats.host_calls += plan.host_calls
        self._stats.encoding = device.recorder.submissions.encoding.kind
        if traced.replays < self._options[0]:
            return self._verified(kept, call)
        with device.lock:
            made = [allocate(shape, dtype, device, self.name) for _, shape, dtype in kept.results]
            results = [(content, y) for (content, _, _), y in zip(kept.results, made, strict=True)]
            for index, content in kept.changed:
                leaf = call.signature.leaves[index]
                assert isinstance(leaf, Tensor)
                update.own(leaf.array)
                leaf.array.storage.version += 1
                results.append((content, leaf.array))
            traced.replay(call.inputs(kept.bound), results)
        return filled(kept.template, [Tensor(y) for y in made])

    def _verified(self, kept: Kept, call: Call) -> Any:
        """A replay that is undone, a plain call for real, and a comparison."""
        check = Verification(kept.traced, self.name, kept.step)
        check.replay([call.copied(index) for index in kept.bound], kept.results)
        result = self._run(call)
        found: list[Tensor] = []
        rebuild(result, lambda x: found.append(x) if isinstance(x, Tensor) else x)
        try:
            check.compare([x.array for x in found])
        except BaseException:
            self._drop(kept)
            raise
        return result

    def _capture(self, call: Call, device: GPUDevice) -> Any:
        trace = Trace(device, strict=not self._options[1])
        given = call.captured_leaves(trace)
        arguments, options = call.arguments(given)
        trace.start()
        try:
            result = self.fn(*arguments, **options)
            made = self._outputs(trace, result)
        except BaseException:
            trace.drop()
            raise
        finally:
            trace.stop()
            call.write_back(given)
        returned = detached(result)
        template, results = made
        changed = call.changed(given)
        del result, arguments, options, given
        if not trace.abandoned:
            trace.finish(call.tensors(changed))
        if not trace.abandoned:
            try:
                with device.lock:
                    arena = self._arenas.get(device) or self._arenas.setdefault(device, Arena(device))
                    outputs = [*(content for content, _, _ in results), *(content for _, content in changed)]
                    traced = trace.plan(arena, outputs)
            except OutOfMemoryError as error:
                trace.abandon(f"there is no memory for its plan: {error}")
            except BaseException:
                trace.drop()
                raise
        if trace.abandoned:
            self._note_failure(call.key, trace)
        else:
            self._stats.captures += 1
            self._failures.pop(call.key, None)
            self._keep(Kept(call.key, traced, call.bound, changed, results, template))
        return returned

    def _outputs(self, trace: Trace, result: Any) -> tuple[Any, list[tuple[Content, tuple[int, ...], Any]]]:
        """The structure of what was returned, with slots, and what fills them."""
        results: list[tuple[Content, tuple[int, ...], Any]] = []

        def note(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x.copy()
            if not trace.abandoned:
                with x.device.lock:
                    trace.claim(x.device.recorder, x.array.storage)
            results.append((content_of(x.array.storage), x.shape, x.dtype))
            return Slot(len(results) - 1)

        return rebuild(result, note), results

    def _note_failure(self, key: Any, trace: Trace) -> None:
        self._stats.eager_calls[trace.abandoned] += 1
        self._failures[key] += 1
        self._why[key] = trace.abandoned
        if not self._warned:
            self._warned = True
            file, line = trace.line
            text = (
                f"{self.name} was not captured: {trace.abandoned}. The call ran plainly; it is tried "
                f"{FAILURES_UNTIL_EAGER - 1} times more. stats().eager_calls counts such calls"
            )
            warnings.warn_explicit(text, CaptureWarning, file, line)


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
