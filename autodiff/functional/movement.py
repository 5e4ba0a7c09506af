"""Functions that move elements without changing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpu_backend import composite, ops
from gpu_backend.spec import Axis

from ..tensor import Tensor, apply, promoted
from .method import accepts_dim, method


@method
def clone(x: Tensor) -> Tensor:
    """The same elements, copied when either tensor is first written."""
    return apply(ops.clone, x)


Extents = int | Iterable[int]


@method
def reshape(x: Tensor, *extents: Extents, shape: Extents | None = None) -> Tensor:
    """The same memory in another shape, ``reshape(x, 2, -1)`` or ``reshape(x, (2, -1))``; one extent may be -1."""
    return apply(ops.reshape, x, shape=_listed("reshape", extents, shape))


@method
def permute_dims(x: Tensor, *order: Extents, axes: Extents | None = None) -> Tensor:
    """A copy with the dimensions in the order ``axes``, ``permute_dims(x, 1, 0)`` or ``permute_dims(x, (1, 0))``."""
    return apply(ops.permute_dims, x, axes=_listed("permute_dims", order, axes))


@method
def broadcast_to(x: Tensor, *extents: Extents, shape: Extents | None = None) -> Tensor:
    """A copy repeated along new and unit dimensions."""
    return apply(ops.broadcast_to, x, shape=_listed("broadcast_to", extents, shape))


@method
def permute(x: Tensor, *order: Extents, dims: Extents | None = None) -> Tensor:
    """PyTorch's name of ``permute_dims``."""
    return permute_dims(x, *order, axes=dims)


@method
def expand(x: Tensor, *extents: Extents) -> Tensor:
    """PyTorch's name of ``broadcast_to``."""
    return broadcast_to(x, *extents)


@method
def flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Axes ``start_axis`` to ``end_axis`` merged into one; the same memory."""
    return apply(ops.flatten, x, start_axis=start_axis, end_axis=end_axis)


@method
@accepts_dim
def squeeze(x: Tensor, axis: Axis = None) -> Tensor:
    """Without unit axes, all or those of ``axis``; the same memory. ShapeError if one is no unit, as in numpy."""
    return apply(ops.squeeze, x, axis=axis)


def expand_dims(x: Tensor, axis: Axis = 0) -> Tensor:
    """With new unit axes at the places ``axis`` of the result; the same memory."""
    return apply(ops.expand_dims, x, axis=axis)


@method
@accepts_dim
def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """PyTorch's name of ``expand_dims``."""
    return expand_dims(x, axis)


@method
def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """A copy with two axes exchanged."""
    return apply(ops.swapaxes, x, axis1=axis1, axis2=axis2)


@method
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """PyTorch's name of ``swapaxes``."""
    return swapaxes(x, dim0, dim1)


matrix_transpose = composite.matrix_transpose
moveaxis = method(composite.moveaxis)
broadcast_arrays = composite.broadcast_arrays
meshgrid = composite.meshgrid


# Slices and what is made of them.


@method
@accepts_dim
def flip(x: Tensor, axis: Axis = None) -> Tensor:
    """A copy with the elements in reversed order along ``axis``, all by default."""
    return apply(ops.flip, x, axis=axis)


@method
@accepts_dim
def roll(x: Tensor, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """A copy with the elements moved along ``axis``, those pushed out coming in at the other end."""
    return apply(ops.roll, x, shift=shift, axis=axis)


@method
def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements (i, i + offset) of two axes, as a last axis, copied."""
    return apply(ops.diagonal, x, offset=offset, axis1=axis1, axis2=axis2)


@method
def tril(x: Tensor, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to diagonal ``k``; 0 elsewhere."""
    return apply(ops.tril, x, k=k)


@method
def triu(x: Tensor, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from diagonal ``k`` on; 0 elsewhere."""
    return apply(ops.triu, x, k=k)


split = method(accepts_dim(composite.split))
chunk = method(accepts_dim(composite.chunk))
unstack = method(accepts_dim(composite.unstack))
diff = method(accepts_dim(composite.diff))
trace = method(composite.trace)


@method
@accepts_dim
def unbind(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """PyTorch's name of ``unstack``."""
    return unstack(x, axis)


# Several arrays, or one several times.


@accepts_dim
def concat(tensors: Sequence[Any], axis: int | None = 0) -> Tensor:
    """The tensors one after the other along ``axis``, in their common element type; flattened first if it is None."""
    parts: Any = promoted(ops.concat, *tensors)
    if axis is None:
        parts = tuple(reshape(x, -1) for x in parts)
    return apply(ops.concat, *parts, axis=axis or 0)


@accepts_dim
def cat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """PyTorch's name of ``concat``."""
    return concat(tensors, axis)


@accepts_dim
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """The tensors, of one shape, side by side along a new axis."""
    return apply(ops.stack, *promoted(ops.stack, *tensors), axis=axis)


@method
def tile(x: Tensor, repetitions: int | Sequence[int]) -> Tensor:
    """x laid side by side so many times along each axis; along the last ones if they are fewer."""
    return apply(ops.tile, x, repetitions=repetitions)


@method
@accepts_dim
def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Each element ``repeats`` times in a row along ``axis``, as in numpy and array-API; ``tile`` repeats the whole."""
    return apply(ops.repeat, x, repeats=repeats, axis=axis)


@method
@accepts_dim
def repeat_interleave(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """PyTorch's name of ``repeat``."""
    return repeat(x, repeats, axis)


def pad(x: Tensor, pad_width: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """x with elements around it: a pair (before, after) for each axis, one pair or one number for all, as in numpy.

    ``mode``: "constant" (``value``), "reflect", "replicate".
    """
    return apply(ops.pad, x, pad_width=pad_width, mode=mode, value=value)


def _listed(name: str, numbers: tuple[Extents, ...], keyword: Extents | None) -> tuple[int, ...]:
    """Numbers given one by one, as one sequence, or by keyword."""
    if keyword is not None and numbers:
        raise TypeError(f"{name}: takes numbers one by one, as one sequence, or by keyword")
    given: Any = numbers if keyword is None else keyword
    if len(numbers) == 1:
        given = numbers[0]
    return tuple(given) if isinstance(given, Iterable) else (given,)
