"""Ops that move elements without changing them: clone, reshape, permute_dims, broadcast_to; and full."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..array import Array, allocate, overwriting, write
from ..device import Device
from ..device import device as find_device
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import (
    DType,
    DTypeLike,
    HasSpec,
    Scalar,
    Shape,
    Spec,
    as_dtype,
    as_scalar,
    as_shape,
    broadcast_shapes,
    broadcast_strides,
    contiguous_strides,
    float16,
    float32,
    normalize_axis,
    reshaped,
)
from . import update
from .broadcast import gather, label
from .reduction import sum_to, sum_to_host

__all__ = ["broadcast_to", "clone", "full", "permute_dims", "reshape"]


def number_bits(number: Scalar, dtype: DType) -> int:
    """The word that stands for ``number`` in a buffer of ``dtype``."""
    if dtype is float16:
        half = int(np.float16(number).view(np.uint16))
        return half << 16 | half
    letter = {"f32": "f", "i32": "i", "u32": "I"}[dtype.wgsl]
    bits: int = struct.unpack("<I", struct.pack("<" + letter, as_scalar("number", number, dtype)))[0]
    return bits


def fill(y: Array, number: Scalar) -> None:
    """Set every element of ``y`` to ``number``, in place, as recorded work."""
    if y.device.is_host:
        write(y, np.full(y.shape, number, y.dtype.numpy))
        return
    with y.device.lock, overwriting(y) as memory:
        kernel = y.device.kernel("copy", "fill", label=label("full", "fill", y.dtype))
        eight, words = (0,) * 8, y.nbytes // 4
        y.device.recorder.record_over(
            kernel,
            -(-words // 4),
            y=memory,
            shape=eight,
            strides=eight,
            size=words,
            rank=0,
            number=number_bits(number, y.dtype),
        )


def full(
    shape: int | Iterable[int], number: Scalar, dtype: DTypeLike = float32, device: str | Device | None = None
) -> Array:
    """An array of ``shape`` with every element ``number``, which may be infinite or NaN; filled on the device."""
    kind = as_dtype(dtype)
    value = as_scalar("full", number, kind)
    target = find_device(device)
    with target.lock:
        y = allocate(as_shape("full", shape), kind, target, "full")
        fill(y, value)
    return y


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


def reshape_spec(x: HasSpec, shape: int | Iterable[int]) -> Spec:
    """The elements of x in row-major order in another shape, of which one extent may be -1; dx = dy in the shape of x.

    The result shares the memory of x. ShapeError unless the number of elements is the same.
    """
    return Spec(reshaped(x.shape, shape), x.dtype)


def reshape_host_forward(x: HostArray, shape: Any) -> tuple[HostArray, Saved]:
    return x.reshape(shape), (x.shape,)


def reshape_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (dy.reshape(saved[0]),)


def reshape_forward(out: Spec, x: Array, shape: Any) -> tuple[Array, Saved]:
    return x.reshape(out.shape), (x.shape,)


def reshape_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (dy.reshape(saved[0]),)


reshape = Op(
    "reshape",
    reshape_spec,
    reshape_host_forward,
    reshape_forward,
    reshape_host_backward,
    reshape_backward,
    is_view=True,
)


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
