"""Where the parts of a WGSL type lie in memory, and the way from numpy there and back.

Sizes and alignments: WGSL specification, section "Memory Layout".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from . import tree
from .module import Module, Number
from .tokens import SyntaxFault

HostArray = npt.NDArray[Any]
Memory = npt.NDArray[np.uint8]

SCALARS: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "i32": np.dtype("<i4"),
    "u32": np.dtype("<u4"),
    "f16": np.dtype("<f2"),
}
_VECTOR = re.compile(r"vec([234])")
_MATRIX = re.compile(r"mat([234])x([234])")


class LayoutError(TypeError):
    """A value does not fit the type that the shader declares. The text names the binding and the member."""


@dataclass(frozen=True)
class Field:
    """A member of a struct: its offset in bytes, its layout."""

    name: str
    offset: int
    layout: Layout


@dataclass(frozen=True)
class Layout:
    """A type in memory.

    ``shape`` is what numpy sees, ``padded`` what lies in memory: the columns of a 3-row matrix and the elements of an
    array of vec3 take four scalars. ``element`` is the numpy type of what the shape is made of, a scalar or a struct
    with its offsets. ``fields`` are the members of that struct. A type that ends in an array without a length has
    ``tail``, the layout of one element, and ``size`` is where it begins.
    """

    written: str
    size: int
    align: int
    element: np.dtype[Any]
    shape: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    fields: tuple[Field, ...] = ()
    tail: Layout | None = None
    tail_name: str = ""

    @property
    def is_struct(self) -> bool:
        """Whether it is made of named members."""
        return bool(self.fields) or bool(self.tail_name)

    @property
    def is_flat(self) -> bool:
        """Whether elements lie one after the other without gaps."""
        return not self.is_struct and self.shape == self.padded

    @property
    def host(self) -> np.dtype[Any]:
        """The numpy type of an element without padding inside its arrays; members stay at their offsets."""
        if not self.fields:
            return self.element
        formats = [np.dtype((field.layout.host, field.layout.shape)) for field in self.fields]
        names, offsets = [field.name for field in self.fields], [field.offset for field in self.fields]
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.element.itemsize})

    def pack(self, value: Any, where: str) -> Memory:
        """The bytes of ``value``; LayoutError names ``where`` if it does not fit. Types with a tail go by parts."""
        memory = np.zeros(self.padded, self.element)
        _fill(memory, self, value, where)
        return np.frombuffer(memory.tobytes(), np.uint8)[: self.size]

    def unpack(self, memory: Memory) -> HostArray:
        """The value in these bytes: an array of ``shape``, with the fields of a struct."""
        whole = np.zeros(max(prod(self.padded), 1) * self.element.itemsize, np.uint8)
        whole[: min(memory.size, whole.size)] = memory[: whole.size]
        made = whole.view(self.element).reshape(self.padded)
        return _without_padding(made, self)


def sized(element: Layout, count: int) -> Layout:
    """The layout of an array of ``count`` elements."""
    return _array(element, count, f"array<{element.written}, {count}>")


def layout_of(module: Module, written: tree.Name, overrides: Mapping[str, Number] | None = None) -> Layout:
    """The layout of a type that the host may share. SyntaxFault if it may not."""
    kind = module.resolve(written)
    text = _spell(kind)
    name, arguments = kind.name, kind.arguments
    if name == "atomic" and arguments:
        return layout_of(module, _type(arguments[0]), overrides)
    if name in SCALARS:
        nbytes = SCALARS[name].itemsize
        return Layout(text, nbytes, nbytes, SCALARS[name])
    if vector := _VECTOR.fullmatch(name):
        return _vector(layout_of(module, _type(arguments[0])), int(vector[1]), text)
    if matrix := _MATRIX.fullmatch(name):
        columns, rows = int(matrix[1]), int(matrix[2])
        column = _vector(layout_of(module, _type(arguments[0])), rows, text)
        return _array(column, columns, text)
    if name == "array":
        element = layout_of(module, _type(arguments[0]), overrides)
        if len(arguments) > 1:
            return _array(element, int(module.evaluate(arguments[1], overrides)), text)
        return Layout(text, 0, element.align, element.element, tail=_as_element(element))
    if name in module.structs:
        return _struct(module, module.structs[name], overrides)
    raise SyntaxFault(f"{text} is no type that the host can share", written.start)


def _vector(scalar: Layout, count: int, text: str) -> Layout:
    return Layout(
        text, count * scalar.size, scalar.size * (4 if count == 3 else count), scalar.element, (count,), (count,)
    )


def _as_element(layout: Layout) -> Layout:
    """The layout with its size rounded up to the stride it has in an array."""
    stride = _round_up(layout.size, layout.align)
    if stride == layout.size or layout.is_struct:
        return layout
    return Layout(layout.written, stride, layout.align, layout.element, layout.shape, (*layout.padded[:-1], 4))


def _array(element: Layout, count: int, text: str) -> Layout:
    one = _as_element(element)
    size = count * _round_up(one.size, one.align)
    shape, padded = (count, *one.shape), (count, *one.padded)
    return Layout(text, size, one.align, one.element, shape, padded, one.fields)


def _struct(module: Module, struct: tree.Struct, overrides: Mapping[str, Number] | None) -> Layout:
    offset, align = 0, 1
    fields: list[Field] = []
    tail: Layout | None = None
    tail_name = ""
    for member in struct.members:
        layout = layout_of(module, member.type, overrides)
        own_align = layout.align
        if "align" in member.attributes:
            own_align = int(module.evaluate(member.attributes["align"][0]))
        align = max(align, own_align)
        offset = _round_up(offset, own_align)
        if layout.tail is not None:
            tail, tail_name = layout.tail, member.name
            break
        fields.append(Field(member.name, offset, layout))
        size = layout.size
        if "size" in member.attributes:
            size = int(module.evaluate(member.attributes["size"][0]))
        offset += size
    size = offset if tail else _round_up(offset, align)
    element = np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [np.dtype((field.layout.element, field.layout.padded)) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": size,
        }
    )
    return Layout(struct.name, size, align, element, (), (), tuple(fields), tail, tail_name)


def _without_padding(memory: HostArray, layout: Layout) -> HostArray:
    places: tuple[Any, ...] = (..., *(slice(extent) for extent in layout.shape))
    cut = memory[places] if layout.shape else memory
    if not layout.fields:
        return cut
    made = np.zeros(cut.shape, layout.host)
    for field in layout.fields:
        made[field.name] = _without_padding(cut[field.name], field.layout)
    return made


def _fill(memory: HostArray, layout: Layout, value: Any, where: str) -> None:
    if not layout.fields:
        places: tuple[Any, ...] = (..., *(slice(extent) for extent in layout.shape))
        target = memory[places] if layout.shape else memory
        elements = convert(value, layout.element, where)
        is_list = elements.ndim <= 1 or target.ndim <= 1  # a matrix is not taken for its transpose
        if elements.shape != target.shape and not (is_list and elements.size == target.size):
            raise LayoutError(f"{where}: {layout.written} takes an array of {target.shape}, not of {elements.shape}")
        target[...] = elements.reshape(target.shape)
        return
    if isinstance(value, np.ndarray | np.void) and value.dtype.names:
        _compare_offsets(layout, value.dtype, where)
        given: Any = {name: value[name] for name in value.dtype.names}
    elif isinstance(value, Mapping):
        given = value
    elif isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
        for one in value:
            check_names(one, [field.name for field in layout.fields], where)
        given = {name: [one[name] for one in value] for name in (value[0] if value else {})}
    else:
        raise LayoutError(f"{where}: {layout.written} takes a dict or a structured array, not {type(value).__name__}")
    names = [field.name for field in layout.fields]
    check_names(given, names, where)
    for field in layout.fields:
        _fill(memory[field.name], field.layout, given[field.name], f"{where}.{field.name}")


def check_names(given: Mapping[str, Any], wanted: list[str], where: str) -> None:
    """LayoutError if a name is missing or too many."""
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        faults = [f"{', '.join(missing)} missing"] * bool(missing) + [f"no {', '.join(unknown)} here"] * bool(unknown)
        raise LayoutError(f"{where}: {'; '.join(faults)}. It takes {', '.join(wanted)}")


def _compare_offsets(layout: Layout, given: np.dtype[Any], where: str) -> None:
    """A host struct with offsets of its own must have those of the shader: LayoutError says where they part."""
    for field in layout.fields:
        if given.fields and field.name in given.fields:
            offset = given.fields[field.name][1]
            if offset != field.offset:
                raise LayoutError(
                    f"{where}.{field.name}: the shader reads it at byte {field.offset}, the host has it at {offset}"
                )
    if given.itemsize < layout.element.itemsize and not layout.tail:
        sizes = f"{layout.element.itemsize} bytes, the host's {given.itemsize}"
        raise LayoutError(f"{where}: an element of the shader's {layout.written} takes {sizes}")


def convert(value: Any, wanted: np.dtype[Any], where: str) -> HostArray:
    """``value`` as an array of a scalar type. Floats are rounded, whole numbers must fit; anything else raises."""
    try:
        elements = np.asarray(value)
    except ValueError as error:  # lists of several lengths
        raise LayoutError(f"{where}: {error}") from None
    if elements.dtype == wanted:
        return elements
    kind = elements.dtype.kind
    if wanted.kind == "f" and kind in "fiub":
        with np.errstate(over="ignore"):
            return elements.astype(wanted)
    if wanted.kind in "iu" and kind in "iub":
        info = np.iinfo(wanted)
        if elements.size and (int(elements.min()) < info.min or int(elements.max()) > info.max):
            raise LayoutError(f"{where}: {elements.min()} to {elements.max()} does not fit {wanted.name}")
        return elements.astype(wanted)
    raise LayoutError(f"{where}: the shader has {wanted.name}, the array {elements.dtype}; convert it with astype")


def _type(argument: tree.Expression) -> tree.Name:
    if not isinstance(argument, tree.Name):
        raise SyntaxFault("a type is expected here", argument.start)
    return argument


def _round_up(size: int, align: int) -> int:
    return -(-size // align) * align


def _spell(kind: tree.Name) -> str:
    arguments = [_spell(one) if isinstance(one, tree.Name) else getattr(one, "text", "...") for one in kind.arguments]
    return kind.name + (f"<{', '.join(arguments)}>" if arguments else "")
