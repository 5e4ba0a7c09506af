"""One storage binding of a test: its content, its logical end, and the guard behind that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..syntax.layout import Layout, LayoutError, check_names, convert, sized
from ..syntax.module import Binding

Memory = npt.NDArray[np.uint8]
HostArray = npt.NDArray[Any]

# Words whose halves are equal, so that they read the same as 16 bits. A NaN in f32 and f16, a large number, zero, and a
# number far below it: whatever is computed from what was there, a minimum or a maximum too, one of them shows it.
POISONS = (0x7FD17FD1, 0x4A5B4A5B, 0, 0xCA5BCA5B)
OUTPUT_GUARDS = (0x7FD97FD9, 0x4A634A63, 0x00070007, 0xCA63CA63)
INPUT_GUARDS = (0x7FC57FC5, 0x4A474A47, 0, 0xCA47CA47)
GUARD_NBYTES = 65536


@dataclass
class Slot:
    """``initial`` is what the buffer holds before a run, None for an output that is to be written whole.

    ``nbytes`` is the logical size in bytes, ``length`` what ``arrayLength`` tells, ``shape`` that of the array that
    comes back.
    """

    binding: Binding
    layout: Layout
    initial: Memory | None
    is_output: bool
    shape: tuple[int, ...]
    length: int
    nbytes: int

    @property
    def name(self) -> str:
        """The name of the binding."""
        return self.binding.name

    @property
    def unit(self) -> int:
        """Bytes that the size of the buffer is a multiple of."""
        tail = self.layout.tail
        return max(4, tail.size if tail is not None and not tail.is_struct else 4)

    def size(self, has_guard: bool) -> int:
        """The size of the buffer, with or without a guard."""
        guard = GUARD_NBYTES if has_guard else 0
        smallest = self.layout.size + (self.layout.tail.size if self.layout.tail else 0)
        return -(-max(self.nbytes + guard, smallest) // self.unit) * self.unit

    def content(self, size: int, poison: int = 0, guard: int = 0) -> Memory:
        """The bytes of the buffer before a run; a number chooses the poison of an output, and the guard."""
        word = (OUTPUT_GUARDS if self.binding.writable else INPUT_GUARDS)[guard]
        memory = _pattern(word, size)
        if self.initial is not None:
            memory[: self.nbytes] = self.initial
        else:
            memory[: self.nbytes] = _pattern(POISONS[poison], self.nbytes)
        return memory

    def guard_bytes(self, memory: Memory, guard: int) -> HostArray:
        """Offsets, in bytes from the start of the buffer, of the guard bytes that were changed."""
        before = self.content(memory.size, 0, guard)
        return np.flatnonzero(memory[self.nbytes :] != before[self.nbytes :]) + self.nbytes

    def value(self, memory: Memory) -> Any:
        """What a user gets back: an array of the shape asked for, or a dict for a struct that ends in an array."""
        tail = self.layout.tail
        if tail is None:
            return self.layout.unpack(memory[: self.layout.size])
        values = _unpack_tail(tail, memory[self.layout.size : self.nbytes], self.shape)
        if not self.layout.is_struct:
            return values
        if not self.layout.fields:
            return {self.layout.tail_name: values}
        prefix = self.layout.unpack(memory[: self.layout.size])
        return {**{name: prefix[name] for name in prefix.dtype.names or ()}, self.layout.tail_name: values}

    def leaves(self, memory: Memory) -> Iterator[tuple[str, HostArray]]:
        """The arrays of numbers that the value is made of, each with the path to it."""
        value = self.value(memory)
        yield from _leaves(self.name, value)

    def element(self, offset: int) -> str:
        """Where a byte behind the logical end lies, in elements."""
        tail = self.layout.tail
        if tail is None:
            return f"byte {offset}"
        width = tail.element.itemsize if tail.is_flat else max(tail.size, 1)
        return f"element {(offset - self.layout.size) // width} (byte {offset})"


def input_slot(binding: Binding, layout: Layout, value: Any, *, is_output: bool) -> Slot:
    """A slot that starts with ``value``."""
    tail = layout.tail
    if tail is None:
        memory = layout.pack(value, binding.name)
        return Slot(binding, layout, memory, is_output, layout.shape, 0, layout.size)
    prefix = np.zeros(0, np.uint8)
    if layout.is_struct:
        if not isinstance(value, Mapping):
            raise LayoutError(f"{binding.name}: {layout.written} takes a dict, not {type(value).__name__}")
        check_names(value, [*(field.name for field in layout.fields), layout.tail_name], binding.name)
        head = {field.name: value[field.name] for field in layout.fields}
        prefix = layout.pack(head, binding.name) if layout.fields else prefix
        value = value[layout.tail_name]
    if tail.is_struct:
        elements: Any = value if isinstance(value, Mapping | list) else np.asarray(value)
        shape = (
            elements.shape if isinstance(elements, np.ndarray) else (_struct_count(elements, binding.name), *tail.shape)
        )
        count = _count(tail, shape, binding.name)
        if isinstance(elements, np.ndarray):
            elements = elements.reshape(count, *tail.shape)
        memory = sized(tail, count).pack(elements, binding.name)
    else:
        elements = convert(value, tail.element, binding.name)
        shape = elements.shape
        count = _count(tail, shape, binding.name)
        if tail.is_flat:
            memory = np.frombuffer(elements.tobytes(), np.uint8)
        else:
            memory = sized(tail, count).pack(elements.reshape(count, *tail.shape), binding.name)
    whole = np.concatenate([prefix, memory])
    return Slot(binding, layout, whole, is_output, shape, count, whole.size)


def output_slot(binding: Binding, layout: Layout, asked: Any) -> Slot:
    """A slot to be written whole: ``asked`` is a shape, or None where the type has a size of its own."""
    tail = layout.tail
    if tail is None:
        if asked is not None and _shape(asked, binding.name) not in ((), layout.shape):
            raise LayoutError(f"{binding.name}: {layout.written} has a size of its own; pass None for its shape")
        return Slot(binding, layout, None, True, layout.shape, 0, layout.size)
    if layout.is_struct:
        if not isinstance(asked, Mapping):
            raise LayoutError(f"{binding.name}: {layout.written} takes a dict with {layout.tail_name}, a shape")
        check_names(asked, [layout.tail_name], binding.name)  # what stands before the array is written, too
        asked = asked[layout.tail_name]
    if asked is None:
        raise LayoutError(f"{binding.name}: {layout.written} has no length of its own; pass a shape")
    shape = _shape(asked, binding.name)
    count = _count(tail, shape, binding.name)
    nbytes = prod(shape) * tail.element.itemsize if tail.is_flat else count * tail.size
    return Slot(binding, layout, None, True, shape, count, layout.size + nbytes)


def _shape(asked: Any, where: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(extent) for extent in (asked if isinstance(asked, tuple | list) else (asked,)))
    except (TypeError, ValueError):
        raise LayoutError(f"{where}: {asked!r} is no shape") from None
    if any(extent < 0 for extent in shape):
        raise LayoutError(f"{where}: the shape {shape} has a negative extent")
    return shape


def _count(tail: Layout, shape: tuple[int, ...], where: str) -> int:
    """How many elements an array of numbers of this shape takes."""
    if tail.is_flat:  # the last vector may be filled in part
        return -(-prod(shape) // prod(tail.shape))
    if tail.shape and shape[len(shape) - len(tail.shape) :] != tail.shape:
        raise LayoutError(f"{where}: an array of {tail.written} has a shape that ends in {tail.shape}, not {shape}")
    return prod(shape[: len(shape) - len(tail.shape)])


def _struct_count(elements: Mapping[str, Any] | list[Any], where: str) -> int:
    if not isinstance(elements, Mapping):
        return len(elements)
    for name, values in elements.items():
        if not np.shape(values):
            raise LayoutError(f"{where}.{name}: an array of structs takes one value for each, not {values!r}")
        return len(values)
    return 0


def _unpack_tail(tail: Layout, memory: Memory, shape: tuple[int, ...]) -> HostArray:
    if tail.is_flat:
        return np.frombuffer(memory.tobytes(), tail.element).reshape(shape)
    count = memory.size // tail.size
    return sized(tail, count).unpack(memory).reshape(shape)


def _pattern(word: int, nbytes: int) -> Memory:
    return np.full(-(-nbytes // 4), word, np.uint32).view(np.uint8)[:nbytes]


def bits(elements: HostArray) -> HostArray:
    """The bits of numbers, as unsigned integers."""
    return np.ascontiguousarray(elements).view(f"u{elements.dtype.itemsize}")


def is_poison(elements: HostArray, poison: int) -> HostArray:
    """Which numbers are still that poison."""
    width = elements.dtype.itemsize
    still: HostArray = bits(elements) == (POISONS[poison] & ((1 << 8 * width) - 1))
    return still


def _leaves(path: str, value: Any) -> Iterator[tuple[str, HostArray]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(f"{path}.{name}", part)
    elif value.dtype.names:
        for name in value.dtype.names:
            yield from _leaves(f"{path}.{name}", value[name])
    else:
        yield path, np.ascontiguousarray(value)
