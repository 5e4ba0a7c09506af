"""One call of a compiled function: its arguments on the way in, its results on the way out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_backend import Array, array
from gpu_backend.array import bytes_of
from gpu_backend.capture import Content, content_of
from gpu_backend.device import device as find_device
from gpu_backend.ops import update
from gpu_backend.storage import Storage
from gpu_backend.submission import Bytes

from .signature import Signature, rebuild
from .tape import is_grad_enabled
from .tensor import Tensor
from .trace import Trace


class Call:
    """One call: its arguments parted into leaves and key, and the device it is for."""

    def __init__(
        self, name: str, arguments: tuple[Any, ...], options: dict[str, Any], by_identity: Container[Storage]
    ) -> None:
        self._arguments = arguments
        self._options = options
        self.signature = Signature(name, arguments, options, by_identity)
        on = self.signature.device
        self.device = find_device() if on is None else on
        self.key = self.signature.key, self.device, is_grad_enabled()
        self.bound: list[int] = []

    def arguments(self, leaves: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other leaves."""

        def leaf(x: Any) -> Any:
            if isinstance(x, Tensor) and self.signature.holds(x):
                return x
            given = leaves[self.signature.index(x)]
            return given if given.shape == x.shape else Tensor(given.array.reshape(x.shape))

        made: tuple[Any, ...] = rebuild(self._arguments, leaf)
        return made, rebuild(self._options, leaf)

    def eager_leaves(self) -> list[Tensor]:
        """Tensors off the tape, on the same memory; numpy arrays as tensors."""
        return [
            x.detach() if isinstance(x, Tensor) else Tensor(array(x, device=self.device)) for x in self.signature.leaves
        ]

    def copied(self, index: int) -> Array:
        """A leaf in memory of its own."""
        x = self.signature.leaves[index]
        return update.copy(x.array) if isinstance(x, Tensor) else array(x, device=self.device)

    def captured_leaves(self, trace: Trace) -> list[Tensor]:
        """Copies, which are the inputs of the capture."""
        given = []
        for index in range(len(self.signature.leaves)):
            x = self.copied(index)
            if x.device is self.device:
                trace.input(x.storage)
                self.bound.append(index)
            given.append(Tensor(x))
        return given

    def write_back(self, given: list[Tensor]) -> None:
        """Carry what was changed in place over to the tensors of the caller."""
        for x, mine in zip(self.signature.leaves, given, strict=True):
            if isinstance(x, Tensor) and mine.array.storage.version and not mine.array.storage.released:
                update.assign(x.array, mine.array)

    def changed(self, given: list[Tensor]) -> list[tuple[int, Content]]:
        """Which leaves that are tensors were changed in place, and where what they became is."""
        return [
            (index, content_of(given[index].array.storage))
            for index in self.bound
            if isinstance(self.signature.leaves[index], Tensor) and given[index].array.storage.version
        ]

    def inputs(self, bound: list[int]) -> list[Array | Bytes]:
        """The leaves as a plan takes them."""
        given: list[Array | Bytes] = []
        for index in bound:
            x = self.signature.leaves[index]
            given.append(x.array if isinstance(x, Tensor) else bytes_of(x, self.device))
        return given


@dataclass(frozen=True)
class Slot:
    """Where in a returned structure a result belongs."""

    index: int


def detached(result: Any) -> Any:
    """The same structure with every tensor off the tape, in memory of its own from its first change on."""
    return rebuild(result, lambda x: Tensor(update.clone(x.array)) if isinstance(x, Tensor) else x)


def filled(template: Any, made: list[Tensor]) -> Any:
    """A returned structure with its slots filled."""
    if isinstance(template, Slot):
        return made[template.index]
    return rebuild(template, lambda x: made[x.index] if isinstance(x, Slot) else x.copy(), (Slot, np.ndarray))
