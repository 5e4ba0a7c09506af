"""New arrays: zeros, ones, full, empty, arange, linspace, eye and their like; and fill, in place."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..array import Array, allocate, array, overwriting, write
from ..array import empty as empty
from ..device import Device
from ..device import device as find_device
from ..errors import DtypeError
from ..spec import DType, DTypeLike, Scalar, as_dtype, as_scalar, as_shape, float16, float32, int32
from .broadcast import label
from .region import Region, move

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

Shaped = int | Iterable[int]
Place = str | Device | None


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


def full(shape: Shaped, fill_value: Scalar, dtype: DTypeLike = float32, device: Place = None) -> Array:
    """An array of ``shape`` with every element ``fill_value``, which may be infinite or NaN; filled on the device."""
    kind = as_dtype(dtype)
    value = as_scalar("full", fill_value, kind)
    target = find_device(device)
    with target.lock:
        y = allocate(as_shape("full", shape), kind, target, "full")
        fill(y, value)
    return y


def zeros(shape: Shaped, dtype: DTypeLike = float32, device: Place = None) -> Array:
    """An array of zeros, or False."""
    return full(shape, 0, dtype, device)


def ones(shape: Shaped, dtype: DTypeLike = float32, device: Place = None) -> Array:
    """An array of ones, or True."""
    return full(shape, 1, dtype, device)


def full_like(x: Array, fill_value: Scalar, dtype: DTypeLike | None = None, device: Place = None) -> Array:
    """``full`` in the shape of x, with its element type and on its device unless others are named."""
    return full(x.shape, fill_value, dtype or x.dtype, device or x.device)


def zeros_like(x: Array, dtype: DTypeLike | None = None, device: Place = None) -> Array:
    """``zeros`` in the shape of x, with its element type and on its device unless others are named."""
    return full_like(x, 0, dtype, device)


def ones_like(x: Array, dtype: DTypeLike | None = None, device: Place = None) -> Array:
    """``ones`` in the shape of x, with its element type and on its device unless others are named."""
    return full_like(x, 1, dtype, device)


def empty_like(x: Array, dtype: DTypeLike | None = None, device: Place = None) -> Array:
    """``empty`` in the shape of x: its elements are anything."""
    return empty(x.shape, dtype or x.dtype, device or x.device)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike | None = None, device: Place = None
) -> Array:
    """start, start + step, ... below ``stop``; ``arange(stop)`` from 0. int32 if all three are whole, else float32.

    Each element is start + i step in float64, rounded once; made on the host.
    """
    if step == 0:
        raise ValueError("arange: the step is not 0")
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(number, int | np.integer) for number in (first, last, step))
    kind = as_dtype(dtype) if dtype is not None else int32 if whole else float32
    count = max(int(np.ceil((last - first) / step)), 0)
    return array(first + np.arange(count) * step, kind, device)


def linspace(
    start: float, stop: float, num: int, dtype: DTypeLike = float32, device: Place = None, endpoint: bool = True
) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is the last of them if ``endpoint``."""
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise DtypeError(f"linspace: makes floats, not {kind}")
    return array(np.linspace(start, stop, num, endpoint=endpoint), kind, device)


def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike = float32, device: Place = None) -> Array:
    """A matrix with ones on diagonal ``k``, above the main one if positive, and zeros elsewhere."""
    rows, cols = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    kind, target = as_dtype(dtype), find_device(device)
    if target.is_host or kind is float16:
        return array(np.eye(rows, cols, k, kind.numpy), kind, target)
    with target.lock:
        y = zeros((rows, cols), kind, target)
        count = max(min(rows + min(k, 0), cols - max(k, 0)), 0)
        if count:
            one = full((1,), 1, kind, target)
            move("eye", (count,), one, Region(0, (0,)), y, Region(max(k, 0) - min(k, 0) * cols, (cols + 1,)))
        return y


def asarray(data: Any, dtype: DTypeLike | None = None, device: Place = None, copy: bool | None = None) -> Array:
    """``data`` as an array: itself if it is one of that type and device, unless a ``copy`` is asked for.

    ValueError where ``copy=False`` cannot be had: what is not an array on a device is always copied to one.
    """
    if isinstance(data, Array) and not copy:
        is_there = device is None or find_device(device) is data.device
        if is_there and dtype in (None, data.dtype):
            return data
        if is_there and copy is None:
            return data.astype(as_dtype(dtype or data.dtype))
    if copy is False:
        raise ValueError("asarray: these elements must be copied to become an array of that type on that device")
    return array(data, dtype, device)
