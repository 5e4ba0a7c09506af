"""From shader text to what a kernel needs to know: entry points, bindings, the layout of Params.

The text alone declares these; Python reads them from its tree. A source is the prelude, then the library files named by
``// uses:`` lines of either (each once, in order of need), then the file itself: plain concatenation, no template.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import wgsl

from .errors import ShaderError
from .syntax import tree
from .syntax.layout import layout_of
from .syntax.module import Binding, Module
from .syntax.text import Text, concatenate, libraries
from .syntax.tokens import SyntaxFault

PARAMS_NBYTES = 256
# Where an error of naga stands: behind "wgsl" if the text does not parse, behind the label if it does not validate.
ERROR_LINE = re.compile(r"┌─ .*?:(\d+):\d+")


@dataclass(frozen=True)
class Field:
    """One member of Params: how many numbers it takes from the caller."""

    name: str
    count: int


@dataclass(frozen=True)
class ParamsLayout:
    """The members of Params and the ``struct`` format that packs them as the uniform address space wants."""

    fields: tuple[Field, ...] = ()
    packing: struct.Struct = field(default_factory=lambda: struct.Struct("<"))


@dataclass(frozen=True)
class Shader:
    """A complete source and what was read from it: the bindings of each entry point, by number, and Params."""

    name: str
    text: Text
    module: Module
    entries: dict[str, tuple[Binding, ...]]
    params: ParamsLayout

    def bindings(self, entry: str) -> tuple[Binding, ...]:
        """The bindings of the entry point of that name; ShaderError lists the entry points there are."""
        try:
            return self.entries[entry]
        except KeyError:
            raise ShaderError(self.name, f"no entry point {entry!r}; there are {', '.join(self.entries)}") from None

    def workgroup_size(self, entry: str, constants: Mapping[str, float]) -> tuple[int, int, int]:
        """The workgroup size of an entry point under override ``constants``."""
        return self.module.workgroup_size(entry, constants)


@lru_cache(maxsize=1024)
def load(name: str, prelude: str = "") -> Shader:
    """The shader file ``name`` behind ``prelude``, its libraries included."""
    return parse(name, wgsl.read(name), prelude)


def parse(name: str, body: str, prelude: str = "") -> Shader:
    """A shader from text: ``body`` may name library files in ``// uses:`` lines. ShaderError says what is wrong."""
    parts = [("prelude", prelude)] if prelude else []
    parts += [*libraries(prelude + body, wgsl.read), (name, body)]
    try:
        module = Module.join(_module(part) for _, part in parts)
        entries = {entry: _bindings(name, module, entry) for entry in module.entries}
        return Shader(name, concatenate(parts), module, entries, _params_layout(name, module))
    except SyntaxFault as fault:
        raise ShaderError(name, str(fault)) from None


@lru_cache(maxsize=256)
def _module(text: str) -> Module:
    """The tree of one part; library files are parsed once for all shaders."""
    return Module(text)


def _params_layout(name: str, module: Module) -> ParamsLayout:
    declared = module.structs.get("Params")
    if declared is None:
        return ParamsLayout()
    fields: list[Field] = []
    packing = "<"
    end = 0
    for member in layout_of(module, tree.Name(declared.start, declared.end, "Params")).fields:
        layout = member.layout
        if layout.is_struct or layout.padded[-1:] not in ((), (4,)) or len(layout.padded) > 2:
            raise ShaderError(name, f"Params.{member.name}: {layout.written} is no number, vec4 or array of vec4")
        count = math.prod(layout.padded)
        packing += f"{member.offset - end}x" * (member.offset > end) + f"{count}{_LETTERS[layout.element.name]}"
        end = member.offset + layout.size
        fields.append(Field(member.name, count))
    if end > PARAMS_NBYTES:
        raise ShaderError(name, f"Params takes {end} bytes; at most {PARAMS_NBYTES} fit")
    return ParamsLayout(tuple(fields), struct.Struct(packing))


_LETTERS = {"float32": "f", "int32": "i", "uint32": "I", "float16": "e"}


def _bindings(name: str, module: Module, entry: str) -> tuple[Binding, ...]:
    """The bindings that an entry point reaches, by number. All are in group 0, and no number has two of them."""
    if "workgroup_size" not in module.functions[entry].attributes:
        raise ShaderError(name, f"entry point {entry} has no @workgroup_size")
    used = sorted(module.bindings_of(entry), key=lambda binding: binding.number)
    for binding in used:
        if binding.group:
            raise ShaderError(name, f"binding {binding.name} is in group {binding.group}; only group 0 is used")
    for one, other in itertools.pairwise(used):
        if one.number == other.number:
            raise ShaderError(name, f"{entry} uses {one.name} and {other.name}, both at binding {one.number}")
    return tuple(used)
