"""Module, Parameter and Buffer: what a model is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from gpu_backend import Array, Device, DtypeError
from gpu_backend.array import host_elements, write
from gpu_backend.capture import active
from gpu_backend.device import device as find_device
from gpu_backend.ops.update import persist

from ..errors import CheckpointError
from ..freeze import Identified, Mutations
from ..tensor import Tensor, tensor
from ..trace import abandon, note_attribute, note_module

T = TypeVar("T")


class Parameter(Tensor):
    """A leaf that training changes. Its memory stays where it is until ``Module.to`` moves it to another device.

    An ``Array`` is taken over, anything else is copied.
    """

    __slots__ = ()

    def __init__(self, data: Any, device: str | Device | None = None, label: str = "parameter") -> None:
        made = data if isinstance(data, Array) else tensor(data, device=device).array
        super().__init__(persist(made, label), requires_grad=True)


class Buffer(Tensor):
    """State of a module that training does not learn but a checkpoint keeps, such as a running mean. Its memory stays
    where it is, as that of a parameter.
    """

    __slots__ = ()

    def __init__(self, data: Any, device: str | Device | None = None, label: str = "buffer") -> None:
        made = data if isinstance(data, Array) else tensor(data, device=device).array
        super().__init__(persist(made, label))


class Module(Identified):
    """Base of every layer and model: set parameters, buffers and modules as attributes, write ``forward``, call it.

    Lists, tuples and dicts of modules count as well. ``training`` tells layers which behave differently in training.
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The result of the module; to be written by each module."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if active.capture is not None:
            note_module(self)
        return self.forward(*inputs, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        for kind, word in ((Parameter, "parameter"), (Buffer, "buffer")):
            replaces = isinstance(vars(self).get(name), kind) and isinstance(value, Tensor)
            if replaces and not isinstance(value, kind):
                raise TypeError(f"{type(self).__name__}.{name} is a {word}; change it in place under no_grad()")
        note_attribute(self, name)
        try:
            super().__setattr__(name, value)
        finally:
            Mutations.count += 1  # again: another thread may have looked in between

    def __delattr__(self, name: str) -> None:
        note_attribute(self, name)
        super().__delattr__(name)
        Mutations.count += 1

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules set as attributes, with their names, in the order they were set."""
        for name, value in vars(self).items():
            yield from _named(name, value, Module)

    def named_modules(self, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with dotted names; one that is met twice comes once."""
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield prefix, self
            for name, child in self.named_children():
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its dotted name; one that is shared comes once, under its first name."""
        return self._named_tensors(Parameter)

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Every buffer with its dotted name; one that is shared comes once, under its first name."""
        return self._named_tensors(Buffer)

    def _named_tensors(self, kind: type[T]) -> Iterator[tuple[str, T]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                for own, found in _named(name, value, kind):
                    if id(found) not in seen:
                        seen.add(id(found))
                        yield f"{prefix}.{own}" if prefix else own, found

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter, once."""
        return (parameter for _, parameter in self.named_parameters())

    def buffers(self) -> Iterator[Buffer]:
        """Every buffer, once."""
        return (buffer for _, buffer in self.named_buffers())

    def _state(self) -> dict[str, Tensor]:
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, off the tape. They share memory with the model: copy to keep."""
        return {name: own.detach() for name, own in self._state().items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Overwrite parameters and buffers, where they lie, with arrays by dotted name.

        CheckpointError names what is missing, unexpected (both only if ``strict``) or of another shape or type, before
        anything is changed.
        """
        own = self._state()
        faults = []
        if strict:
            faults += [f"missing {name}" for name in own if name not in state]
            faults += [f"unexpected {name}" for name in state if name not in own]
        elements: dict[str, np.ndarray[Any, Any]] = {}
        for name, parameter in own.items():
            if name in state:
                given = state[name]
                try:
                    elements[name] = host_elements(given.numpy() if isinstance(given, Tensor) else given)
                except DtypeError as error:
                    faults.append(f"{name}: {error}")
                    continue
                if elements[name].shape != parameter.shape or elements[name].dtype != parameter.dtype.numpy:
                    faults.append(
                        f"{name} has {elements[name].shape} {elements[name].dtype}, "
                        f"the model {parameter.shape} {parameter.dtype}"
                    )
        if faults:
            raise CheckpointError(f"the state does not fit {type(self).__name__}: {'; '.join(faults)}")
        for name, content in elements.items():
            write(own[name].array, content)

    def to(self, device: str | Device) -> Module:
        """Move every parameter and buffer to a device, through the host; returns itself. Make optimizers afterwards."""
        goal = find_device(device)
        abandon("it moves a module to another device")
        Mutations.count += 1
        for own in (*self.parameters(), *self.buffers()):
            if own.device is not goal:
                own.array, own.grad = persist(own.array.to(goal), own.array.storage.label), None
        return self

    def train(self, mode: bool = True) -> Module:
        """Set ``training`` here and below; returns itself."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """``train(False)``."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Drop every gradient; the next backward starts from nothing."""
        for parameter in self.parameters():
            parameter.grad = None

    def extra_repr(self) -> str:
        """What ``repr`` shows in the brackets of this module."""
        return ""

    def __repr__(self) -> str:
        lines = [f"  ({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        inside = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({inside})"
        return "\n".join([f"{type(self).__name__}({inside}", *lines, ")"])


def _named(name: str, value: Any, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """``value`` if it is of ``kind``, or those inside it if it is a list, tuple or dict, with dotted names."""
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _named(f"{name}.{index}", item, kind)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named(f"{name}.{key}", item, kind)
