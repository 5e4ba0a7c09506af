"""What a function names beside its arguments: closure cells, globals, the object it is a method of."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from .freeze import freeze, is_mutable
from .nn.module import Module
from .optim.optimizer import Optimizer
from .trace import Trace

LARGEST_CONTAINER = 64


class Surroundings:
    """The values that a function names, as they are now; ``changed`` tells whether they still are.

    One level deep: what the functions that it calls name is not looked at, nor are attributes of other objects than
    modules. Containers of more than 64 items count by identity.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._values = [(read, value, _frozen(value)) for read, value in _named(fn)]

    def changed(self) -> bool:
        """Whether a name stands for something else, or a plain value behind one has changed."""
        for read, before, frozen in self._values:
            now = read()
            if (now is not before or is_mutable(now)) and _frozen(now) != frozen:
                return True
        return False

    def note(self, trace: Trace, arguments: Any) -> None:
        """Tell a trace of the modules and optimizers here and among arguments, before it starts."""
        for value in [*(value for _, value, _ in self._values), *_objects(arguments)]:
            if isinstance(value, Module):
                for _, module in value.named_modules():
                    trace.module(module)
            elif isinstance(value, Optimizer):
                trace.optimizer(value)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | dict | set) and len(value) > LARGEST_CONTAINER:
        return id(value)
    return freeze(value)


def _named(fn: Any) -> Iterator[tuple[Callable[[], Any], Any]]:
    """Each value that ``fn`` names, with a way to read it again."""
    if isinstance(fn, functools.partial):
        for value in (*fn.args, *fn.keywords.values()):
            yield functools.partial(_identity, value), value
        yield from _named(fn.func)
        return
    owner = getattr(fn, "__self__", fn if isinstance(fn, Module) else None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        if isinstance(owner, Module):
            yield functools.partial(_identity, owner), owner
        fn = getattr(fn, "__func__", None) or getattr(type(owner), "forward", None)
    if not isinstance(fn, types.FunctionType):
        return
    for cell in fn.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not set yet
        if _counts(value):
            yield functools.partial(getattr, cell, "cell_contents", None), value
    for name in fn.__code__.co_names:
        if name in fn.__globals__ and _counts(fn.__globals__[name]):
            yield functools.partial(fn.__globals__.get, name), fn.__globals__[name]


def _counts(value: Any) -> bool:
    return not isinstance(value, types.ModuleType | types.BuiltinFunctionType | type)


def _identity(value: Any) -> Any:
    return value


def _objects(value: Any) -> Iterator[Any]:
    """Every module and optimizer in a structure of arguments."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _objects(item)
    elif isinstance(value, dict):
        yield from _objects(list(value.values()))
    elif isinstance(value, Module | Optimizer):
        yield value
