"""Frozen copies of values, to tell later whether something changed."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from gpu_backend import Array, Device, DType

PLAIN = (bool, int, str, bytes, type(None), DType, Device, enum.Enum, np.dtype, type)


class Identified:
    """Base of objects that stand for themselves as arguments of a compiled function: modules, optimizers, schedules."""


class Same:
    """An object in a frozen value, compared by identity, and held."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.held is self.held

    def __hash__(self) -> int:
        return id(self.held)

    def __repr__(self) -> str:
        return f"<{type(self.held).__name__}>"


def freeze(value: Any) -> Any:
    """A copy of a value that compares as equal while the value is the same: numbers by type and bits, containers by
    what is in them, tensors by identity and by where they lie, anything else by identity."""
    if isinstance(value, PLAIN):
        return type(value), value
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), tuple(freeze(item) for item in value)
    if isinstance(value, dict):
        return type(value), tuple((freeze(name), freeze(item)) for name, item in value.items())
    if isinstance(value, set | frozenset):
        return type(value), frozenset(freeze(item) for item in value)
    array = getattr(value, "array", None)
    if isinstance(array, Array):
        return Same(value), Same(array.storage)
    return Same(value)


def is_mutable(value: Any) -> bool:
    """Whether ``freeze`` looks into a value that may change without being set anew."""
    if isinstance(value, tuple):
        return any(is_mutable(item) for item in value)
    return isinstance(value, list | dict | set)
