"""Ops that change the shape: clone, views (reshape, flatten, squeeze, expand_dims), permutations, broadcast_to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..array import Array
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import (
    Axis,
    HasSpec,
    Shape,
    Spec,
    as_shape,
    broadcast_shapes,
    broadcast_strides,
    contiguous_strides,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    reshaped,
    size_of,
)
from . import update
from .broadcast import gather
from .reduction import sum_to, sum_to_host

__all__ = [
    "broadcast_to",
    "clone",
    "expand_dims",
    "flatten",
    "permute_dims",
    "reshape",
    "squeeze",
    "swapaxes",
]


def clone_spec(x: HasSpec) -> Spec:
    """y = x; dx = dy. The elements are copied when x or y is first written, those of persistent memory at once."""
    return Spec(x.shape, x.dtype)


def clone_host_forward(x: HostArray) -> tuple[HostArray, Saved]:
    return x.copy(), ()


def clone_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (dy,)


def clone_forward(out: Spec, x: Array) -> tuple[Array, Saved]:
    return update.clone(x), ()


def clone_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (dy,)


clone = Op("clone", clone_spec, clone_host_forward, clone_forward, clone_host_backward, clone_backward, is_view=True)


# Views: the elements of x in row-major order in another shape; the result shares the memory of x.


def view(name: str, formula: str, shape_of: Callable[..., Shape], **attributes: Any) -> Op:
    """An op that gives x another shape: ``shape_of(shape of x, ...)``, with ``attributes`` and their defaults."""

    def spec(x: HasSpec, **given: Any) -> Spec:
        unknown = sorted(given.keys() - attributes.keys())
        if unknown:
            raise TypeError(f"{name}: no attribute {', '.join(unknown)}; it takes {', '.join(attributes)}")
        return Spec(shape_of(x.shape, *{**attributes, **given}.values()), x.dtype)

    def host_forward(x: HostArray, **given: Any) -> tuple[HostArray, Saved]:
        return x.reshape(shape_of(x.shape, *{**attributes, **given}.values())), (x.shape,)

    def forward(out: Spec, x: Array, **given: Any) -> tuple[Array, Saved]:
        return x.reshape(out.shape), (x.shape,)

    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    spec.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("x", keyword, annotation="HasSpec"),
            *(inspect.Parameter(key, keyword, default=value) for key, value in attributes.items()),
        ]
    )
    spec.__doc__ = f"{formula}; dx = dy in the shape of x. The result shares the memory of x."
    return Op(name, spec, host_forward, forward, _view_host_backward, _view_backward, is_view=True)


def _view_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (dy.reshape(saved[0]),)


def _view_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (dy.reshape(saved[0]),)


def _flattened(shape: Shape, start_axis: int, end_axis: int) -> Shape:
    if not shape:
        return (1,)
    first, last = (normalize_axis("flatten", axis, len(shape)) for axis in (start_axis, end_axis))
    if first > last:
        raise ShapeError(f"flatten: axis {start_axis} comes after axis {end_axis} in shape {shape}")
    return (*shape[:first], size_of(shape[first : last + 1]), *shape[last + 1 :])


def _squeezed(shape: Shape, axis: Axis) -> Shape:
    if axis is None:
        return tuple(extent for extent in shape if extent != 1)
    axes = normalize_axes("squeeze", axis, len(shape))
    for place in axes:
        if shape[place] != 1:
            raise ShapeError(f"squeeze: axis {place} of shape {shape} has extent {shape[place]}, not 1")
    return reduced_shape(shape, axes, keepdims=False)


def _expanded(shape: Shape, axis: Axis) -> Shape:
    count = 1 if isinstance(axis, int | np.integer) else len(axis or ())
    axes = normalize_axes("expand_dims", axis if axis is not None else (), len(shape) + count)
    rest = iter(shape)
    return tuple(1 if place in axes else next(rest) for place in range(len(shape) + count))


reshape = view(
    "reshape",
    "The elements in another shape, of which one extent may be -1; ShapeError unless their number is the same",
    reshaped,
    shape=(-1,),
)
flatten = view("flatten", "Axes start_axis to end_axis merged into one", _flattened, start_axis=0, end_axis=-1)
squeeze = view(
    "squeeze", "Without unit axes, all or those of ``axis``; ShapeError if one is no unit", _squeezed, axis=None
)
expand_dims = view("expand_dims", "With new unit axes, at the places ``axis`` of the result", _expanded, axis=0)


def permute_dims_spec(x: HasSpec, axes: Sequence[int]) -> Spec:
    """y[i_p0, i_p1, ...] = x[i_0, i_1, ...] for axes p, a copy; dx = dy under the inverse permutation.

    ShapeError unless ``axes`` names every dimension once.
    """
    order = _order(len(x.shape), axes)
    return Spec(tuple(x.shape[axis] for axis in order), x.dtype)


def permute_dims_host_forward(x: HostArray, axes: Sequence[int]) -> tuple[HostArray, Saved]:
    order = _order(x.ndim, axes)
    return x.transpose(order).copy(), (order,)


def permute_dims_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (dy.transpose(_inverse(saved[0])).copy(),)


def permute_dims_forward(out: Spec, x: Array, axes: Sequence[int]) -> tuple[Array, Saved]:
    order = _order(x.ndim, axes)
    strides = contiguous_strides(x.shape)
    return gather("permute_dims", x, out.shape, tuple(strides[axis] for axis in order)), (order,)


def permute_dims_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (permute_dims(dy, axes=_inverse(saved[0])),)


permute_dims = Op(
    "permute_dims",
    permute_dims_spec,
    permute_dims_host_forward,
    permute_dims_forward,
    permute_dims_host_backward,
    permute_dims_backward,
)


def _order(rank: int, axes: Sequence[int]) -> Shape:
    order = tuple(normalize_axis("permute_dims", axis, rank) for axis in axes)
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"permute_dims: {tuple(axes)} is not an order of {rank} dimensions")
    return order


def _inverse(order: Shape) -> Shape:
    return tuple(order.index(axis) for axis in range(len(order)))


def swapaxes_spec(x: HasSpec, axis1: int, axis2: int) -> Spec:
    """x with two axes exchanged, a copy; dx = dy with the same two exchanged."""
    order = _exchange(len(x.shape), axis1, axis2)
    return Spec(tuple(x.shape[axis] for axis in order), x.dtype)


def swapaxes_host_forward(x: HostArray, axis1: int, axis2: int) -> tuple[HostArray, Saved]:
    order = _exchange(x.ndim, axis1, axis2)
    return x.transpose(order).copy(), (order,)


def swapaxes_forward(out: Spec, x: Array, axis1: int, axis2: int) -> tuple[Array, Saved]:
    order = _exchange(x.ndim, axis1, axis2)
    strides = contiguous_strides(x.shape)
    return gather("swapaxes", x, out.shape, tuple(strides[axis] for axis in order)), (order,)


swapaxes = Op(
    "swapaxes",
    swapaxes_spec,
    swapaxes_host_forward,
    swapaxes_forward,
    permute_dims_host_backward,
    permute_dims_backward,
)


def _exchange(rank: int, axis1: int, axis2: int) -> Shape:
    one, other = (normalize_axis("swapaxes", axis, rank) for axis in (axis1, axis2))
    order = list(range(rank))
    order[one], order[other] = other, one
    return tuple(order)


def broadcast_to_spec(x: HasSpec, shape: int | Iterable[int]) -> Spec:
    """x repeated along new and along unit dimensions, a copy; dx = dy summed over them.

    ShapeError unless the shape of x broadcasts to ``shape``.
    """
    target = as_shape("broadcast_to", shape)
    if len(target) < len(x.shape) or broadcast_shapes("broadcast_to", x.shape, target) != target:
        raise ShapeError(f"broadcast_to: {x.shape} does not broadcast to {target}")
    return Spec(target, x.dtype)


def broadcast_to_host_forward(x: HostArray, shape: Any) -> tuple[HostArray, Saved]:
    return np.broadcast_to(x, shape).copy(), (x.shape,)


def broadcast_to_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (sum_to_host(dy, saved[0]),)


def broadcast_to_forward(out: Spec, x: Array, shape: Any) -> tuple[Array, Saved]:
    return gather("broadcast_to", x, out.shape, broadcast_strides(x.shape, out.shape)), (x.shape,)


def broadcast_to_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (sum_to(dy, saved[0]),)


broadcast_to = Op(
    "broadcast_to",
    broadcast_to_spec,
    broadcast_to_host_forward,
    broadcast_to_forward,
    broadcast_to_host_backward,
    broadcast_to_backward,
)
