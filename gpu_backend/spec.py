"""Shapes and element types, without a device: what every op checks before it records anything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from .errors import DtypeError, ShapeError

Shape = tuple[int, ...]
Axis = int | Sequence[int] | None
Scalar = bool | int | float


@dataclass(frozen=True, eq=False)
class DType:
    """An element type: its name, its WGSL type in a storage buffer, its numpy types outside and inside the buffer.

    An element takes four bytes, a bool as one u32, 0 or 1; a float16 takes two, half a word, and kernels use f32.
    """

    name: str
    wgsl: str
    numpy: np.dtype[np.generic]
    storage: np.dtype[np.generic]

    @property
    def is_float(self) -> bool:
        """Whether a gradient can flow through values of this type."""
        return self.name in ("float32", "float16")

    @property
    def is_integer(self) -> bool:
        """Whether this is int32 or uint32; bool is not."""
        return self.name in ("int32", "uint32")

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name


float32 = DType("float32", "f32", np.dtype(np.float32), np.dtype(np.float32))
float16 = DType("float16", "u32", np.dtype(np.float16), np.dtype(np.float16))
int32 = DType("int32", "i32", np.dtype(np.int32), np.dtype(np.int32))
uint32 = DType("uint32", "u32", np.dtype(np.uint32), np.dtype(np.uint32))
bool_ = DType("bool", "u32", np.dtype(np.bool_), np.dtype(np.uint32))

DTYPES = (float32, float16, int32, uint32, bool_)

DTypeLike = DType | str | type | np.dtype[Any]


@lru_cache(maxsize=256)
def as_dtype(dtype: DTypeLike) -> DType:
    """The element type named by a DType, a name, a Python type or a numpy dtype; DtypeError if there is none."""
    if isinstance(dtype, DType):
        return dtype
    wanted = {float: "float32", int: "int32", bool: "bool"}.get(dtype) if isinstance(dtype, type) else None
    try:
        name = wanted or np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    for candidate in DTYPES:
        if candidate.name == name:
            return candidate
    raise DtypeError(f"no element type {name}: there are {', '.join(d.name for d in DTYPES)}")


class Spec(NamedTuple):
    """What an op returns: a shape and an element type."""

    shape: Shape
    dtype: DType


class HasSpec(Protocol):
    """Anything with a shape and an element type: an Array, a Spec."""

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...


def size_of(shape: Shape) -> int:
    """The number of elements of a shape; 1 for ``()``."""
    return math.prod(shape)


def as_shape(op: str, shape: int | Iterable[int]) -> Shape:
    """``shape`` as a tuple of non-negative ints."""
    dims = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    for extent in dims:
        if not isinstance(extent, int | np.integer) or isinstance(extent, bool):
            raise ShapeError(f"{op}: an extent is an integer, not {extent!r}")
        if extent < 0:
            raise ShapeError(f"{op}: negative extent {extent} in shape {dims}")
    return tuple(int(extent) for extent in dims)


@lru_cache(maxsize=4096)
def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The common shape of ``shapes`` under numpy's broadcasting rule."""
    rank = max(map(len, shapes))
    result: list[int] = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(extents) > 1:
            raise ShapeError(f"{op}: shapes do not broadcast: {' and '.join(map(str, shapes))}")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def normalize_axis(op: str, axis: int, rank: int) -> int:
    """``axis`` as a non-negative int below ``rank``."""
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise ShapeError(f"{op}: an axis is an integer, not {axis!r}")
    if not -rank <= axis < rank:
        raise ShapeError(f"{op}: axis {axis} is out of range for {rank} dimension{'s' if rank != 1 else ''}")
    return int(axis) % rank


def normalize_axes(op: str, axis: Axis, rank: int) -> Shape:
    """``axis`` (an int, several, or None for all) as a sorted tuple without duplicates."""
    if axis is None:
        return tuple(range(rank))
    axes = [normalize_axis(op, a, rank) for a in (axis if isinstance(axis, Sequence) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: axis {axis} names a dimension twice")
    return tuple(sorted(axes))


def reduced_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """``shape`` after a reduction over ``axes``."""
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def reshaped(shape: Shape, wanted: int | Iterable[int]) -> Shape:
    """The shape that ``reshape`` gives; one extent may be -1 and is worked out."""
    dims = (wanted,) if isinstance(wanted, int | np.integer) else tuple(wanted)
    if dims.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent may be -1, not {dims}")
    if -1 in dims:
        known = as_shape("reshape", (extent for extent in dims if extent != -1))
        count = size_of(known)
        if count == 0 or size_of(shape) % count:
            raise ShapeError(f"reshape: {shape} has {size_of(shape)} elements, which do not fill {dims}")
        dims = tuple(size_of(shape) // count if extent == -1 else extent for extent in dims)
    result = as_shape("reshape", dims)
    if size_of(result) != size_of(shape):
        raise ShapeError(f"reshape: {shape} has {size_of(shape)} elements, {result} has {size_of(result)}")
    return result


def result_type(op: str, *operands: HasSpec | Scalar) -> DType:
    """The element type in which ``operands`` meet. Python scalars are weak: they take the type of the arrays.

    bool goes to int32 or uint32, and any of them to float16 or float32; float16 with float32 gives float32. int32 with
    uint32 raises, since no type here holds both. A Python float meets integers as float32, a Python int bool as int32.
    """
    dtypes = {operand.dtype for operand in operands if not isinstance(operand, bool | int | float)}
    if float32 in dtypes:
        return float32
    if float16 in dtypes:
        return float16
    if int32 in dtypes and uint32 in dtypes:
        raise DtypeError(f"{op}: int32 and uint32 have no common type here; convert one with astype")
    integers = dtypes & {int32, uint32}
    scalars = [operand for operand in operands if isinstance(operand, bool | int | float)]
    if not dtypes or any(isinstance(scalar, float) for scalar in scalars):
        return float32
    if integers:
        return integers.pop()
    return bool_ if all(isinstance(scalar, bool) for scalar in scalars) else int32


def as_scalar(op: str, value: Scalar, dtype: DType) -> Scalar:
    """The Python number that stands for ``value`` in ``dtype``; DtypeError where it does not fit."""
    if dtype.is_float:
        try:
            with np.errstate(over="ignore"):
                return float(np.float32(float(value)))  # past float32's range it is infinite, as in numpy
        except OverflowError:
            raise DtypeError(f"{op}: the number does not fit {dtype}, nor float64") from None
    if dtype is bool_:
        return bool(value)
    low, high = (-(2**31), 2**31 - 1) if dtype is int32 else (0, 2**32 - 1)
    if not math.isfinite(value) or value != int(value) or not low <= value <= high:
        raise DtypeError(f"{op}: the number {value} does not fit {dtype}")
    return int(value)


def collapse(shape: Shape, *strides: Shape) -> tuple[Shape, tuple[Shape, ...]]:
    """The same walk over memory in as few dimensions as possible, innermost first.

    ``strides`` has one tuple per operand, in elements, parallel to ``shape``; 0 repeats an element. Two neighbouring
    dimensions become one where every operand steps through them as through one.
    """
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            continue
        if extents and all(op[axis] == own[-1] * extents[-1] for op, own in zip(strides, steps, strict=True)):
            extents[-1] *= shape[axis]
            continue
        extents.append(shape[axis])
        for op, own in zip(strides, steps, strict=True):
            own.append(op[axis])
    return tuple(extents), tuple(tuple(own) for own in steps)


def contiguous_strides(shape: Shape) -> Shape:
    """Strides, in elements, of a row-major array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def broadcast_strides(shape: Shape, target: Shape) -> Shape:
    """Strides, in elements, that walk a row-major array of ``shape`` as if it had the shape ``target``."""
    own = contiguous_strides(shape)
    lead = len(target) - len(shape)
    return (0,) * lead + tuple(0 if extent == 1 else stride for extent, stride in zip(shape, own, strict=True))
