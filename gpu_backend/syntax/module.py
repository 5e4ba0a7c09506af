"""What the names of a WGSL text mean: bindings, entry points, what each reaches, values known before a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from . import tree
from .parser import parse
from .tokens import SyntaxFault

Number = int | float | bool

_SHORT_VECTOR = re.compile(r"(vec[234]|mat[234]x[234])([fiuh])")
_SHORT_SCALARS = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}


@dataclass(frozen=True)
class Binding:
    """A resource of the text. ``space`` is ``uniform`` or ``storage``, empty for a texture or a sampler."""

    name: str
    group: int
    number: int
    space: str
    writable: bool
    type: tree.Name
    declaration: tree.Global

    @property
    def is_uniform(self) -> bool:
        """Whether it lies in uniform space."""
        return self.space == "uniform"


class Module:
    """A parsed text. Raises SyntaxFault where the text is no WGSL or what it needs here is missing."""

    def __init__(self, text: str, nodes: Iterable[tree.Node] | None = None) -> None:
        self.text = text
        self.directives: list[tree.Directive] = []
        self.structs: dict[str, tree.Struct] = {}
        self.aliases: dict[str, tree.Name] = {}
        self.globals: dict[str, tree.Global] = {}
        self.functions: dict[str, tree.Function] = {}
        self.nodes = list(parse(text) if nodes is None else nodes)
        for node in self.nodes:
            match node:
                case tree.Directive():
                    self.directives.append(node)
                case tree.Struct():
                    self.structs[node.name] = node
                case tree.Alias():
                    self.aliases[node.name] = node.type
                case tree.Global():
                    if node.name in self.globals:
                        raise SyntaxFault(f"{node.name} is declared twice", node.start)
                    self.globals[node.name] = node
                case tree.Function():
                    self.functions[node.name] = node
        self._free: dict[str, list[tree.Name]] = {}

    @classmethod
    def join(cls, parts: Iterable[Module]) -> Module:
        """The module of several texts, one after the other. Offsets of its nodes are those in their own texts."""
        return cls("", [node for part in parts for node in part.nodes])

    @property
    def entries(self) -> list[str]:
        """The names of the compute entry points."""
        return [name for name, function in self.functions.items() if "compute" in function.attributes]

    @property
    def overrides(self) -> dict[str, tree.Global]:
        """The overrides by name."""
        return {name: one for name, one in self.globals.items() if one.kind == "override"}

    def override_keys(self, values: Mapping[str, Number]) -> dict[str, Number]:
        """Values of overrides by what WebGPU knows them by: the number of ``@id`` where there is one, else the name."""
        keys = {}
        for name, one in self.overrides.items():
            written = one.attributes.get("id")
            keys[name] = str(self.evaluate(written[0])) if written else name
        return {keys[name]: value for name, value in values.items() if name in keys}

    @property
    def bindings(self) -> list[Binding]:
        """All bindings in the order of the text."""
        found = []
        for one in self.globals.values():
            if "binding" not in one.attributes:
                continue
            if one.type is None or "group" not in one.attributes:
                raise SyntaxFault(f"binding {one.name} lacks its type or @group", one.start)
            group = int(self.evaluate(one.attributes["group"][0]))
            number = int(self.evaluate(one.attributes["binding"][0]))
            writable = one.access in ("read_write", "write")
            found.append(Binding(one.name, group, number, one.space, writable, self.resolve(one.type), one))
        return found

    def bindings_of(self, entry: str) -> list[Binding]:
        """The bindings that an entry point reaches."""
        used = self.globals_of(entry)
        return [binding for binding in self.bindings if binding.name in used]

    def globals_of(self, entry: str) -> set[str]:
        """The module variables, constants and overrides that an entry point reaches."""
        return {
            name.name
            for function in self.reachable(entry)
            for name in self.free_names(function.name)
            if name.name in self.globals
        }

    def reachable(self, entry: str) -> list[tree.Function]:
        """An entry point and the functions it calls, near or far, each once."""
        found: dict[str, tree.Function] = {}
        waiting = [entry]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.functions[name]
                waiting += [word.name for word in self.free_names(name) if word.name in self.functions]
        return list(found.values())

    def free_names(self, function: str) -> list[tree.Name]:
        """The names in a function that are none of its own, in the order of the text."""
        if function not in self._free:
            node = self.functions[function]
            found = [name for parameter in node.parameters for name in _names(parameter.type)]
            found += _free(node.body, [{parameter.name for parameter in node.parameters}])
            self._free[function] = found
        return self._free[function]

    def workgroup_size(self, entry: str, overrides: Mapping[str, Number]) -> tuple[int, int, int]:
        """The extents of ``@workgroup_size`` under these override values."""
        extents = [int(self.evaluate(one, overrides)) for one in self.functions[entry].attributes["workgroup_size"]]
        x, y, z = (*extents, 1, 1)[:3]
        return x, y, z

    def resolve(self, written: tree.Name) -> tree.Name:
        """A type with aliases followed and short names spelled out: ``vec3f`` is ``vec3<f32>``."""
        name = written
        while name.name in self.aliases:
            name = self.aliases[name.name]
        short = _SHORT_VECTOR.fullmatch(name.name)
        if short:
            scalar = tree.Name(name.start, name.end, _SHORT_SCALARS[short[2]])
            return tree.Name(name.start, name.end, short[1], [scalar])
        arguments = [self.resolve(one) if isinstance(one, tree.Name) else one for one in name.arguments]
        return tree.Name(name.start, name.end, name.name, arguments)

    def evaluate(self, expression: tree.Expression, overrides: Mapping[str, Number] | None = None) -> Number:
        """The value of an expression of literals, constants and overrides. SyntaxFault names what has none."""
        known = overrides or {}
        match expression:
            case tree.Literal(text=text):
                return literal(text)
            case tree.Name(name=name) if name in known:
                return known[name]
            case tree.Name(name=name) if name in self.globals:
                value = self.globals[name].value
                if value is not None and self.globals[name].kind in ("const", "override"):
                    return self.evaluate(value, known)
                if self.globals[name].kind == "override":
                    raise SyntaxFault(f"override {name} has no default and got no value", expression.start)
            case tree.Unary(operator=sign, operand=operand) if sign in _UNARY:
                return _UNARY[sign](self.evaluate(operand, known))
            case tree.Binary(operator=sign, left=left, right=right) if sign in _BINARY:
                return _BINARY[sign](self.evaluate(left, known), self.evaluate(right, known))
            case tree.Call(function=tree.Name(name=name), arguments=arguments) if name in _CONVERSIONS:
                return _CONVERSIONS[name](*(self.evaluate(one, known) for one in arguments))
        written = getattr(expression, "name", "") or "this expression"
        raise SyntaxFault(f"{written} has no value before the shader runs", expression.start)

    def line(self, position: int) -> int:
        """The line, from 1, of an offset in the text."""
        return self.text.count("\n", 0, position) + 1


def literal(text: str) -> Number:
    """The value of a literal of WGSL."""
    if text in ("true", "false"):
        return text == "true"
    if text[:2] in ("0x", "0X"):
        body = text.rstrip("iu")
        if "." in body or "p" in body.lower():
            return float.fromhex(text.rstrip("fh") if "p" in body.lower() else body)
        return int(body, 16)
    body = text.rstrip("iufh")
    is_float = any(letter in body for letter in ".eE") or text[-1] in "fh"
    return float(body) if is_float else int(body)


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return int(a / b) if a < 0 or b < 0 else a // b


_UNARY: dict[str, Callable[[Number], Number]] = {
    "-": lambda x: -x,
    "!": lambda x: not x,
    "~": lambda x: ~int(x) & 0xFFFFFFFF,
}
_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * int(_divide(a, b)),
    "<<": lambda a, b: int(a) << int(b),
    ">>": lambda a, b: int(a) >> int(b),
    "&": lambda a, b: int(a) & int(b),
    "|": lambda a, b: int(a) | int(b),
    "^": lambda a, b: int(a) ^ int(b),
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}
_CONVERSIONS: dict[str, Callable[..., Number]] = {
    "u32": int,
    "i32": int,
    "f32": float,
    "f16": float,
    "bool": bool,
    "min": min,
    "max": max,
    "select": lambda no, yes, condition: yes if condition else no,
    "abs": abs,
    "clamp": lambda x, low, high: min(max(x, low), high),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "exp2": lambda x: 2.0**x,
    "countOneBits": lambda x: int(x).bit_count(),
    "firstLeadingBit": lambda x: int(x).bit_length() - 1,
}


def _names(node: tree.Node) -> Iterator[tree.Name]:
    return (one for one in tree.walk(node) if isinstance(one, tree.Name))


def _free(node: tree.Node, scopes: list[set[str]]) -> Iterator[tree.Name]:
    """The names below ``node`` that no scope declares; declarations are added to the innermost scope on the way."""
    match node:
        case tree.Name():
            if not any(node.name in scope for scope in scopes):
                yield node
            for argument in node.arguments:
                yield from _free(argument, scopes)
        case tree.Declaration():
            for part in tree.children(node):
                yield from _free(part, scopes)
            scopes[-1].add(node.name)
        case tree.Block() | tree.Loop():
            inner = [*scopes, set[str]()]
            parts = list(tree.children(node))
            if isinstance(node, tree.Loop):  # the update of a loop sees what its body declares
                if node.update is not None:
                    parts = [part for part in parts if part is not node.update]
                for part in parts:
                    yield from _free_in(part, inner)
                if node.update is not None:
                    yield from _free_in(node.update, inner)
                return
            for part in parts:
                yield from _free(part, inner)
        case _:
            for part in tree.children(node):
                yield from _free(part, scopes)


def _free_in(part: tree.Node, scopes: list[set[str]]) -> Iterator[tree.Name]:
    """Like ``_free``, the statements of a block declaring into the scope of the loop around it."""
    if isinstance(part, tree.Block):
        for statement in part.statements:
            yield from _free(statement, scopes)
    else:
        yield from _free(part, scopes)
