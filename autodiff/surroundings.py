"""What a function names beside its arguments: closure cells, globals, defaults, attributes of its own object."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpu_backend import Array

from .freeze import Same, freeze, is_mutable
from .nn.module import Module
from .optim.optimizer import Optimizer
from .trace import Trace

LARGEST_CONTAINER = 64
Read = Callable[[], Any]


class Name(NamedTuple):
    """What a name stood for, and a way to look again. ``frozen`` is compared where identity is not enough."""

    read: Read
    value: Same
    frozen: Any
    is_inside: bool


class Surroundings:
    """The values that a function names, as they are now; ``changed`` tells whether they still are.

    One level deep: what the functions that it calls name is not looked at, nor are attributes of other objects than
    modules. Containers of more than 64 items count by identity and length.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._names = [Name(read, Same(x), _frozen(x), _looks_inside(x)) for read, x in _named(fn)]

    def changed(self) -> bool:
        """Whether a name stands for something else, or a plain value behind one has changed."""
        for name in self._names:
            now = name.read()
            if (name.is_inside or not name.value.stands_for(now)) and _frozen(now) != name.frozen:
                return True
        return False

    def note(self, trace: Trace, arguments: Any) -> None:
        """Tell a trace of the modules and optimizers here and among arguments, before it starts."""
        for value in _objects([[name.read() for name in self._names], arguments]):
            if isinstance(value, Module):
                for _, module in value.named_modules():
                    trace.module(module)
            else:
                trace.optimizer(value)


def _looks_inside(value: Any) -> bool:
    return is_mutable(value) or isinstance(getattr(value, "array", None), Array)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | dict | set) and len(value) > LARGEST_CONTAINER:
        return id(value), len(value)
    return freeze(value)


def _named(fn: Any) -> Iterator[tuple[Read, Any]]:
    """Each value that ``fn`` names, with a way to read it again."""
    if isinstance(fn, functools.partial):
        yield from _fixed(*fn.args, *fn.keywords.values())
        yield from _named(fn.func)
        return
    owner = getattr(fn, "__self__", fn if isinstance(fn, Module) else None)
    if owner is not None:
        if isinstance(owner, Module):
            yield from _fixed(owner)
        fn = getattr(fn, "__func__", None) or getattr(type(owner), "forward", None)
        if isinstance(fn, types.FunctionType) and not isinstance(owner, Module):
            yield from _attributes(owner, fn.__code__)
    while isinstance(fn, types.FunctionType):
        yield from _of_function(fn)
        fn = getattr(fn, "__wrapped__", None)


def _of_function(fn: types.FunctionType) -> Iterator[tuple[Read, Any]]:
    yield from _fixed(*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
    for cell in fn.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not set yet
        if _counts(value):
            yield functools.partial(getattr, cell, "cell_contents", None), value
    for name in _global_names(fn.__code__):
        if name in fn.__globals__ and _counts(fn.__globals__[name]):
            yield functools.partial(fn.__globals__.get, name), fn.__globals__[name]


def _attributes(owner: Any, code: types.CodeType) -> Iterator[tuple[Read, Any]]:
    """The attributes of a method's object that go by a name in its code."""
    for name, value in getattr(owner, "__dict__", {}).items():
        if name in code.co_names and _counts(value):
            yield functools.partial(getattr, owner, name, None), value


def _global_names(code: types.CodeType) -> set[str]:
    """The globals that a function reads, those read by functions inside it as well."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _global_names(constant)
    return found


def _fixed(*values: Any) -> Iterator[tuple[Read, Any]]:
    """Values that a function is bound to. A weak proxy stays one: it must not keep its object."""
    for value in values:
        if _counts(value):
            yield functools.partial(_itself, value), value


def _itself(value: Any) -> Any:
    return value


def _counts(value: Any) -> bool:
    return not isinstance(value, types.ModuleType | types.BuiltinFunctionType | type)


def _objects(value: Any, depth: int = 6) -> Iterator[Module | Optimizer]:
    """Every module and optimizer in a structure, not too deep inside."""
    if isinstance(value, Module | Optimizer):
        yield value
    elif isinstance(value, list | tuple | dict) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _objects(item, depth - 1)
