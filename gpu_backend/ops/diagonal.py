"""The diagonal over two axes, for sums that name an index twice. It is no op of the catalogue."""

from __future__ import annotations

import numpy as np

from ..array import Array, array
from ..capture import paused
from ..device import Device
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import HasSpec, Shape, Spec, contiguous_strides, normalize_axis
from .broadcast import gather
from .choice import where
from .update import persist

KEPT_MASKS = 8


def diagonal_spec(x: HasSpec, first: int, second: int) -> Spec:
    """y = x where the indices of the axes ``first`` and ``second`` are equal: the diagonal lies along ``first``, and
    ``second`` is gone; dx = dy there, else 0. ShapeError unless they are two axes of one extent.
    """
    one, other = _axes(x.shape, first, second)
    if x.shape[one] != x.shape[other]:
        raise ShapeError(f"diagonal: axes {first} and {second} of {x.shape} have two extents")
    return Spec(_without(x.shape, other), x.dtype)


def _axes(shape: Shape, first: int, second: int) -> tuple[int, int]:
    one, other = (normalize_axis("diagonal", axis, len(shape)) for axis in (first, second))
    if one == other:
        raise ShapeError(f"diagonal: {first} and {second} are one axis of {shape}")
    return one, other


def _without(extents: Shape, axis: int) -> Shape:
    return extents[:axis] + extents[axis + 1 :]


def diagonal_host_forward(x: HostArray, first: int, second: int) -> tuple[HostArray, Saved]:
    one, other = _axes(x.shape, first, second)
    y = np.moveaxis(np.diagonal(x, axis1=one, axis2=other), -1, one - (other < one))
    return y.copy(), (x.shape, one, other)


def diagonal_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    shape, one, other = saved
    mask = np.eye(shape[one], dtype=np.bool_).reshape(_square(shape, one, other))
    return (np.where(mask, np.expand_dims(dy, other), dy.dtype.type(0)),)


def diagonal_forward(out: Spec, x: Array, first: int, second: int) -> tuple[Array, Saved]:
    one, other = _axes(x.shape, first, second)
    steps = list(contiguous_strides(x.shape))
    steps[one] += steps[other]
    return gather("diagonal", x, out.shape, _without(tuple(steps), other)), (x.shape, one, other)


def diagonal_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    shape, one, other = saved
    mask = _mask(shape[one], dy.device).reshape(_square(shape, one, other))
    return (where(mask, dy.reshape(*dy.shape[:other], 1, *dy.shape[other:]), 0.0),)


def _square(shape: Shape, one: int, other: int) -> Shape:
    return tuple(extent if axis in (one, other) else 1 for axis, extent in enumerate(shape))


def _mask(n: int, device: Device) -> Array:
    """bool (n, n), true on the diagonal. The device keeps the latest few."""
    masks: dict[int, Array] = device.constants.setdefault("diagonals", {})
    made = masks.pop(n, None)
    if made is None:
        with paused():
            made = persist(array(np.eye(n, dtype=np.bool_), device=device), "diagonal")
    masks[n] = made
    while len(masks) > KEPT_MASKS:
        del masks[next(iter(masks))]
    return made


diagonal = Op(
    "diagonal",
    diagonal_spec,
    diagonal_host_forward,
    diagonal_forward,
    diagonal_host_backward,
    diagonal_backward,
)
