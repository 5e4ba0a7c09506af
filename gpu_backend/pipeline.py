"""Kernels: compiled pipelines with the names of their bindings, and the bind groups they were called with."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import PipelineError, ShaderError
from .health import Health
from .shader import ERROR_LINE, PARAMS_NBYTES, Shader, load
from .storage import Buffer
from .syntax.module import Binding

Constants = tuple[tuple[str, float], ...]


class Kernel:
    """One entry point, compiled for one device, called by the names that its text declares."""

    __slots__ = (
        "arguments",
        "field_names",
        "fields",
        "invocations",
        "label",
        "layout",
        "layout_number",
        "packing",
        "pipeline",
        "storage_names",
        "storage_numbers",
        "uniform_number",
        "vector_fields",
        "writable",
    )

    def __init__(
        self,
        label: str,
        shader: Shader,
        entry: str,
        constants: Mapping[str, float],
        pipeline: Any,
        layout: Any,
        layout_number: int,
    ) -> None:
        bindings = shader.bindings(entry)
        self.invocations = math.prod(shader.workgroup_size(entry, constants))
        self.label = label
        self.pipeline = pipeline
        self.layout = layout
        self.layout_number = layout_number
        storage = [binding for binding in bindings if not binding.is_uniform]
        self.storage_names = tuple(binding.name for binding in storage)
        self.storage_numbers = tuple(binding.number for binding in storage)
        self.writable = tuple(binding.writable for binding in storage)
        self.uniform_number = next((binding.number for binding in bindings if binding.is_uniform), None)
        self.fields = shader.params.fields
        self.field_names = tuple(field.name for field in shader.params.fields)
        self.vector_fields = frozenset(field.name for field in shader.params.fields if field.count > 1)
        self.packing = shader.params.packing
        self.arguments = frozenset(self.storage_names) - {"fault"} | set(self.field_names)

    def flatten(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The numbers of Params in order, those of vectors one by one."""
        numbers: list[Any] = []
        for name in self.field_names:
            if name in self.vector_fields:
                numbers += arguments[name]
            else:
                numbers.append(arguments[name])
        return numbers

    def numbers(self, params: bytes) -> dict[str, Any]:
        """Packed Params by name; vectors as tuples."""
        rest = iter(self.packing.unpack(params))
        return {f.name: next(rest) if f.count == 1 else tuple(itertools.islice(rest, f.count)) for f in self.fields}

    def complain(self, given: Iterable[str]) -> ShaderError:
        """What is wrong with a call that gave these names."""
        names = set(given)
        missing, unknown = sorted(self.arguments - names), sorted(names - self.arguments)
        faults = [f"{', '.join(missing)} missing"] * bool(missing) + [f"no {', '.join(unknown)} here"] * bool(unknown)
        return ShaderError(self.label, f"{'; '.join(faults)}. It takes {', '.join(sorted(self.arguments))}")


class PipelineCache:
    """Kernels of one device by file, entry point, prelude and override constants; counts hits and misses."""

    def __init__(self, gpu: Any, health: Health) -> None:
        self._gpu = gpu
        self._health = health
        self._kernels: dict[tuple[str, str, str, Constants], Kernel] = {}
        self._modules: dict[tuple[str, str], Any] = {}
        self._layouts: dict[tuple[tuple[int, str], ...], tuple[int, Any, Any]] = {}
        self.hits = 0
        self.misses = 0

    def kernel(self, file: str, entry: str, prelude: str = "", constants: Constants = (), label: str = "") -> Kernel:
        """The kernel of an entry point, compiled at its first use. ShaderError shows the lines around a fault."""
        kernel = self._kernels.get((file, entry, prelude, constants))
        if kernel is not None:
            self.hits += 1
            return kernel
        self.misses += 1
        with self._health.watch():
            kernel = self.compile(load(file, prelude), entry, dict(constants), label or f"{file}.{entry}")
        self._kernels[file, entry, prelude, constants] = kernel
        return kernel

    def compile(self, shader: Shader, entry: str, constants: Mapping[str, float], label: str) -> Kernel:
        """A kernel from a parsed shader, not kept in the cache."""
        bindings = shader.bindings(entry)
        overrides = shader.module.overrides
        unknown = sorted(constants.keys() - overrides.keys())
        if unknown:
            raise ShaderError(label, f"no override {', '.join(unknown)}; there are {', '.join(overrides)}")
        signature = tuple((binding.number, _buffer_type(binding)) for binding in bindings)
        number, group_layout, pipeline_layout = self._guarded(shader, label, lambda: self._layout(signature))
        module = self._module(shader, label)
        pipeline = self._guarded(
            shader,
            label,
            lambda: self._gpu.create_compute_pipeline(
                label=label,
                layout=pipeline_layout,
                compute={"module": module, "entry_point": entry, "constants": dict(constants)},
            ),
        )
        return Kernel(label, shader, entry, constants, pipeline, group_layout, number)

    def __len__(self) -> int:
        return len(self._kernels)

    def _module(self, shader: Shader, label: str) -> Any:
        key = (shader.name, shader.text.whole)
        module = self._modules.get(key)
        if module is None:
            module = self._guarded(
                shader, label, lambda: self._gpu.create_shader_module(label=label, code=shader.text.whole)
            )
            self._modules[key] = module
        return module

    def _layout(self, signature: tuple[tuple[int, str], ...]) -> tuple[int, Any, Any]:
        known = self._layouts.get(signature)
        if known is None:
            entries = [
                {
                    "binding": number,
                    "visibility": 4,  # compute
                    "buffer": {"type": kind, "has_dynamic_offset": kind == "uniform"},
                }
                for number, kind in signature
            ]
            label = " ".join(f"{number}:{kind}" for number, kind in signature)
            group = self._gpu.create_bind_group_layout(label=label, entries=entries)
            layout = self._gpu.create_pipeline_layout(label=label, bind_group_layouts=[group])
            known = self._layouts[signature] = (len(self._layouts), group, layout)
        return known

    def _guarded(self, shader: Shader, label: str, create: Any) -> Any:
        import wgpu

        try:
            return create()
        except wgpu.GPUError as error:
            self._health.raise_if_lost(error)
            message = str(error)
            found = ERROR_LINE.search(message)
            excerpt = shader.text.excerpt(int(found[1])) if found else ""
            # Without its frames, which hold each other and so all arrays of the op until garbage is collected.
            raise PipelineError(label, message.strip(), excerpt) from error.with_traceback(None)


def _buffer_type(binding: Binding) -> str:
    if binding.is_uniform:
        return "uniform"
    return "storage" if binding.writable else "read-only-storage"


bound_nbytes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""Bytes of the buffers of each bind group, for the profiler."""


def bind(gpu: Any, kernel: Kernel, buffers: list[Buffer], uniforms: Any) -> Any:
    """A bind group that gives ``kernel`` these buffers, and a window into ``uniforms`` if it has Params."""
    entries: list[dict[str, Any]] = [
        {"binding": number, "resource": {"buffer": buffer.memory, "offset": 0, "size": buffer.nbytes}}
        for number, buffer in zip(kernel.storage_numbers, buffers, strict=True)
    ]
    if kernel.uniform_number is not None:
        window = {"buffer": uniforms, "offset": 0, "size": PARAMS_NBYTES}
        entries.append({"binding": kernel.uniform_number, "resource": window})
    group = gpu.create_bind_group(label=kernel.label, layout=kernel.layout, entries=entries)
    bound_nbytes[group] = sum(buffer.nbytes for buffer in buffers)
    return group


class BindGroupCache:
    """Bind groups of one device by layout and buffers; a destroyed buffer takes its bind groups along."""

    CAPACITY = 4096

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._groups: dict[tuple[int, ...], Any] = {}
        self._holders: dict[tuple[int, ...], list[Buffer]] = {}
        self.lookups = 0
        self.misses = 0

    @property
    def hits(self) -> int:
        """How often a bind group was found."""
        return self.lookups - self.misses

    def get(self, key: tuple[int, ...]) -> Any:
        """The bind group for a layout number and the serial numbers of buffers, or None."""
        self.lookups += 1
        return self._groups.get(key)

    def create(self, kernel: Kernel, buffers: list[Buffer], uniforms: Any) -> Any:
        """A bind group that gives ``kernel`` these buffers, and a window into ``uniforms`` if it has Params."""
        key = (kernel.layout_number, *[buffer.serial for buffer in buffers])
        self.misses += 1
        if len(self._groups) >= self.CAPACITY:
            self._forget(next(iter(self._groups)))
        group = self._groups[key] = bind(self._gpu, kernel, buffers, uniforms)
        self._holders[key] = buffers
        for buffer in buffers:
            buffer.bind_group_keys.add(key)
        return group

    def drop(self, buffer: Buffer) -> None:
        """Forget every bind group that holds ``buffer``."""
        for key in list(buffer.bind_group_keys):
            self._forget(key)

    def __len__(self) -> int:
        return len(self._groups)

    def _forget(self, key: tuple[int, ...]) -> None:
        del self._groups[key]
        for buffer in self._holders.pop(key):
            buffer.bind_group_keys.discard(key)
