"""The text of a shader rewritten so that its invocations can be reordered and its buffers can be longer than it knows.

Offsets come from the tree, so the rest of the text, and every line number, stays as it is.

* ``arrayLength(&x)`` becomes a number of a uniform buffer: the length without the guard behind it.
* The workgroup ids and the local ids of an entry point become what a permutation makes of them.

All of that is read from one uniform buffer, ``Control``, so that one compiled text serves every size and every order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..syntax import tree
from ..syntax.module import Binding, Module
from ..syntax.text import Text, concatenate
from ..syntax.tokens import tokens
from .source import Source

CONTROL = "harness_control"
_GROUP_BUILTINS = ("workgroup_id", "global_invocation_id")
_LANE_BUILTINS = ("local_invocation_id", "local_invocation_index", "global_invocation_id")
_SUBGROUP = re.compile(r"subgroup[A-Z]\w*|quad(?:Broadcast|Swap[A-Z]\w*)")


@dataclass(frozen=True)
class Order:
    """An order of workgroups, and of the invocations in each: item i takes the place of (a i + b) mod the number."""

    groups: tuple[int, int] = (1, 0)
    lanes: tuple[int, int] = (1, 0)

    @staticmethod
    def reversed(count: int) -> tuple[int, int]:
        """The last first."""
        return count - 1, count - 1

    @staticmethod
    def shuffled(count: int) -> tuple[int, int]:
        """A fixed order in which neighbours lie far apart."""
        step = next((a for a in range(max(int(count * 0.618), 1), count) if np.gcd(a, count) == 1), 1)
        return step, count // 3


@dataclass(frozen=True)
class Instrumented:
    """A rewritten source, the binding of its control buffer, and what could be rewritten."""

    source: Source
    control: Binding
    lengths: tuple[str, ...]
    can_reorder_groups: bool
    can_reorder_lanes: bool
    can_guard: bool

    def content(self, lengths: dict[str, int], order: Order) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The bytes of the control buffer."""
        rows = np.zeros((1 + (len(self.lengths) + 3) // 4, 4), np.uint32)
        rows[0] = [*order.groups, *order.lanes]
        rows[1:].reshape(-1)[: len(self.lengths)] = [lengths[name] for name in self.lengths]
        return rows.reshape(-1).view(np.uint8)

    @property
    def nbytes(self) -> int:
        """The size of the control buffer."""
        return 16 + 16 * ((len(self.lengths) + 3) // 4)


def instrument(source: Source, entry: str, bindings: Sequence[Binding]) -> Instrumented:
    """The source with ``arrayLength`` and the ids of ``entry`` rewritten."""
    module = source.module
    runtime = tuple(binding.name for binding in bindings if not binding.is_uniform)
    edits, can_guard = _length_edits(module, entry, runtime)
    id_edits, has_groups, has_lanes = _id_edits(module, module.functions[entry], entry)
    edits += id_edits
    text = source.text.whole
    uses_subgroups = _uses_subgroups(module, entry)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    number = max((one.number for one in bindings if one.group == 0), default=-1) + 1
    added = _control_text(number, len(runtime))
    origins = source.text.origins + concatenate([("harness", added)]).origins
    made = replace(source, text=Text(text + added, origins))
    control = next(binding for binding in made.module.bindings if binding.name == CONTROL)
    return Instrumented(
        made, control, runtime, has_groups and not uses_subgroups, has_lanes and not uses_subgroups, can_guard
    )


def _uses_subgroups(module: Module, entry: str) -> bool:
    """Whether invocations know each other by their place in a subgroup, which no order of ours changes."""
    own = module.functions.keys() | module.globals.keys()
    for function in module.reachable(entry):
        if any(_SUBGROUP.fullmatch(name.name) and name.name not in own for name in module.free_names(function.name)):
            return True
    parameters = list(module.functions[entry].parameters)
    for parameter in module.functions[entry].parameters:
        struct = module.structs.get(module.resolve(parameter.type).name)
        parameters += struct.members if struct is not None else []
    return any("subgroup" in _builtin(parameter) for parameter in parameters)


def _control_text(number: int, count: int) -> str:
    lengths = f"  lengths: array<vec4<u32>, {(count + 3) // 4}>,\n" if count else ""
    return f"""
struct HarnessControl {{
  order: vec4<u32>,
{lengths}}}
@group(0) @binding({number}) var<uniform> {CONTROL}: HarnessControl;
fn harness_place(index: u32, count: u32, a: u32, b: u32) -> u32 {{
  // (a index + b) mod count by doubling: a product of two words may not fit in one.
  var sum = b % count;
  var term = a % count;
  for (var rest = index; rest > 0u; rest >>= 1u) {{
    if ((rest & 1u) == 1u) {{ sum = harness_sum(sum, term, count); }}
    term = harness_sum(term, term, count);
  }}
  return sum;
}}
fn harness_sum(a: u32, b: u32, count: u32) -> u32 {{
  let room = count - a;
  if (b < room) {{ return a + b; }}
  return b - room;
}}
fn harness_point(id: vec3<u32>, extent: vec3<u32>, a: u32, b: u32) -> vec3<u32> {{
  let index = (id.z * extent.y + id.y) * extent.x + id.x;
  let place = harness_place(index, extent.x * extent.y * extent.z, a, b);
  let row = place / extent.x;
  return vec3<u32>(place % extent.x, row % extent.y, row / extent.y);
}}
"""


def _length_edits(module: Module, entry: str, names: tuple[str, ...]) -> tuple[list[tuple[int, int, str]], bool]:
    """Edits for each ``arrayLength``; False if one of them goes through a pointer whose variable cannot be told."""
    edits = []
    can_guard = True
    for function in module.reachable(entry):
        free = {id(name) for name in module.free_names(function.name)}
        pointers: dict[str, list[tree.Expression]] = {}
        for node in tree.walk(function.body):
            if isinstance(node, tree.Declaration) and node.value is not None:
                pointers.setdefault(node.name, []).append(node.value)
        for node in tree.walk(function.body):
            if not (isinstance(node, tree.Call) and node.function.name == "arrayLength" and node.arguments):
                continue
            variable = tree.root(node.arguments[0])
            if variable is not None and id(variable) not in free:
                values = pointers.get(variable.name, [])  # of several pointers of one name, none can be told
                variable = tree.root(values[0]) if len(values) == 1 else None
            if variable is None or id(variable) not in free or variable.name not in names:
                can_guard = False
                continue
            index = names.index(variable.name)
            edits.append((node.start, node.end, f"{CONTROL}.lengths[{index // 4}][{index % 4}]"))
    return edits, can_guard


def _builtin(parameter: tree.Parameter) -> str:
    arguments = parameter.attributes.get("builtin")
    return arguments[0].name if arguments and isinstance(arguments[0], tree.Name) else ""


def _id_edits(module: Module, function: tree.Function, entry: str) -> tuple[list[tuple[int, int, str]], bool, bool]:
    """Edits that permute the ids of an entry point; whether it has ids of groups, and of invocations."""
    inputs: dict[str, str] = {}  # builtin -> how the raw value is written
    edits: list[tuple[int, int, str]] = []
    lines: list[str] = []
    own: list[tuple[str, str]] = []  # builtin, the name that the body knows
    for parameter in function.parameters:
        builtin = _builtin(parameter)
        raw = f"harness_raw_{parameter.name}"
        struct = module.structs.get(module.resolve(parameter.type).name)
        edits.append((parameter.name_start, parameter.name_start + len(parameter.name), raw))
        if builtin:
            inputs[builtin] = raw
            own.append((builtin, parameter.name))
            if builtin not in (*_GROUP_BUILTINS, *_LANE_BUILTINS):
                lines.append(f"let {parameter.name} = {raw};")
        elif struct is not None:
            lines.append(f"var {parameter.name} = {raw};")
            for member in struct.members:
                inputs[_builtin(member)] = f"{raw}.{member.name}"
                own.append((_builtin(member), f"{parameter.name}.{member.name}"))
    used = {builtin for builtin, _ in own}
    has_groups = bool(used & set(_GROUP_BUILTINS))
    has_lanes = bool(used & set(_LANE_BUILTINS))
    if not (has_groups or has_lanes):
        return [], False, False
    extra = []
    for builtin in ("workgroup_id", "num_workgroups", "local_invocation_id"):
        if builtin not in inputs:
            inputs[builtin] = f"harness_raw_{builtin}"
            extra.append(f"@builtin({builtin}) {inputs[builtin]}: vec3<u32>")
    extents = [f"u32({module.text[one.start : one.end]})" for one in function.attributes["workgroup_size"]]
    size = f"vec3<u32>({', '.join([*extents, '1u', '1u'][:3])})"
    prologue = [
        f"let harness_size = {size};",
        f"let harness_group = harness_point({inputs['workgroup_id']}, {inputs['num_workgroups']}, "
        f"{CONTROL}.order.x, {CONTROL}.order.y);",
        f"let harness_lane = harness_point({inputs['local_invocation_id']}, harness_size, "
        f"{CONTROL}.order.z, {CONTROL}.order.w);",
        *lines,
    ]
    index = "(harness_lane.z * harness_size.y + harness_lane.y) * harness_size.x + harness_lane.x"
    values = {
        "workgroup_id": "harness_group",
        "local_invocation_id": "harness_lane",
        "local_invocation_index": index,
        "global_invocation_id": "harness_group * harness_size + harness_lane",
    }
    for builtin, name in own:
        if builtin in values:
            prologue.append(f"{'let ' if '.' not in name else ''}{name} = {values[builtin]};")
    body = function.body.start + 1
    edits.append((body, body, " " + " ".join(prologue)))
    if extra:
        close, needs_comma = _closing(module.text, function)
        edits.append((close, close, (", " if needs_comma else "") + ", ".join(extra)))
    return edits, has_groups, has_lanes


def _closing(text: str, function: tree.Function) -> tuple[int, bool]:
    """The offset of the parenthesis that closes the parameters of a function; whether a comma is due before it."""
    after = function.parameters[-1].end if function.parameters else text.index("(", function.start) + 1
    following = tokens(text[after : function.body.start])
    is_due = bool(function.parameters) and following[0].text != ","
    return after + next(token.start for token in following if token.text == ")"), is_due
