"""Signatures: what of a call is there to compute with, and what decides which plan fits.

A ``Signature`` parts arguments into *leaves*, tensors and numpy arrays that are bound anew on each call, and a key of
everything else, which is compared by value. ``rebuild`` makes a structure again around other leaves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gpu_backend import Device
from gpu_backend.array import host_elements

from .freeze import PLAIN, Identified, Same, freeze
from .tensor import Tensor


class Signature:
    """Leaves and key of the arguments of a call. ``order``: the leaf that each tensor and numpy array among the
    arguments stands for, in order; tensors on one memory are one leaf.

    A tensor that was made by the user and wants a gradient stands for itself, not for its elements. TypeError names an
    argument of another kind than a compiled function takes.
    """

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.leaves: list[Tensor | np.ndarray[Any, Any]] = []
        self.order: list[int] = []
        self._name = name
        self._seen: dict[int, int] = {}
        self._device: Device | None = None
        key = [self._walk(x, f"argument {index}") for index, x in enumerate(arguments)]
        key += [(word, self._walk(x, f"argument {word}")) for word, x in options.items()]
        self.key = tuple(key)

    @property
    def device(self) -> Device | None:
        """Where the first tensor lies, if there is one."""
        return self._device

    def _walk(self, value: Any, where: str) -> Any:
        if isinstance(value, Tensor):
            self._device = self._device or value.device
            if stands_for_itself(value):
                return Same(value), Same(value.array.storage)
            memory = id(value.array.storage)
            known = self._seen.setdefault(memory, len(self.leaves))
            if known == len(self.leaves):
                self.leaves.append(value)
            self.order.append(known)
            return "tensor", known, value.shape, value.dtype, value.device
        if isinstance(value, np.ndarray):
            elements = host_elements(value)
            self.order.append(len(self.leaves))
            self.leaves.append(elements)
            return "array", elements.shape, elements.dtype
        if isinstance(value, list | tuple):
            return type(value), tuple(self._walk(item, f"{where}[{index}]") for index, item in enumerate(value))
        if isinstance(value, dict):
            items = tuple((freeze(word), self._walk(item, f"{where}[{word!r}]")) for word, item in value.items())
            return type(value), items
        if isinstance(value, (*PLAIN, float, np.generic)):
            return freeze(value)
        if isinstance(value, Identified):
            return Same(value)
        raise TypeError(
            f"{self._name}: {where} is a {type(value).__name__}; a compiled function takes tensors, numpy arrays, "
            "numbers, strings, modules, optimizers, and lists, tuples and dicts of them"
        )


def stands_for_itself(x: Tensor) -> bool:
    """Whether an argument is a leaf that wants a gradient."""
    return x._requires_grad and x._entry is None


def rebuild(value: Any, replace: Callable[[Any], Any], leaves: tuple[type, ...] = (Tensor, np.ndarray)) -> Any:
    """The same structure of lists, tuples, dicts and dataclasses with each of its leaves replaced."""
    if isinstance(value, leaves):
        return replace(value)
    if isinstance(value, Identified):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(rebuild(item, replace, leaves) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(rebuild(item, replace, leaves) for item in value)
    if isinstance(value, dict):
        made_dict = copy.copy(value)
        for key, item in value.items():
            made_dict[key] = rebuild(item, replace, leaves)
        return made_dict
    if is_dataclass(value) and not isinstance(value, type):
        made = object.__new__(type(value))
        for field in fields(value):
            object.__setattr__(made, field.name, rebuild(getattr(value, field.name), replace, leaves))
        return made
    return value
