"""Rules that can be told from the text of a shader, without running it. ``RULES`` says what each is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..adapter import PORTABLE_LIMITS
from ..syntax import tree
from ..syntax.layout import layout_of
from ..syntax.module import Module, Number
from ..syntax.tokens import SyntaxFault
from .flow import Fault, Flow
from .kinds import Kinds

RULES = {
    "syntax": "the text is no WGSL, or a compiler refuses it",
    "non-uniform-barrier": "a barrier that not every invocation of a workgroup meets; naga accepts it",
    "missing-barrier": "workgroup memory read after a write of another invocation with no barrier between",
    "workgroup-read-before-write": "workgroup memory read before any write: not every stack clears it",
    "unguarded-write": "a store at an index made from the ids, under no condition: invocations past the end store too",
    "unused-binding": "a binding that no entry point reaches",
    "default-limits": "more than every WebGPU device grants",
    "vec3-in-host-struct": "a vec3 in a struct or an array that the host shares: padded, and not alike everywhere",
    "signed-remainder": "% of signed numbers: the sign of the result differs from numpy's, and between drivers",
    "nan-comparison": "x != x or x == x: compilers assume that there is no NaN; test the bits",
    "unbounded-exponential": "tanh, sinh or cosh of an argument without bounds: may overflow to NaN past 88",
    "f16-accumulation": "a sum in f16 in a loop: from 2048 on it no longer grows by 1",
    "race": "two invocations of a workgroup access one place, one of them writing, with no barrier between",
}

_MEMORY = PORTABLE_LIMITS["max-compute-workgroup-storage-size"]


def lint(module: Module, overrides: Mapping[str, Number]) -> list[Fault]:
    """What the rules find in a module."""
    faults = [*_unused_bindings(module), *_host_vec3(module)]
    for entry in module.entries:
        faults += Flow(module, entry).faults
        faults += limits(module, entry, overrides)
    for function in module.functions.values():
        faults += _expressions(module, function)
    return list(dict.fromkeys(faults))


def _unused_bindings(module: Module) -> Iterator[Fault]:
    used = {name for entry in module.entries for name in module.globals_of(entry)}
    for binding in module.bindings:
        if binding.name not in used:
            yield Fault("unused-binding", binding.declaration.start, f"no entry point uses {binding.name}")


def limits(module: Module, entry: str, overrides: Mapping[str, Number]) -> Iterator[Fault]:
    """What an entry point has too much, or too little, of; compilers do not look at what overrides say."""
    function = module.functions[entry]
    start = function.start
    bindings = module.bindings_of(entry)
    buffers = sum(not binding.is_uniform for binding in bindings)
    most = PORTABLE_LIMITS["max-storage-buffers-per-shader-stage"]
    if buffers > most:
        yield Fault("default-limits", start, f"{entry} uses {buffers} storage buffers; {most} are granted everywhere")
    groups = max((binding.group for binding in bindings), default=0)
    if groups > 3:
        yield Fault("default-limits", start, f"{entry} uses bind group {groups}; 0 to 3 are granted everywhere")
    try:
        size = module.workgroup_size(entry, overrides)
        nbytes = _workgroup_bytes(module, entry, overrides)
    except SyntaxFault:
        return  # an override without a default: nothing can be said
    if min(size) < 1:
        yield Fault(
            "default-limits", start, f"{entry} has a workgroup of {size[0]} x {size[1]} x {size[2]} invocations"
        )
    limit = PORTABLE_LIMITS["max-compute-invocations-per-workgroup"]
    if prod(size) > limit:
        yield Fault("default-limits", start, f"{entry} has {prod(size)} invocations a workgroup; {limit} are granted")
    for axis, extent in zip("xyz", size, strict=True):
        limit = PORTABLE_LIMITS[f"max-compute-workgroup-size-{axis}"]
        if extent > limit:
            yield Fault("default-limits", start, f"{entry} has a workgroup of {extent} in {axis}; {limit} are granted")
    if nbytes > _MEMORY:
        yield Fault("default-limits", start, f"{entry} uses {nbytes} bytes of workgroup memory; {_MEMORY} are granted")


def _workgroup_bytes(module: Module, entry: str, overrides: Mapping[str, Number]) -> int:
    total = 0
    for name in module.globals_of(entry):
        one = module.globals[name]
        if one.space == "workgroup" and one.type is not None:
            kind = module.resolve(one.type)
            total += 4 if kind.name == "bool" else -(-layout_of(module, kind, overrides).size // 16) * 16
    return total


def _host_vec3(module: Module) -> Iterator[Fault]:
    seen: set[str] = set()

    def inside(kind: tree.Name, where: str, start: int, nested: bool) -> Iterator[Fault]:
        kind = module.resolve(kind)
        if kind.name == "vec3" and nested:
            yield Fault(
                "vec3-in-host-struct", start, f"{where} is a vec3, which takes 16 bytes here and 12 on the host"
            )
        elif kind.name == "array" and isinstance(kind.arguments[0], tree.Name):
            yield from inside(kind.arguments[0], where, start, True)
        elif kind.name in module.structs and kind.name not in seen:
            seen.add(kind.name)
            for member in module.structs[kind.name].members:
                yield from inside(member.type, f"{kind.name}.{member.name}", member.start, True)

    for binding in module.bindings:
        yield from inside(binding.type, binding.name, binding.declaration.start, False)


def _expressions(module: Module, function: tree.Function) -> Iterator[Fault]:
    kinds = Kinds(module, function)
    values = {
        node.name: node.value
        for node in tree.walk(function.body)
        if isinstance(node, tree.Declaration) and node.value is not None
    }
    for node in tree.walk(function.body):
        if isinstance(node, tree.Assignment) and (changed := tree.root(node.target)) is not None:
            values.pop(changed.name, None)
    loops = [node for node in tree.walk(function.body) if isinstance(node, tree.Loop)]
    in_loops = {id(node) for loop in loops for node in tree.walk(loop.body)}
    for node in tree.walk(function.body):
        match node:
            case tree.Binary(operator="%", left=left, right=right):
                if "i32" in (kinds.of(left), kinds.of(right)):
                    yield Fault("signed-remainder", node.start, f"signed remainder: {_text(module, node)}")
            case tree.Assignment(operator="%=", target=target) if kinds.of(target) == "i32":
                yield Fault("signed-remainder", node.start, f"signed remainder: {_text(module, node)}")
            case tree.Binary(operator="!=" | "==", left=left, right=right):
                if _text(module, left) == _text(module, right) and kinds.of(left) not in ("i32", "u32", "bool"):
                    yield Fault("nan-comparison", node.start, f"{_text(module, node)} does not find NaN everywhere")
            case tree.Call(function=tree.Name(name="tanh" | "sinh" | "cosh" as name), arguments=[argument]):
                if name not in module.functions and not _is_bounded(argument, values):
                    yield Fault("unbounded-exponential", node.start, f"{_text(module, node)}: clamp the argument")
            case tree.Assignment(operator=sign, target=target, value=value) if id(node) in in_loops:
                adds = sign == "+=" or (sign == "=" and _adds_to(module, target, value))
                if adds and kinds.of(target) == "f16":
                    yield Fault("f16-accumulation", node.start, f"{_text(module, target)} adds up in f16: use f32")


def _adds_to(module: Module, target: tree.Expression, value: tree.Expression) -> bool:
    """Whether ``value`` is ``target`` plus something."""
    if isinstance(value, tree.Call) and value.function.name == "fma" and value.arguments:
        return _text(module, target) == _text(module, value.arguments[-1])
    if not (isinstance(value, tree.Binary) and value.operator == "+"):
        return False
    return _text(module, target) in (_text(module, value.left), _text(module, value.right))


def _is_bounded(argument: tree.Expression, values: Mapping[str, tree.Expression]) -> bool:
    match argument:
        case tree.Call(function=tree.Name(name="clamp" | "saturate" | "sin" | "cos" | "fract")):
            return True
        case tree.Call(function=tree.Name(name="min" | "max"), arguments=arguments):
            return any(isinstance(one, tree.Call) and one.function.name in ("min", "max") for one in arguments)
        case tree.Unary(operator="-", operand=operand):
            return _is_bounded(operand, values)
        case tree.Binary(operator="*" | "/" | "+" | "-", left=left, right=right):
            return _is_bounded(left, values) and _is_bounded(right, values)
        case tree.Call(function=tree.Name(name="select"), arguments=[no, yes, _]):
            return _is_bounded(no, values) and _is_bounded(yes, values)
        case tree.Name(name=name) if name in values:
            return _is_bounded(values[name], {other: value for other, value in values.items() if other != name})
        case tree.Literal():
            return True
    return False


def _text(module: Module, node: tree.Node) -> str:
    return " ".join(module.text[node.start : node.end].split())
