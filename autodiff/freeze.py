"""Frozen copies of values, to tell later whether something changed."""

from __future__ import annotations

import enum
import weakref
from typing import Any

import numpy as np

from gpu_backend import Array, Device, DType

PLAIN = (bool, int, str, bytes, type(None), DType, Device, enum.Enum, np.dtype, type)
LARGEST_FROZEN = 2**16  # bytes of a numpy array that is compared by content


class Identified:
    """Base of objects that stand for themselves as arguments of a compiled function: modules, optimizers, schedules."""


class Same:
    """An object in a frozen value, compared by identity. It is not kept alive where it can be watched instead."""

    __slots__ = ("_hash", "_held")

    def __init__(self, held: Any) -> None:
        self._hash = id(held)
        try:
            self._held: Any = weakref.ref(held)
        except TypeError:
            self._held = lambda: held

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Same):
            return NotImplemented
        mine = self._held()
        return mine is not None and mine is other._held()

    def __hash__(self) -> int:
        return self._hash

    def stands_for(self, value: Any) -> bool:
        """Whether ``value`` is the object."""
        return self._held() is value

    @property
    def is_gone(self) -> bool:
        """Whether the object was collected."""
        return self._held() is None

    def __repr__(self) -> str:
        return f"<{type(self._held()).__name__}>"


def freeze(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A copy of a value that compares as equal while the value is the same: numbers by type and bits, containers and
    small numpy arrays by what is in them, tensors by identity and by where they lie, anything else by identity.

    ``inside``: the containers around the value; one that holds itself ends there.
    """
    if isinstance(value, PLAIN):
        return type(value), value
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    if isinstance(value, np.ndarray) and value.nbytes <= LARGEST_FROZEN and not value.dtype.hasobject:
        return Same(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple | dict | set | frozenset):
        if id(value) in inside:
            return type(value), "around"
        around = (*inside, id(value))
        if isinstance(value, list | tuple):
            return type(value), tuple(freeze(item, around) for item in value)
        if isinstance(value, dict):
            return type(value), tuple((freeze(name), freeze(item, around)) for name, item in value.items())
        return type(value), frozenset(freeze(item, around) for item in value)
    array = getattr(value, "array", None)
    if isinstance(array, Array):
        return Same(value), Same(array.storage)
    return Same(value)


def has_gone(frozen: Any) -> bool:
    """Whether an object in a frozen value was collected, so that nothing equals it any more."""
    if isinstance(frozen, tuple | frozenset):
        return any(has_gone(item) for item in frozen)
    return isinstance(frozen, Same) and frozen.is_gone


def is_mutable(value: Any) -> bool:
    """Whether ``freeze`` looks into a value that may change without being set anew."""
    if isinstance(value, tuple):
        return any(is_mutable(item) for item in value)
    return isinstance(value, list | dict | set | np.ndarray)


class Mutations:
    """How often something was set that a plan depends on: an attribute of a module, a ``requires_grad``. As long as it
    stands still, nothing of that kind needs to be looked at."""

    count = 0
