"""Functions that move elements without changing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpu_backend import ops

from ..tensor import Tensor, apply
from .method import method


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


def _listed(name: str, numbers: tuple[Extents, ...], keyword: Extents | None) -> tuple[int, ...]:
    """Numbers given one by one, as one sequence, or by keyword."""
    if keyword is not None and numbers:
        raise TypeError(f"{name}: takes numbers one by one, as one sequence, or by keyword")
    given: Any = numbers if keyword is None else keyword
    if len(numbers) == 1:
        given = numbers[0]
    return tuple(given) if isinstance(given, Iterable) else (given,)
