"""Slices and what is made of them: getitem, flip, roll, diagonal, tril, triu; and assign_region, in place."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array import Array, allocate
from ..cast import cast
from ..device import same_device
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import (
    Axis,
    HasSpec,
    Scalar,
    Shape,
    Spec,
    broadcast_shapes,
    broadcast_strides,
    contiguous_strides,
    float16,
    float32,
    normalize_axes,
    normalize_axis,
    size_of,
)
from .broadcast import label
from .creation import full, zeros
from .region import Region, dense, move
from .update import copy_into, own

__all__ = ["diagonal", "flip", "getitem", "roll", "tril", "triu"]

Key = Any


class Chosen(NamedTuple):
    """What a key chooses: a box of elements, the shape that they have in the end, and which of its dimensions are those
    of the box; the others are new.
    """

    region: Region
    box: Shape
    shape: Shape
    places: Shape


def choose(op: str, shape: Shape, key: Key) -> Chosen:
    """The elements of an array of ``shape`` that ``key`` names: integers, slices, Ellipsis and None, as in numpy.

    IndexError for an integer out of range or too many of them; TypeError for what is no such key.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    for part in keys:
        if part is None or part is Ellipsis or isinstance(part, slice):
            continue
        if isinstance(part, bool | np.bool_) or not hasattr(part, "__index__") or getattr(part, "shape", ()) != ():
            raise TypeError(
                f"{op}: an index is an integer, a slice, ... or None, not {type(part).__name__}; take() has indices "
                "from an array, where() a mask"
            )
    if sum(part is Ellipsis for part in keys) > 1:
        raise IndexError(f"{op}: only one ... may stand in an index")
    named = sum(part is not None and part is not Ellipsis for part in keys)
    if named > len(shape):
        raise IndexError(f"{op}: {named} indices for shape {shape}, which has {len(shape)} dimensions")
    whole = [slice(None)] * (len(shape) - named)
    at = next((place for place, part in enumerate(keys) if part is Ellipsis), None)
    keys = [*keys, *whole] if at is None else [*keys[:at], *whole, *keys[at + 1 :]]
    steps = contiguous_strides(shape)
    offset, axis = 0, 0
    box: list[int] = []
    strides: list[int] = []
    result: list[int] = []
    places: list[int] = []
    for part in keys:
        if part is None:
            result.append(1)
            continue
        extent, stride = shape[axis], steps[axis]
        if isinstance(part, slice):
            chosen = range(*part.indices(extent))
            offset += chosen.start * stride if len(chosen) else 0
            box.append(len(chosen))
            strides.append(chosen.step * stride)
            places.append(len(result))
            result.append(len(chosen))
        else:
            place = operator.index(part)
            if not -extent <= place < extent:
                raise IndexError(f"{op}: index {place} is out of range for axis {axis} with extent {extent}")
            offset += place % extent * stride
        axis += 1
    return Chosen(Region(offset, tuple(strides)), tuple(box), tuple(result), tuple(places))


def getitem_spec(x: HasSpec, key: Key) -> Spec:
    """y = x[key], a copy, for integers, slices with any step, ... and None; dx = dy at those places, 0 elsewhere.

    IndexError for an integer out of range; TypeError for masks, lists and arrays: take() and where() have those.
    """
    return Spec(choose("getitem", x.shape, key).shape, x.dtype)


def getitem_host_forward(x: HostArray, key: Key) -> tuple[HostArray, Saved]:
    return np.array(x[key]), (x.shape, key)


def getitem_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, key = saved
    dx = np.zeros(shape, dy.dtype)
    dx[key] = dy
    return (dx,)


def getitem_forward(out: Spec, x: Array, key: Key) -> tuple[Array, Saved]:
    chosen = choose("getitem", x.shape, key)
    return _taken("getitem", x, chosen.region, chosen.box, out.shape), (x.shape, key)


def getitem_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shape, key = saved
    chosen = choose("getitem", shape, key)
    return (_put("getitem", dy, chosen.region, chosen.box, shape),)


getitem = Op("getitem", getitem_spec, getitem_host_forward, getitem_forward, getitem_host_backward, getitem_backward)


def _taken(name: str, x: Array, region: Region, box: Shape, shape: Shape) -> Array:
    """A new array of ``shape`` with the elements of a region of x."""
    y = allocate(shape, x.dtype, x.device, name)
    move(name, box, x, region, y, dense(box))
    return y


def _put(name: str, dy: Array, region: Region, box: Shape, shape: Shape) -> Array:
    """Zeros of ``shape`` with the elements of dy in a region."""
    dx = zeros(shape, dy.dtype, dy.device)
    move(name, box, dy, dense(box), dx, region)
    return dx


def assign_region(target: Array, key: Key, source: Array | Scalar) -> None:
    """target[key] <- source, which broadcasts and is cast to the type of the target; in place, no gradient flows.

    The source may lie in the memory of the target. ShapeError if it does not broadcast to what the key chooses.
    """
    device = target.device
    chosen = choose("setitem", target.shape, key)
    target.storage.check()
    if not isinstance(source, Array):
        source = full((), source, target.dtype, device)
    same_device("setitem", device, source.device)
    source.storage.check()
    given = source.shape
    while len(given) > len(chosen.shape) and given[0] == 1:
        given = given[1:]
    if len(given) > len(chosen.shape) or broadcast_shapes("setitem", given, chosen.shape) != chosen.shape:
        raise ShapeError(f"setitem: {source.shape} does not broadcast to the {chosen.shape} that is chosen")
    with device.lock:
        if device.is_host:
            elements = cast(source, target.dtype).host().copy().reshape(given)
            own(target)
            stored = device.storage_dtype(target.dtype)
            memory = target.storage.buffer.memory[: target.size * stored.itemsize].view(stored)
            memory.reshape(target.shape)[key] = elements
        elif target.dtype is float16:
            wide = cast(target, float32)
            assign_region(wide, key, cast(source, float32))
            copy_into(target, cast(wide, float16))
            return
        else:
            values = cast(source, target.dtype)
            if values.storage.buffer is target.storage.buffer:
                values = getitem(values, key=...)
            own(target)
            ours = broadcast_strides(given, chosen.shape)
            source_region = Region(0, tuple(ours[place] for place in chosen.places))
            move("setitem", chosen.box, values, source_region, target, chosen.region)
        target.storage.version += 1


def flip_spec(x: HasSpec, axis: Axis = None) -> Spec:
    """y = x with the order of its elements reversed along ``axis``, all axes by default; dx = dy reversed likewise."""
    normalize_axes("flip", axis, len(x.shape))
    return Spec(x.shape, x.dtype)


def flip_host_forward(x: HostArray, axis: Axis = None) -> tuple[HostArray, Saved]:
    axes = normalize_axes("flip", axis, x.ndim)
    return np.flip(x, axes).copy(), (axes,)


def flip_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (np.flip(dy, saved[0]).copy(),)


def flip_forward(out: Spec, x: Array, axis: Axis = None) -> tuple[Array, Saved]:
    axes = normalize_axes("flip", axis, x.ndim)
    key = tuple(slice(None, None, -1) if place in axes else slice(None) for place in range(x.ndim))
    chosen = choose("flip", x.shape, key)
    return _taken("flip", x, chosen.region, chosen.box, x.shape), (axes,)


def flip_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (flip_forward(Spec(dy.shape, dy.dtype), dy, saved[0])[0],)


flip = Op("flip", flip_spec, flip_host_forward, flip_forward, flip_host_backward, flip_backward)


def _shifts(shape: Shape, shift: int | Sequence[int], axis: Axis) -> dict[int, int]:
    """How far each axis is rolled."""
    axes = [axis] if isinstance(axis, int | np.integer) else list(axis or ())
    each = [shift] * len(axes) if isinstance(shift, int | np.integer) else list(shift)
    if len(each) != len(axes):
        raise ShapeError(f"roll: {len(each)} shifts for {len(axes)} axes")
    found: dict[int, int] = {}
    for place, far in zip(axes, each, strict=True):
        axis_ = normalize_axis("roll", place, len(shape))
        found[axis_] = found.get(axis_, 0) + operator.index(far)
    return {place: far % shape[place] if shape[place] else 0 for place, far in found.items()}


def roll_spec(x: HasSpec, shift: int | Sequence[int], axis: Axis = None) -> Spec:
    """y = x with its elements moved ``shift`` places along ``axis``, those pushed out coming in at the other end.

    dx = dy moved back. Without an axis the elements are moved in row-major order, as in numpy.
    """
    _shifts((size_of(x.shape),) if axis is None else x.shape, shift, 0 if axis is None else axis)
    return Spec(x.shape, x.dtype)


def roll_host_forward(x: HostArray, shift: Any, axis: Axis = None) -> tuple[HostArray, Saved]:
    return np.roll(x, shift, axis), (shift, axis)


def roll_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shift, axis = saved
    return (np.roll(dy, np.negative(shift).tolist(), axis),)


def roll_forward(out: Spec, x: Array, shift: Any, axis: Axis = None) -> tuple[Array, Saved]:
    y = x if axis is not None else x.reshape(-1)
    for place, far in _shifts(y.shape, shift, 0 if axis is None else axis).items():
        y = _rolled(y, place, far)
    return (_rolled(y, 0, 0) if y.storage is x.storage else y).reshape(x.shape), (shift, axis)


def _rolled(x: Array, axis: int, far: int) -> Array:
    """x moved by ``far`` places along one axis: two regions change places."""
    y = allocate(x.shape, x.dtype, x.device, "roll")
    if not x.shape:
        move("roll", (), x, dense(()), y, dense(()))
        return y
    strides, extent = contiguous_strides(x.shape), x.shape[axis]
    for source, target, length in ((0, far, extent - far), (extent - far, 0, far)):
        box = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        move("roll", box, x, Region(source * strides[axis], strides), y, Region(target * strides[axis], strides))
    return y


def roll_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shift, axis = saved
    return (roll_forward(Spec(dy.shape, dy.dtype), dy, np.negative(shift).tolist(), axis)[0],)


roll = Op("roll", roll_spec, roll_host_forward, roll_forward, roll_host_backward, roll_backward)


def _diagonal(shape: Shape, offset: int, axis1: int, axis2: int) -> tuple[Region, Shape]:
    rank = len(shape)
    if rank < 2:
        raise ShapeError(f"diagonal: shape {shape} has fewer than two dimensions")
    one, other = (normalize_axis("diagonal", axis, rank) for axis in (axis1, axis2))
    if one == other:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} of shape {shape} are the same")
    strides = contiguous_strides(shape)
    length = max(min(shape[one] + min(offset, 0), shape[other] - max(offset, 0)), 0)
    start = max(offset, 0) * strides[other] - min(offset, 0) * strides[one]
    rest = [axis for axis in range(rank) if axis not in (one, other)]
    region = Region(start if length else 0, (*(strides[axis] for axis in rest), strides[one] + strides[other]))
    return region, (*(shape[axis] for axis in rest), length)


def diagonal_spec(x: HasSpec, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Spec:
    """y[..., i] = x at (i, i + offset) of two axes, as a last axis, a copy; dx = dy at those places, 0 elsewhere."""
    return Spec(_diagonal(x.shape, offset, axis1, axis2)[1], x.dtype)


def diagonal_host_forward(x: HostArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> tuple[HostArray, Saved]:
    return np.diagonal(x, offset, axis1, axis2).copy(), (x.shape, offset, axis1, axis2)


def diagonal_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, offset, axis1, axis2 = saved
    dx = np.zeros(shape, dy.dtype)
    view = np.diagonal(dx, offset, axis1, axis2)
    view.flags.writeable = True
    view[...] = dy
    return (dx,)


def diagonal_forward(out: Spec, x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> tuple[Array, Saved]:
    region, box = _diagonal(x.shape, offset, axis1, axis2)
    return _taken("diagonal", x, region, box, out.shape), (x.shape, offset, axis1, axis2)


def diagonal_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    region, box = _diagonal(*saved)
    return (_put("diagonal", dy, region, box, saved[0]),)


diagonal = Op(
    "diagonal", diagonal_spec, diagonal_host_forward, diagonal_forward, diagonal_host_backward, diagonal_backward
)


def _triangle(name: str, sign: str, cut: Any, is_upper: bool) -> Op:
    def spec(x: HasSpec, k: int = 0) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError(f"{name}: shape {x.shape} has fewer than two dimensions")
        operator.index(k)
        return Spec(x.shape, x.dtype)

    def host_forward(x: HostArray, k: int = 0) -> tuple[HostArray, Saved]:
        return cut(x, k), (k,)

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        return (cut(dy, saved[0]),)

    def forward(out: Spec, x: Array, k: int = 0) -> tuple[Array, Saved]:
        y = allocate(x.shape, x.dtype, x.device, name)
        kernel = x.device.kernel("triangle", "forward", "", (("upper", is_upper),), label(name, "forward", x.dtype))
        rows, cols = x.shape[-2:]
        diagonal = max(min(k, cols), -rows)
        x.device.recorder.record_over(kernel, x.size, x=x, y=y, size=x.size, rows=rows, cols=cols, diagonal=diagonal)
        return y, (k,)

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        return (forward(Spec(dy.shape, dy.dtype), dy, saved[0])[0],)

    spec.__doc__ = (
        f"y = x of (..., rows, cols) where column - row {sign} k, else 0; dx = dy there, else 0. "
        "ShapeError below two dimensions."
    )
    return Op(name, spec, host_forward, forward, host_backward, backward)


tril = _triangle("tril", "<=", np.tril, is_upper=False)
triu = _triangle("triu", ">=", np.triu, is_upper=True)
