"""From shader text to what a kernel needs to know: entry points, bindings, the layout of Params.

The text alone declares these; Python reads them from it. A source is the prelude, then the library files named by
``// uses:`` lines (each once, in order of need), then the file itself: plain concatenation, no template.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import wgsl

from .errors import ShaderError

PARAMS_NBYTES = 256
# Where an error of naga stands: behind "wgsl" if the text does not parse, behind the label if it does not validate.
ERROR_LINE = re.compile(r"┌─ .*?:(\d+):\d+")

_USES = re.compile(r"^//\s*uses:\s*(.+)$", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ALIAS = re.compile(r"\balias\s+(\w+)\s*=\s*([^;]+);")
_BINDING = re.compile(
    r"@group\(\s*(\d+)\s*\)\s*@binding\(\s*(\d+)\s*\)\s*var\s*<\s*(\w+)\s*(?:,\s*(\w+)\s*)?>\s*(\w+)\s*:\s*([^;]+);"
)
_STRUCT = re.compile(r"\bstruct\s+Params\s*\{([^}]*)\}")
_OVERRIDE = re.compile(r"(?:@id\(\d+\)\s*)?\boverride\s+(\w+)\s*(?::\s*(\w+)\s*)?(?:=\s*([^;]+))?;")
_CONSTANT = re.compile(r"^const\s+(\w+)\s*(?::\s*\w+\s*)?=\s*(\w+)\s*;", re.MULTILINE)
_FUNCTION = re.compile(r"((?:@\w+(?:\([^)]*\))?\s*)*)\bfn\s+(\w+)\s*\(")
_WORKGROUP_SIZE = re.compile(r"@workgroup_size\(([^)]*)\)")
_WORKGROUP_MEMORY = re.compile(r"\bvar\s*<\s*workgroup\s*>\s*(\w+)\s*:\s*([^;]+);")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_LOCAL = re.compile(r"\b(?:let|var|const)\s+(\w+)|(\w+)\s*:")
_SCALARS = {"f32": "f", "i32": "i", "u32": "I"}


@dataclass(frozen=True)
class Binding:
    """One resource an entry point uses: its name, number, and whether the shader may write it."""

    name: str
    number: int
    writable: bool
    is_uniform: bool
    type: str


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
class EntryPoint:
    """One ``@compute`` function: the bindings it uses itself or through what it calls, and its workgroup size."""

    name: str
    bindings: tuple[Binding, ...]
    workgroup_size: tuple[str, ...]
    workgroup_memory: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Shader:
    """A complete source and what was read from it."""

    name: str
    text: str
    origins: tuple[tuple[str, int], ...]
    entries: dict[str, EntryPoint]
    params: ParamsLayout
    overrides: dict[str, str]
    constants: dict[str, str]

    def entry(self, name: str) -> EntryPoint:
        """The entry point of that name; ShaderError lists those there are."""
        try:
            return self.entries[name]
        except KeyError:
            raise ShaderError(self.name, f"no entry point {name!r}; there are {', '.join(self.entries)}") from None

    def workgroup_size(self, entry: str, constants: Mapping[str, float]) -> tuple[int, ...]:
        """The workgroup size of an entry point under override ``constants``."""
        return tuple(self.evaluate(extent, constants) for extent in self.entry(entry).workgroup_size)

    def evaluate(self, extent: str, constants: Mapping[str, float]) -> int:
        """The value of a number or of the name of an override or a module constant, as in ``@workgroup_size``."""
        if extent in constants:
            return int(constants[extent])
        value = self.overrides.get(extent, self.constants.get(extent, extent))
        return int(value.rstrip("iu"))

    def excerpt(self, line: int, around: int = 3) -> str:
        """Numbered lines around ``line`` (from 1) of the whole source, each with its file and its line there."""
        lines = self.text.splitlines()
        rows = []
        for number in range(max(line - around, 1), min(line + around, len(lines)) + 1):
            file, own = self.origins[number - 1]
            rows.append(f"{'>' if number == line else ' '} {file}:{own:<4} {lines[number - 1]}")
        return "\n".join(rows)


@lru_cache(maxsize=1024)
def load(name: str, prelude: str = "") -> Shader:
    """The shader file ``name`` behind ``prelude``, its libraries included."""
    return parse(name, wgsl.read(name), prelude)


def parse(name: str, body: str, prelude: str = "") -> Shader:
    """A shader from text: ``body`` may name library files in ``// uses:`` lines."""
    parts = [("prelude", prelude)] if prelude else []
    parts += [(library, wgsl.read(library)) for library in _libraries(body)]
    parts.append((name, body))
    text = "".join(part if part.endswith("\n") else part + "\n" for _, part in parts)
    origins = tuple((file, row + 1) for file, part in parts for row in range(len(part.splitlines())))
    code = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    aliases = {match[1]: match[2].strip() for match in _ALIAS.finditer(code)}
    params = _params_layout(name, code, aliases)
    overrides = {match[1]: (match[3] or "").strip() for match in _OVERRIDE.finditer(code)}
    module_constants = dict(_CONSTANT.findall(code))
    return Shader(name, text, origins, _entries(name, code), params, overrides, module_constants)


def _libraries(body: str) -> list[str]:
    """Library files that ``body`` needs, those they need first."""
    found: list[str] = []

    def visit(text: str) -> None:
        for line in _USES.findall(text):
            for library in (item.strip() for item in line.split(",")):
                if library not in found:
                    visit(wgsl.read(library))
                    found.append(library)

    visit(body)
    return found


def _params_layout(name: str, code: str, aliases: dict[str, str]) -> ParamsLayout:
    declared = _STRUCT.search(code)
    if declared is None:
        return ParamsLayout()
    fields: list[Field] = []
    packing = "<"
    offset = 0
    for member in _members(declared[1]):
        member_name, _, written = (part.strip() for part in member.partition(":"))
        kind = aliases.get(written, written).replace(" ", "")
        if kind in _SCALARS:
            letter, count, align = _SCALARS[kind], 1, 4
        else:
            array = re.fullmatch(r"(?:array<)?vec4<(\w+)>(?:,(\d+)u?>)?", kind)
            if array is None or aliases.get(array[1], array[1]) not in _SCALARS:
                raise ShaderError(name, f"Params.{member_name}: {written} is no number, vec4 or array of vec4")
            letter, count, align = _SCALARS[aliases.get(array[1], array[1])], 4 * int(array[2] or 1), 16
        gap = -offset % align
        packing += f"{gap}x" * bool(gap) + f"{count}{letter}"
        offset += gap + 4 * count
        fields.append(Field(member_name, count))
    if offset > PARAMS_NBYTES:
        raise ShaderError(name, f"Params takes {offset} bytes; at most {PARAMS_NBYTES} fit")
    return ParamsLayout(tuple(fields), struct.Struct(packing))


def _members(text: str) -> Iterator[str]:
    """The comma-separated members of a struct, commas inside angle brackets left alone."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()


def _entries(name: str, code: str) -> dict[str, EntryPoint]:
    bindings: dict[str, Binding] = {}
    for group, number, space, access, variable, kind in _BINDING.findall(code):
        if group != "0":
            raise ShaderError(name, f"binding {variable} is in group {group}; only group 0 is used")
        if variable in bindings:
            raise ShaderError(name, f"binding {variable} is declared twice")
        bindings[variable] = Binding(variable, int(number), access == "read_write", space == "uniform", kind.strip())
    memory = dict(_WORKGROUP_MEMORY.findall(code))
    bodies: dict[str, set[str]] = {}
    sizes: dict[str, tuple[str, ...]] = {}
    for function in _FUNCTION.finditer(code):
        attributes, function_name = function[1], function[2]
        start = code.index("{", function.end())
        body = _braced(code, start)
        own = {a or b for a, b in _LOCAL.findall(code[function.end() : start] + body)}
        bodies[function_name] = set(_WORD.findall(body)) - own
        if "@compute" in attributes:
            declared = _WORKGROUP_SIZE.search(attributes)
            if declared is None:
                raise ShaderError(name, f"entry point {function_name} has no @workgroup_size")
            sizes[function_name] = tuple(part.strip() for part in declared[1].split(",") if part.strip())
    entries = {}
    for entry, size in sizes.items():
        words = _reachable_words(entry, bodies)
        used = sorted((bindings[word] for word in words & bindings.keys()), key=lambda b: (b.number, b.name))
        for one, other in itertools.pairwise(used):
            if one.number == other.number:
                raise ShaderError(name, f"{entry} uses {one.name} and {other.name}, both at binding {one.number}")
        shared = tuple((word, memory[word].strip()) for word in sorted(words & memory.keys()))
        entries[entry] = EntryPoint(entry, tuple(used), size, shared)
    return entries


def _braced(code: str, start: int) -> str:
    depth = 0
    for position in range(start, len(code)):
        depth += (code[position] == "{") - (code[position] == "}")
        if depth == 0:
            return code[start : position + 1]
    return code[start:]


def _reachable_words(entry: str, bodies: dict[str, set[str]]) -> set[str]:
    """Every identifier in the entry point and in what it calls, near or far, but for locals."""
    words: set[str] = set()
    waiting = [entry]
    done: set[str] = set()
    while waiting:
        function = waiting.pop()
        if function not in done:
            done.add(function)
            words |= bodies[function]
            waiting += bodies[function] & bodies.keys()
    return words
