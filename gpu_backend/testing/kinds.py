"""What kind of number an expression is: ``i32``, ``u32``, ``f32``, ``f16``, ``bool``, ``integer`` or ``float`` for a
literal without a suffix, empty where it cannot be told.
"""

from __future__ import annotations

from ..syntax import tree
from ..syntax.module import Module

_SCALARS = ("i32", "u32", "f32", "f16", "bool")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
_UNSIGNED = ("arrayLength", "countOneBits", "dot4U8Packed", "pack2x16float")


class Kinds:
    """The kinds of the expressions of one function, by the types that its text declares."""

    def __init__(self, module: Module, function: tree.Function) -> None:
        self._module = module
        self._types: dict[str, tree.Name | None] = {one.name: one.type for one in function.parameters}
        self._values: dict[str, tree.Expression] = {}
        self._constants: set[str] = set()
        for node in tree.walk(function.body):
            if isinstance(node, tree.Declaration):
                self._types[node.name] = node.type
                if node.type is None and node.value is not None:
                    self._values[node.name] = node.value
                if node.kind == "const":
                    self._constants.add(node.name)
        self._looking: set[str] = set()

    def of(self, expression: tree.Expression) -> str:
        """The kind of an expression."""
        match expression:
            case tree.Literal(text=text):
                return _literal_kind(text)
            case tree.Binary(operator=sign) if sign in _COMPARISONS:
                return "bool"
            case tree.Binary(operator=sign, left=left) if sign in ("<<", ">>"):
                return self.of(left)
            case tree.Binary(left=left, right=right):
                return _joined(self.of(left), self.of(right))
            case tree.Unary(operator="-" | "~" | "!", operand=operand):
                return self.of(operand)
            case tree.Call(function=function, arguments=arguments):
                return self._call(function, arguments)
        declared = self.type_of(expression)
        return self._scalar(declared) if declared is not None else ""

    def type_of(self, expression: tree.Expression) -> tree.Name | None:
        """The declared type that an expression of names, members and indices has."""
        match expression:
            case tree.Name(name=name):
                return self._type_of_name(name)
            case tree.Index(base=base):
                held = self.type_of(base)
                if held is None or not held.arguments:
                    return None
                inner = held.arguments[0]
                if held.name.startswith("mat") and isinstance(inner, tree.Name):
                    return tree.Name(held.start, held.end, "vec4", [inner])
                return self._module.resolve(inner) if isinstance(inner, tree.Name) else None
            case tree.Member(base=base, name=name):
                held = self.type_of(base)
                struct = self._module.structs.get(held.name) if held is not None else None
                if struct is None:
                    return held  # a swizzle has the kind of its vector
                for member in struct.members:
                    if member.name == name:
                        return self._module.resolve(member.type)
            case tree.Unary(operator="*" | "&", operand=operand):
                held = self.type_of(operand)
                if held is not None and held.name == "ptr" and isinstance(held.arguments[1], tree.Name):
                    return self._module.resolve(held.arguments[1])
                return held
        return None

    def _type_of_name(self, name: str) -> tree.Name | None:
        if name in self._types:
            declared = self._types[name]
            if declared is not None:
                return self._module.resolve(declared)
            if name in self._values and name not in self._looking:
                self._looking.add(name)
                try:
                    value = self._values[name]
                    found = self.type_of(value)
                    kind = "" if found is not None else self.of(value)
                    if name not in self._constants:  # a variable has a type of its own
                        kind = {"integer": "i32", "float": "f32"}.get(kind, kind)
                    return tree.Name(0, 0, kind) if kind else found
                finally:
                    self._looking.discard(name)
            return None
        one = self._module.globals.get(name)
        if one is None:
            return None
        if one.type is not None:
            return self._module.resolve(one.type)
        kind = self.of(one.value) if one.value is not None else ""
        return tree.Name(0, 0, kind) if kind else None

    def _scalar(self, held: tree.Name) -> str:
        kind = self._module.resolve(held)
        while kind.arguments and isinstance(kind.arguments[-1 if kind.name == "ptr" else 0], tree.Name):
            inner = kind.arguments[1 if kind.name == "ptr" else 0]
            if not isinstance(inner, tree.Name):
                break
            kind = inner
        return kind.name if kind.name in (*_SCALARS, "integer", "float") else ""

    def _call(self, function: tree.Name, arguments: list[tree.Expression]) -> str:
        name = self._module.resolve(function)
        if name.name in self._module.functions:
            result = self._module.functions[name.name].result
            return self._scalar(result) if result is not None else ""
        if name.name in _SCALARS or name.arguments:
            return self._scalar(name)
        if name.name in _UNSIGNED:
            return "u32"
        if name.name == "select" and len(arguments) == 3:
            return _joined(self.of(arguments[0]), self.of(arguments[1]))
        kind = ""
        for argument in arguments:
            kind = _joined(kind, self.of(argument)) if kind else self.of(argument)
        return kind


def _literal_kind(text: str) -> str:
    if text in ("true", "false"):
        return "bool"
    is_hex = text[:2] in ("0x", "0X")
    if text[-1] in "iu":
        return {"i": "i32", "u": "u32"}[text[-1]]
    if not is_hex and text[-1] in "fh":
        return {"f": "f32", "h": "f16"}[text[-1]]
    is_float = "." in text or (not is_hex and "e" in text.lower()) or "p" in text.lower()
    return "float" if is_float else "integer"


def _joined(left: str, right: str) -> str:
    """The kind of two operands together: a literal takes that of the other."""
    for weak in ("integer", "float", ""):
        if left == weak:
            return right or left
        if right == weak:
            return left or right
    return left if left == right else ""
