"""The syntax tree of a WGSL text. ``start`` and ``end`` of a node are offsets of characters in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

Attributes = dict[str, list["Expression"]]


@dataclass(slots=True)
class Node:
    """What every part of the tree has: where it stands in the text."""

    start: int
    end: int


@dataclass(slots=True)
class Literal(Node):
    """A number, ``true`` or ``false``, as written."""

    text: str


@dataclass(slots=True)
class Name(Node):
    """An identifier; a type with ``arguments``: ``array<f32, 4>``."""

    name: str
    arguments: list[Expression] = field(default_factory=list)


@dataclass(slots=True)
class Unary(Node):
    """``-x  !x  ~x  *x  &x``."""

    operator: str
    operand: Expression


@dataclass(slots=True)
class Binary(Node):
    """An operator between two expressions."""

    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True)
class Call(Node):
    """A function, a built-in or a type, applied."""

    function: Name
    arguments: list[Expression]


@dataclass(slots=True)
class Index(Node):
    """``base[index]``."""

    base: Expression
    index: Expression


@dataclass(slots=True)
class Member(Node):
    """``base.name``: a member of a struct, or a swizzle."""

    base: Expression
    name: str


Expression = Literal | Name | Unary | Binary | Call | Index | Member


@dataclass(slots=True)
class Block(Node):
    """Statements in braces."""

    statements: list[Statement]


@dataclass(slots=True)
class Declaration(Node):
    """``let``, ``var`` or ``const`` inside a function."""

    kind: str
    name: str
    type: Name | None
    value: Expression | None


@dataclass(slots=True)
class Assignment(Node):
    """``target operator value``; ``i++`` is ``i += 1``; the target of a phony assignment is the name ``_``."""

    target: Expression
    operator: str
    value: Expression


@dataclass(slots=True)
class If(Node):
    """``otherwise`` is a block, another if, or None."""

    condition: Expression
    then: Block
    otherwise: Block | If | None


@dataclass(slots=True)
class Switch(Node):
    """Clauses of selectors and a block; ``default`` is a Name."""

    subject: Expression
    clauses: list[tuple[list[Expression], Block]]


@dataclass(slots=True)
class Loop(Node):
    """``for``, ``while`` and ``loop``: ``condition`` holds as long as it runs, ``update`` ends a round."""

    first: Statement | None
    condition: Expression | None
    update: Block | None
    body: Block


@dataclass(slots=True)
class BreakIf(Node):
    """``break if condition;`` at the end of a continuing block."""

    condition: Expression


@dataclass(slots=True)
class Return(Node):
    """``return value;``."""

    value: Expression | None


@dataclass(slots=True)
class Run(Node):
    """A call as a statement."""

    call: Call


@dataclass(slots=True)
class Jump(Node):
    """``break``, ``continue`` or ``discard``."""

    kind: str


Statement = Block | Declaration | Assignment | If | Switch | Loop | BreakIf | Return | Run | Jump


@dataclass(slots=True)
class Parameter(Node):
    """A parameter of a function, or a member of a struct. ``name_start`` is where its name begins."""

    name: str
    type: Name
    attributes: Attributes
    name_start: int


@dataclass(slots=True)
class Struct(Node):
    """A struct with its members."""

    name: str
    members: list[Parameter]


@dataclass(slots=True)
class Global(Node):
    """``var``, ``const`` or ``override`` of the module; ``space`` and ``access`` of a var, empty where not written."""

    kind: str
    name: str
    space: str
    access: str
    type: Name | None
    value: Expression | None
    attributes: Attributes


@dataclass(slots=True)
class Alias(Node):
    """``alias name = type;``."""

    name: str
    type: Name


@dataclass(slots=True)
class Function(Node):
    """A function with its body."""

    name: str
    attributes: Attributes
    parameters: list[Parameter]
    result: Name | None
    body: Block


@dataclass(slots=True)
class Directive(Node):
    """``enable``, ``requires`` or ``diagnostic``, with what follows."""

    kind: str
    text: str


def children(node: Node) -> Iterator[Node]:
    """The nodes right below ``node``, in the order of the text."""
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Node):
                    yield item
                elif isinstance(item, tuple):  # a clause of a switch
                    yield from item[0]
                    yield item[1]


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(list(children(one)))


def root(expression: Expression) -> Name | None:
    """The variable that an expression of indices, members and pointers begins with, if it is one."""
    while True:
        match expression:
            case Index(base=base) | Member(base=base) | Unary(operator="&" | "*", operand=base):
                expression = base
            case Name():
                return expression
            case _:
                return None


def always_leaves(node: Statement) -> bool:
    """Whether a statement always leaves the function or the round of the loop."""
    match node:
        case Return() | Jump():
            return True
        case Block(statements=statements):
            return any(always_leaves(one) for one in statements)
        case If(then=then, otherwise=otherwise):
            return otherwise is not None and always_leaves(then) and always_leaves(otherwise)
    return False
