"""``run_wgsl``: one dispatch of a compute shader on numpy arrays, sanitized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..adapter import Adapter
from ..errors import DeviceError, ShaderError
from ..syntax.layout import Layout, LayoutError, check_names
from ..syntax.module import Binding, Number
from ..syntax.tokens import SyntaxFault
from .instrument import Instrumented, instrument
from .lint import limits
from .runner import Bench, Program, Runner, runner_for
from .sanitizer import CHECKS, Circumstances, Contents, Sanitizer, SanitizerError
from .slot import Slot, input_slot, output_slot
from .source import Source, load

Memory = npt.NDArray[np.uint8]
Grid = tuple[int, int, int]
Groups = int | Sequence[int] | Callable[[Grid], int | Sequence[int]]
MAX_GROUPS = 65535


class Result(dict[str, Any]):
    """The outputs by the names of their bindings.

    ``gpu_seconds`` is the time between the timestamps before and after the dispatch, None where the adapter has none;
    ``adapter`` is one line about it, ``workgroups`` the grid that was dispatched.
    """

    gpu_seconds: float | None
    adapter: str
    workgroups: Grid


@dataclass
class Dispatch:
    """A dispatch that is ready: compiled, its arguments checked and packed."""

    runner: Runner
    source: Source
    entry: str
    bindings: list[Binding]
    slots: list[Slot]
    uniforms: dict[str, Memory]
    overrides: dict[str, Number]
    groups: Grid
    size: tuple[int, ...] | None
    grid: Groups | None

    def content_of(self, name: str) -> Memory:
        """The bytes of a binding before the run."""
        if name in self.uniforms:
            return self.uniforms[name]
        slot = next(slot for slot in self.slots if slot.name == name)
        return slot.content(slot.size(has_guard=False))

    def run(self) -> Result:
        """One plain run, in buffers as long as their contents."""
        program = self.runner.program(self.source, self.entry, self.bindings, self.overrides)
        with Bench(self.runner) as bench:
            self._create(bench, has_guard=False)
            contents, seconds = self._once(bench, program, self.bindings, self.groups, Circumstances(), {})
        return self._result(contents, seconds)

    @contextmanager
    def repeated(self) -> Iterator[Callable[[], float | None]]:
        """For benchmarks: a function that runs the dispatch once more and returns its seconds on the GPU."""
        program = self.runner.program(self.source, self.entry, self.bindings, self.overrides)
        with Bench(self.runner) as bench:
            self._create(bench, has_guard=False)
            yield lambda: self._once(bench, program, self.bindings, self.groups, Circumstances(), {})[1]

    def sanitized(self, allow: Sequence[str]) -> Result:
        """A run in guarded buffers, and further runs that have to give the same. SanitizerError if they do not."""
        made = instrument(self.source, self.entry, self.bindings)
        bindings = [*self.bindings, made.control]
        variants = self._variants()
        programs = {0: self._instrumented_program(made, bindings, self.overrides)}
        seconds: list[float | None] = []
        with Bench(self.runner) as bench:
            self._create(bench, has_guard=made.can_guard)
            bench.create(made.control.name, made.nbytes, is_uniform=True)

            def run(under: Circumstances) -> Contents:
                overrides, groups = self.overrides, self.groups
                if under.variant:
                    _, overrides, groups = variants[under.variant - 1]
                if under.variant not in programs:
                    programs[under.variant] = self._instrumented_program(made, bindings, overrides)
                lengths = {slot.name: slot.length for slot in self.slots}
                control = {made.control.name: made.content(lengths, under.order)}
                contents, taken = self._once(bench, programs[under.variant], bindings, groups, under, control)
                seconds.append(taken)
                return contents

            first = run(Circumstances())
            lanes = prod(self.source.module.workgroup_size(self.entry, self.overrides))
            sanitizer = Sanitizer(
                self.slots,
                run,
                prod(self.groups) if made.can_reorder_groups else 1,
                lanes if made.can_reorder_lanes else 1,
                [text for text, _, _ in variants],
                allow,
            )
            sanitizer.examine(first)
        if sanitizer.findings:
            raise SanitizerError(f"{self.source.label}.{self.entry}", sanitizer.findings)
        return self._result(first, seconds[0])

    def _instrumented_program(
        self, made: Instrumented, bindings: list[Binding], overrides: Mapping[str, Number]
    ) -> Program:
        try:
            return self.runner.program(made.source, self.entry, bindings, overrides)
        except ShaderError as error:
            raise ShaderError(
                self.source.label,
                f"the text compiles, but not as the sanitizer rewrites it (sanitize=False leaves it alone): {error}",
            ) from error

    def _create(self, bench: Bench, has_guard: bool) -> None:
        for name, content in self.uniforms.items():
            bench.create(name, -(-content.size // 16) * 16, is_uniform=True)
            bench.write(name, np.pad(content, (0, -content.size % 16)))
        for slot in self.slots:
            bench.create(slot.name, slot.size(has_guard), is_uniform=False)

    def _once(
        self,
        bench: Bench,
        program: Program,
        bindings: list[Binding],
        groups: Grid,
        under: Circumstances,
        more: dict[str, Memory],
    ) -> tuple[Contents, float | None]:
        for name, content in more.items():
            bench.write(name, content)
        for slot in self.slots:
            bench.write(slot.name, slot.content(bench.size(slot.name), under.poison, under.guard_of(slot.name)))
        return bench.dispatch(program, bindings, groups, [slot.name for slot in self.slots])

    def _variants(self) -> list[tuple[str, dict[str, Number], Grid]]:
        """Other workgroup sizes: what they are called, their overrides, their grid."""
        if self.size is None and not callable(self.grid):
            return []
        module = self.source.module
        written = module.functions[self.entry].attributes["workgroup_size"]
        for extent in written:
            name = getattr(extent, "name", "")
            if name not in module.overrides:
                continue
            value = int(module.evaluate(extent, self.overrides))
            other = value // 2 if value % 2 == 0 else 2 * value
            overrides = {**self.overrides, name: other}
            if list(limits(module, self.entry, overrides)):
                continue
            size = module.workgroup_size(self.entry, overrides)
            return [(f"{name} = {other} instead of {value}", overrides, grid_of(self.size, self.grid, size))]
        return []

    def _result(self, contents: Contents, seconds: float | None) -> Result:
        result = Result({slot.name: slot.value(contents[slot.name]) for slot in self.slots if slot.is_output})
        result.gpu_seconds = seconds
        result.adapter = self.runner.adapter.summary
        result.workgroups = self.groups
        return result


class Arguments(TypedDict, total=False):
    """What ``run_wgsl`` takes, apart from the source and the checks."""

    entry: str | None
    inputs: Mapping[str, Any] | None
    outputs: Mapping[str, Any] | Iterable[str] | None
    params: Mapping[str, Any] | npt.NDArray[Any] | None
    overrides: Mapping[str, Number] | None
    workgroups: Groups | None
    size: int | Sequence[int] | None
    aliases: Mapping[str, str] | None
    prelude: str
    libraries: Iterable[str | Path]
    features: Iterable[str]
    adapter: Adapter | str | None
    folder: Path | None


def run_wgsl(
    source: str | Path, *, sanitize: bool = True, allow: Iterable[str] = (), **arguments: Unpack[Arguments]
) -> Result:
    """Run a compute shader once on numpy arrays and return its outputs by the names of their bindings.

    ``source``: the text, or a path (a Path, or a string that ends in ``.wgsl``, looked for in ``folder`` first).
    ``sanitize``: run it again under changed circumstances and compare, see ``sanitizer``; ``allow`` names checks whose
    findings are no error. All else:

    ``entry``: the entry point, if there are several.
    ``inputs``: arrays by the names of storage bindings; they must be the same after the run.
    ``outputs``: shapes, for what is written whole; arrays, for what is changed in place; None, or a list of names,
    where the type has a size of its own. A struct that ends in an array takes a dict.
    ``params``: the members of the uniform struct by name, packed as the text lays them out, or a structured array,
    whose offsets are compared with it. Several uniforms: by their names.
    ``overrides``: values of override constants. ``aliases``: ``{"elem": "f32"}`` becomes ``alias elem = f32;``.
    ``workgroups``: the grid, or a function that makes it from the workgroup size. ``size``: the number of invocations
    on each axis, rounded up to whole workgroups.
    ``prelude``: text in front of all else. ``libraries``: files or texts in front of the source.
    ``features``: WebGPU features that the adapter must have. ``adapter``: see ``gpu_backend.device``.

    Floats are rounded to the type of the shader, whole numbers have to fit it. ShaderError, LayoutError, DeviceError
    and SanitizerError say what is wrong.
    """
    allowed = names_of(allow)
    unknown = [name for name in allowed if name not in CHECKS]
    if unknown:
        raise ValueError(f"allow: no check {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    dispatch = prepare(source, **arguments)
    return dispatch.sanitized(allowed) if sanitize else dispatch.run()


def prepare(
    source: str | Path | Source,
    *,
    entry: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | Iterable[str] | None = None,
    params: Mapping[str, Any] | npt.NDArray[Any] | None = None,
    overrides: Mapping[str, Number] | None = None,
    workgroups: Groups | None = None,
    size: int | Sequence[int] | None = None,
    aliases: Mapping[str, str] | None = None,
    prelude: str = "",
    libraries: Iterable[str | Path] = (),
    features: Iterable[str] = (),
    adapter: Adapter | str | None = None,
    folder: Path | None = None,
) -> Dispatch:
    """A dispatch with its arguments checked; ``run_wgsl`` says what they are."""
    runner = runner_for(adapter)
    missing = [feature for feature in names_of(features) if feature not in runner.features]
    if missing:
        raise DeviceError(f"{runner.adapter.name} has no {', '.join(missing)}")
    if isinstance(source, Source):
        shader = source
    else:
        shader = load(source, prelude=prelude, aliases=aliases, libraries=libraries, folder=folder)
    runner.module(shader)  # what the compiler has to say comes before what follows from the tree
    point = shader.entry(entry)
    own = {name: _override(name, value) for name, value in (overrides or {}).items()}
    unknown = [name for name in own if name not in shader.module.overrides]
    if unknown:
        raise ShaderError(
            shader.label, f"no override {', '.join(unknown)}; there are {', '.join(shader.module.overrides) or 'none'}"
        )
    try:
        bindings = shader.module.bindings_of(point)
        workgroup_size = shader.module.workgroup_size(point, own)
    except SyntaxFault as fault:
        raise shader.fault(str(fault), fault.start) from None
    extents = None if size is None else _extents("size", size)
    for excess in limits(shader.module, point, own):
        raise shader.fault(excess.message, excess.start)
    groups = grid_of(extents, workgroups, workgroup_size)
    for binding in bindings:
        if binding.space not in ("storage", "uniform"):
            raise shader.fault(f"{binding.name}: only buffers can be bound here", binding.declaration.start)
    runner.program(shader, point, bindings, own)
    return Dispatch(
        runner,
        shader,
        point,
        bindings,
        _slots(shader, bindings, own, inputs or {}, _asked(outputs)),
        _uniforms(shader, bindings, own, params),
        own,
        groups,
        extents,
        workgroups,
    )


def grid_of(size: tuple[int, ...] | None, workgroups: Groups | None, workgroup_size: Grid) -> Grid:
    """The number of workgroups on each axis. ValueError or DeviceError if there is none to dispatch."""
    if (size is None) == (workgroups is None):
        raise ValueError("pass either size=, the number of invocations, or workgroups=")
    if size is not None:
        counts: Sequence[int] = [-(-extent // width) for extent, width in zip(size, workgroup_size, strict=False)]
    else:
        made = workgroups(workgroup_size) if callable(workgroups) else workgroups
        counts = _extents("workgroups", made)
    x, y, z = ([int(count) for count in counts] + [1, 1, 1])[:3]
    if min(x, y, z) < 1:
        named = f"size={size}" if size is not None else "workgroups"
        raise ValueError(f"{named}: a grid of {x} x {y} x {z} workgroups runs nothing")
    if max(x, y, z) > MAX_GROUPS:
        raise DeviceError(f"a grid of {x} x {y} x {z} workgroups: an axis holds at most {MAX_GROUPS}")
    return x, y, z


def _extents(name: str, given: Any) -> tuple[int, ...]:
    """One to three whole numbers; ValueError names what was given."""
    listed = tuple(given) if isinstance(given, tuple | list | np.ndarray) and np.ndim(given) else (given,)
    if not 1 <= len(listed) <= 3 or not all(isinstance(one, int | np.integer) for one in listed):
        raise ValueError(f"{name} is one to three whole numbers, not {given!r}")
    return tuple(int(one) for one in listed)


def _override(name: str, value: Any) -> Number:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float):
        raise LayoutError(f"override {name} is a number or a bool, not {type(value).__name__}")
    return plain


def names_of(given: Iterable[str]) -> tuple[str, ...]:
    """Names, or one by itself."""
    return (given,) if isinstance(given, str) else tuple(given)


def _asked(outputs: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    if outputs is None:
        return {}
    return dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys(names_of(outputs))


def _slots(
    shader: Source,
    bindings: Sequence[Binding],
    overrides: Mapping[str, Number],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> list[Slot]:
    storage = [binding for binding in bindings if not binding.is_uniform]
    names = [binding.name for binding in storage]
    check_names({**inputs, **outputs}, names, f"{shader.label}: inputs and outputs")
    slots = []
    for binding in storage:
        layout = shader.layout(binding, overrides)
        if binding.name in outputs and not binding.writable:
            raise LayoutError(f"{binding.name} is an output, but the shader declares it read-only")
        asked = outputs.get(binding.name)
        if binding.name in inputs and asked is not None:
            raise LayoutError(f"{binding.name} has a content in inputs; in outputs it takes no other: pass None")
        if binding.name in inputs:
            slots.append(input_slot(binding, layout, inputs[binding.name], is_output=binding.name in outputs))
        elif _is_content(asked) or (layout.tail is None and isinstance(asked, np.generic)):
            slots.append(input_slot(binding, layout, asked, is_output=True))
        else:
            slots.append(output_slot(binding, layout, asked))
    return slots


def _is_content(asked: Any) -> bool:
    """Whether what stands in ``outputs`` is a content and not a shape."""
    if isinstance(asked, Mapping):
        return any(isinstance(part, np.ndarray) for part in asked.values())
    return isinstance(asked, np.ndarray)


def _is_by_name(params: Any, uniform: Binding, layout: Layout) -> bool:
    """Whether the only uniform is given by its name: a struct may have a member of that name."""
    if not isinstance(params, Mapping) or set(params) != {uniform.name}:
        return False
    value = params[uniform.name]
    return (
        not layout.is_struct or isinstance(value, Mapping) or getattr(value, "dtype", np.dtype("u4")).names is not None
    )


def _uniforms(
    shader: Source, bindings: Sequence[Binding], overrides: Mapping[str, Number], params: Any
) -> dict[str, Memory]:
    uniforms = [binding for binding in bindings if binding.is_uniform]
    if not uniforms:
        if params is not None:
            raise LayoutError(f"{shader.label}: params were given, but the entry point reads no uniform")
        return {}
    if params is None:
        raise LayoutError(f"{shader.label}: params are missing for {', '.join(one.name for one in uniforms)}")
    by_name = {uniforms[0].name: params}
    if len(uniforms) > 1 or _is_by_name(params, uniforms[0], shader.layout(uniforms[0], overrides)):
        if not isinstance(params, Mapping):
            raise LayoutError(f"{shader.label}: there are several uniforms; pass params by their names")
        by_name = dict(params)
        check_names(by_name, [one.name for one in uniforms], f"{shader.label}: params")
    return {one.name: shader.layout(one, overrides).pack(by_name[one.name], one.name) for one in uniforms}
