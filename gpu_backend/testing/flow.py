"""A walk through an entry point as all its invocations take it: what differs between them, and what follows from that.

Found on the way: barriers that not every invocation of a workgroup meets, stores to storage that no condition bounds,
workgroup memory that is read before anything writes it, or after a write of another invocation with no barrier between.
Calls are walked into with the arguments at hand. The walk is a simplification of the uniformity analysis of the WGSL
specification: it may warn where a compiler proves more, and a branch that writes counts as having written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..syntax import tree
from ..syntax.module import Module
from .shared import WorkgroupMemory

VARIES = 1  # differs between the invocations of a workgroup
BY_ID = 2  # depends on the ids of invocation or workgroup
BOUNDED = 4  # made by min, clamp, % or &

_VARYING_BUILTINS = ("local_invocation_id", "local_invocation_index", "global_invocation_id")
_BARRIERS = ("workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad")
_COLLECTIVE = ("subgroup", "quad")
_BOUNDING_CALLS = ("min", "clamp", "saturate")


@dataclass(frozen=True)
class Fault:
    """What the walk found: which rule, and the offset in the text."""

    rule: str
    start: int
    message: str


@dataclass
class _Cell:
    """A local variable: what is known of its value, or the global that it points to."""

    flags: int = 0
    target: str = ""


@dataclass
class _Frame:
    """One function under way. ``left`` tells that some invocations have returned from it."""

    cells: dict[str, _Cell]
    left: bool = False
    result: int = 0


@dataclass
class _State:
    """Where the walk is: conditions around it, by whether they vary and whether they bound an index."""

    branches: list[int] = field(default_factory=list)  # offsets of the varying conditions around
    passes: list[int] = field(default_factory=list)  # for each of them, which pass through it this is
    guards: int = 0
    loop_left: bool = False


class Flow:
    """The walk of one entry point. ``faults`` has what was found."""

    def __init__(self, module: Module, entry: str) -> None:
        self._module = module
        self._spaces = {name: one.space or "private" for name, one in module.globals.items() if one.kind == "var"}
        self._writable = {binding.name for binding in module.bindings if binding.writable}
        self._endless = {binding.name for binding in module.bindings if _is_endless(module, binding.type)}
        self._memory = WorkgroupMemory(module)
        self._private = _Frame({name: _Cell() for name, space in self._spaces.items() if space == "private"})
        self._state = _State()
        self._depth = 0
        self._passes = 0
        self.faults: list[Fault] = []
        function = module.functions[entry]
        self._function(function, [_input_flags(module, one) for one in function.parameters], [])

    # functions

    def _function(
        self, function: tree.Function, flags: Sequence[int], cells: Sequence[_Cell | None], *, left: bool = False
    ) -> int:
        if self._depth > 32:
            return VARIES | BY_ID
        frame = _Frame({}, left)
        for position, parameter in enumerate(function.parameters):
            given = cells[position] if position < len(cells) else None
            frame.cells[parameter.name] = given or _Cell(flags[position] if position < len(flags) else 0)
        outer = self._state
        self._state = _State(list(outer.branches), list(outer.passes), outer.guards, outer.loop_left)
        self._depth += 1
        self._statements(function.body.statements, frame)
        self._depth -= 1
        self._state = outer
        return frame.result

    def _report(self, rule: str, start: int, message: str) -> None:
        fault = Fault(rule, start, message)
        if fault not in self.faults:
            self.faults.append(fault)

    def _is_divergent(self, frame: _Frame) -> bool:
        return bool(self._state.branches) or frame.left or self._state.loop_left

    # statements

    def _statements(self, statements: Sequence[tree.Statement], frame: _Frame) -> None:
        for statement in statements:
            self._statement(statement, frame)

    def _statement(self, node: tree.Statement, frame: _Frame) -> None:
        match node:
            case tree.Block(statements=statements):
                self._statements(statements, frame)
            case tree.Declaration():
                flags = self._value(node.value, frame) if node.value is not None else 0
                cell = frame.cells[node.name] = _Cell(flags)
                if isinstance(node.value, tree.Unary) and node.value.operator == "&":
                    frame.cells[node.name] = self._pointee(node.value, frame) or cell
            case tree.Assignment():
                self._assign(node, frame)
            case tree.If():
                self._branch(node.condition, [node.then, node.otherwise], frame)
            case tree.Switch():
                self._branch(node.subject, [block for _, block in node.clauses], frame)
            case tree.Loop():
                self._loop(node, frame)
            case tree.BreakIf(condition=condition):
                if self._value(condition, frame) & VARIES:
                    self._state.loop_left = True
            case tree.Return(value=value):
                if value is not None:
                    frame.result |= self._value(value, frame)
                if self._state.branches or self._state.loop_left:
                    frame.left = True
                    frame.result |= VARIES if value is not None else 0
            case tree.Jump():
                if self._state.branches:
                    self._state.loop_left = True
            case tree.Run(call=call):
                self._value(call, frame)

    def _branch(self, condition: tree.Expression, blocks: Sequence[tree.Statement | None], frame: _Frame) -> None:
        flags = self._value(condition, frame)
        state = self._state
        if flags & VARIES:
            self._enter(condition.start)
        is_guard = bool(flags & (VARIES | BY_ID))
        state.guards += is_guard
        exits = False
        for block in blocks:
            if block is not None:
                self._statement(block, frame)
                exits |= tree.always_leaves(block)
        if flags & VARIES:
            self._leave()
        if not (is_guard and exits):  # past an early return of some, the rest is guarded
            state.guards -= is_guard

    def _enter(self, start: int) -> None:
        self._passes += 1
        self._state.branches.append(start)
        self._state.passes.append(self._passes)

    def _leave(self) -> None:
        self._state.branches.pop()
        self._state.passes.pop()

    def _loop(self, node: tree.Loop, frame: _Frame) -> None:
        outer_left, guards = self._state.loop_left, self._state.guards
        self._state.loop_left = False
        if node.first is not None:
            self._statement(node.first, frame)
        for _ in range(2):  # the second round sees what the first has changed
            flags = self._value(node.condition, frame) if node.condition is not None else 0
            varies = bool(flags & VARIES)
            if varies:
                self._enter(node.start)
            is_guard = bool(flags & (VARIES | BY_ID))
            self._state.guards += is_guard
            self._statements(node.body.statements, frame)
            if node.update is not None:
                self._statements(node.update.statements, frame)
            self._state.guards -= is_guard
            if varies:
                self._leave()
        self._state.loop_left, self._state.guards = outer_left, guards

    def _assign(self, node: tree.Assignment, frame: _Frame) -> None:
        flags = self._value(node.value, frame)
        if node.operator != "=":
            flags |= self._value(node.target, frame)
        if isinstance(node.target, tree.Name) and node.target.name == "_":
            return
        name = self._global(node.target, frame)
        index = self._indices(node.target, frame)
        if name:
            self._store(name, node.target, index, frame)
            return
        variable = tree.root(node.target)
        cell = frame.cells.get(variable.name) if variable is not None else None
        if cell is None and variable is not None:
            cell = self._private.cells.get(variable.name)
        if cell is not None:
            divergent = VARIES if self._is_divergent(frame) else 0
            cell.flags = (cell.flags & ~BOUNDED) | (flags & ~BOUNDED) | (index & ~BOUNDED) | divergent

    def _store(self, name: str, target: tree.Expression, index: int, frame: _Frame) -> None:
        space = self._spaces[name]
        self._check_guard(name, target.start, index)
        if space == "workgroup":
            self._memory.write(name, target, bool(index & VARIES), self._state.passes)

    def _check_guard(self, name: str, start: int, index: int) -> None:
        """A store by each invocation to a place of its own, in an array that knows no length."""
        is_open = name in self._endless and index & VARIES and index & BY_ID and not index & BOUNDED
        if is_open and not self._state.guards:
            self._report("unguarded-write", start, f"{name} is written at an index that no condition bounds")

    # expressions

    def _value(self, node: tree.Expression, frame: _Frame) -> int:
        match node:
            case tree.Literal():
                return 0
            case tree.Name(name=name):
                if name in frame.cells:
                    return frame.cells[name].flags
                if name in self._spaces:
                    return self._load(name, node, 0, frame)
                return 0
            case tree.Index() | tree.Member():
                name = self._global(node, frame)
                index = self._indices(node, frame)
                if name:
                    return self._load(name, node, index, frame)
                variable = tree.root(node)
                base = self._value(variable, frame) if variable is not None else self._inner(node, frame)
                return (base | index) & ~BOUNDED if isinstance(node, tree.Index) else base | index
            case tree.Unary(operator="&"):
                return self._indices(node.operand, frame)
            case tree.Unary(operator="*"):
                name = self._global(node, frame)
                return self._load(name, node, 0, frame) if name else self._value(node.operand, frame)
            case tree.Unary(operand=operand):
                return self._value(operand, frame) & ~BOUNDED
            case tree.Binary(operator="&&" | "||", left=left, right=right):
                flags = self._value(left, frame)
                if not flags & VARIES:
                    return (flags | self._value(right, frame)) & ~BOUNDED
                self._enter(left.start)  # only some look at the right side
                flags |= self._value(right, frame)
                self._leave()
                return flags & ~BOUNDED
            case tree.Binary(operator=sign, left=left, right=right):
                flags = (self._value(left, frame) | self._value(right, frame)) & ~BOUNDED
                return flags | BOUNDED if sign in ("%", "&") else flags
            case tree.Call():
                return self._call(node, frame)
        return 0

    def _inner(self, node: tree.Expression, frame: _Frame) -> int:
        while isinstance(node, tree.Index | tree.Member):
            node = node.base
        return self._value(node, frame)

    def _call(self, node: tree.Call, frame: _Frame) -> int:
        name = node.function.name
        flags = [self._value(argument, frame) for argument in node.arguments]
        together = 0
        for one in flags:
            together |= one & ~BOUNDED
        if name in self._module.functions:
            cells = [self._pointee(argument, frame) for argument in node.arguments]
            return self._function(self._module.functions[name], flags, cells, left=frame.left)
        if name in _BARRIERS or name.startswith(_COLLECTIVE):
            if name in _BARRIERS:
                self._memory.barrier()
            if self._is_divergent(frame):
                self._report(
                    "non-uniform-barrier",
                    node.start,
                    f"{name} is not met by every invocation of a workgroup{self._why()}",
                )
            if name == "workgroupUniformLoad":
                return 0
            return VARIES if name.startswith(_COLLECTIVE) else 0
        if name.startswith("atomic") and node.arguments:
            self._atomic(name, node, frame)
            return VARIES
        if name == "arrayLength":
            return 0
        return together | BOUNDED if name in _BOUNDING_CALLS else together

    def _why(self) -> str:
        if not self._state.branches:
            return ": some have returned, or left a loop"
        line = self._module.line(self._state.branches[-1])
        return f": line {line} of the whole text decides by the invocation"

    def _atomic(self, name: str, node: tree.Call, frame: _Frame) -> None:
        target = node.arguments[0]
        variable = self._global(target, frame)
        if not variable:
            return
        index = self._indices(target, frame)
        if name != "atomicLoad":
            self._check_guard(variable, node.start, index)
        if self._spaces[variable] != "workgroup":
            return
        varies = bool(index & VARIES)
        if name == "atomicStore":
            self._memory.write(variable, target, varies, self._state.passes)
            return
        self._read(variable, target, node.start, sums=name == "atomicLoad")
        if name != "atomicLoad":
            self._memory.write(variable, target, varies, self._state.passes, is_sum=True)

    def _read(self, name: str, target: tree.Expression, start: int, *, sums: bool = True) -> None:
        for rule, message in self._memory.read(name, target, self._state.passes, sums=sums):
            self._report(rule, start, message)

    def _load(self, name: str, node: tree.Expression, index: int, frame: _Frame) -> int:
        space = self._spaces[name]
        if space == "workgroup":
            self._read(name, node, node.start)
            return VARIES | (index & ~BOUNDED)
        if space == "private":
            return self._private.cells[name].flags | index
        if space == "storage" and name in self._writable:
            return VARIES | (index & ~BOUNDED)
        return index & ~BOUNDED

    def _indices(self, node: tree.Expression, frame: _Frame) -> int:
        """What is known of all indices in an access; BOUNDED if the outermost is."""
        flags = 0
        while True:
            match node:
                case tree.Index(base=base, index=index):
                    flags |= self._value(index, frame)
                    node = base
                case tree.Member(base=base) | tree.Unary(operator="&" | "*", operand=base):
                    node = base
                case _:
                    return flags

    def _global(self, node: tree.Expression, frame: _Frame) -> str:
        """The module variable that an access ends in, near or through a pointer; empty for a local one."""
        variable = tree.root(node)
        if variable is None:
            return ""
        cell = frame.cells.get(variable.name)
        if cell is not None:
            return cell.target
        return variable.name if self._spaces.get(variable.name, "private") != "private" else ""

    def _pointee(self, argument: tree.Expression, frame: _Frame) -> _Cell | None:
        """The cell that a pointer argument leads to."""
        variable = tree.root(argument)
        if variable is None:
            return None
        if isinstance(argument, tree.Unary) and argument.operator == "&":
            target = self._global(argument, frame)
            if target:
                return _Cell(target=target)
            return frame.cells.get(variable.name) or self._private.cells.get(variable.name)
        if isinstance(argument, tree.Name):
            cell = frame.cells.get(variable.name)
            return cell if cell is not None and cell.target else None
        return None


def _is_endless(module: Module, kind: tree.Name) -> bool:
    """Whether a type is, or ends in, an array without a length."""
    if kind.name in module.structs:
        members = module.structs[kind.name].members
        return bool(members) and _is_endless(module, module.resolve(members[-1].type))
    return kind.name == "array" and len(kind.arguments) == 1


def _input_flags(module: Module, parameter: tree.Parameter) -> int:
    struct = module.structs.get(module.resolve(parameter.type).name)
    flags = 0
    for one in struct.members if struct is not None else [parameter]:
        for name in one.attributes.get("builtin", []):
            word = getattr(name, "name", "")
            if word in _VARYING_BUILTINS or word.startswith("subgroup_inv"):
                flags |= VARIES | BY_ID
            elif word == "workgroup_id":
                flags |= BY_ID
    return flags
