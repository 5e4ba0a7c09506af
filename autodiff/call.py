"""One call of a compiled function: its arguments on the way in, its results on the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_backend import Array, CaptureError, array
from gpu_backend.array import bytes_of
from gpu_backend.capture import Content, content_of
from gpu_backend.device import device as find_device
from gpu_backend.fallback_table import table as fallbacks
from gpu_backend.ops import update
from gpu_backend.storage import Storage
from gpu_backend.submission import Bytes

from .signature import Signature, rebuild, stands_for_itself
from .tape import is_grad_enabled
from .tensor import Tensor
from .trace import Trace


class Given:
    """A tensor that a function gets in place of an argument, whether it was changed since, and the version of the
    argument then."""

    def __init__(self, array: Array, source: Any) -> None:
        self.tensor = Tensor(array)
        self.source_version = source.array.storage.version if isinstance(source, Tensor) else 0
        self._version = array.storage.version

    @property
    def is_changed(self) -> bool:
        """Whether the function changed it in place."""
        return self.tensor.array.storage.version != self._version


class Call:
    """One call: its arguments parted into leaves and key, and the device it is for."""

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name = name
        self._arguments = arguments
        self._options = options
        self.signature = Signature(name, arguments, options)
        on = self.signature.device
        self.device = find_device() if on is None else on
        self.key = self.signature.key, self.device, is_grad_enabled(), fallbacks.key
        self.bound: list[int] = []

    def arguments(self, leaves: list[Given]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other leaves."""

        order = iter(self.signature.order)

        def leaf(x: Any) -> Any:
            if isinstance(x, Tensor) and stands_for_itself(x):
                return x
            given = leaves[next(order)].tensor
            return given if given.shape == x.shape else Tensor(given.array.reshape(x.shape))

        made: tuple[Any, ...] = rebuild(self._arguments, leaf)
        return made, rebuild(self._options, leaf)

    def plain_leaves(self) -> list[Given]:
        """Tensors off the tape with the same elements; numpy arrays as tensors."""
        return [
            Given(update.clone(x.array) if isinstance(x, Tensor) else array(x, device=self.device), x)
            for x in self.signature.leaves
        ]

    def copied(self, index: int) -> Array:
        """A leaf in memory of its own."""
        x = self.signature.leaves[index]
        return update.copy(x.array) if isinstance(x, Tensor) else array(x, device=self.device)

    def captured_leaves(self, trace: Trace) -> list[Given]:
        """Copies, which are the inputs of the capture."""
        given = []
        for index in range(len(self.signature.leaves)):
            x = self.copied(index)
            if x.device is self.device:
                trace.input(x.storage)
                self.bound.append(index)
            given.append(Given(x, self.signature.leaves[index]))
        return given

    def write_back(self, given: list[Given]) -> None:
        """Carry what was changed in place over to the tensors of the caller."""
        for x, mine in zip(self.signature.leaves, given, strict=True):
            if isinstance(x, Tensor) and mine.is_changed and not mine.tensor.array.storage.released:
                if x.array.storage.version != mine.source_version:
                    raise self._changed_twice(x)
                update.assign(x.array, mine.tensor.array)

    def check_changed(self, changed: list[tuple[int, Content]], written: list[Storage]) -> None:
        """CaptureError if a replay would change the memory of an argument from outside as well as in place."""
        for x in self.tensors(changed):
            if any(storage is x.array.storage for storage in written):
                raise self._changed_twice(x)

    def _changed_twice(self, x: Tensor) -> CaptureError:
        return CaptureError(
            f"{self.name}: {x.array.storage} is changed as an argument, which is a value, and from outside as well; "
            "change it one way"
        )

    def changed(self, given: list[Given]) -> list[tuple[int, Content]]:
        """Which leaves that are tensors were changed in place, and where what they became is."""
        return [
            (index, content_of(given[index].tensor.array.storage))
            for index in self.bound
            if isinstance(self.signature.leaves[index], Tensor) and given[index].is_changed
        ]

    def tensors(self, changed: list[tuple[int, Content]]) -> list[Tensor]:
        """The tensors of the caller that were changed."""
        leaves = [self.signature.leaves[index] for index, _ in changed]
        return [x for x in leaves if isinstance(x, Tensor)]

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
