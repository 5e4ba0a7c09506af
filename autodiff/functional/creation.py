"""New tensors: zeros, ones, full, arange, linspace, eye and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpu_backend
from gpu_backend import Array, ops
from gpu_backend.ops.creation import Place, Shaped
from gpu_backend.spec import DTypeLike, Scalar, float32

from ..tensor import Tensor, tensor


def _tensor(make: Callable[..., Array], requires_grad: bool, *arguments: Any, **options: Any) -> Tensor:
    return Tensor(make(*arguments, **options), requires_grad)


def zeros(shape: Shaped, dtype: DTypeLike = float32, device: Place = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros, or False."""
    return _tensor(ops.zeros, requires_grad, shape, dtype, device)


def ones(shape: Shaped, dtype: DTypeLike = float32, device: Place = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones, or True."""
    return _tensor(ops.ones, requires_grad, shape, dtype, device)


def empty(shape: Shaped, dtype: DTypeLike = float32, device: Place = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose elements are anything."""
    return _tensor(ops.empty, requires_grad, shape, dtype, device)


def full(
    shape: Shaped,
    fill_value: Scalar,
    dtype: DTypeLike = float32,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with every element ``fill_value``, which may be infinite or NaN."""
    return _tensor(ops.full, requires_grad, shape, fill_value, dtype, device)


def zeros_like(x: Tensor, dtype: DTypeLike | None = None, device: Place = None, requires_grad: bool = False) -> Tensor:
    """``zeros`` in the shape of x, with its element type and on its device unless others are named."""
    return _tensor(ops.zeros_like, requires_grad, x.array, dtype, device)


def ones_like(x: Tensor, dtype: DTypeLike | None = None, device: Place = None, requires_grad: bool = False) -> Tensor:
    """``ones`` in the shape of x, with its element type and on its device unless others are named."""
    return _tensor(ops.ones_like, requires_grad, x.array, dtype, device)


def empty_like(x: Tensor, dtype: DTypeLike | None = None, device: Place = None, requires_grad: bool = False) -> Tensor:
    """``empty`` in the shape of x: its elements are anything."""
    return _tensor(ops.empty_like, requires_grad, x.array, dtype, device)


def full_like(
    x: Tensor,
    fill_value: Scalar,
    dtype: DTypeLike | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """``full`` in the shape of x, with its element type and on its device unless others are named."""
    return _tensor(ops.full_like, requires_grad, x.array, fill_value, dtype, device)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below ``stop``; ``arange(stop)`` from 0. int32 if all three are whole, else float32."""
    return _tensor(ops.arange, requires_grad, start, stop, step, dtype, device)


def linspace(
    start: float,
    stop: float,
    num: int,
    dtype: DTypeLike = float32,
    device: Place = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is the last of them if ``endpoint``."""
    return _tensor(ops.linspace, requires_grad, start, stop, num, dtype, device, endpoint)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    dtype: DTypeLike = float32,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on diagonal ``k``, above the main one if positive, and zeros elsewhere."""
    return _tensor(ops.eye, requires_grad, n_rows, n_cols, k, dtype, device)


def asarray(data: Any, dtype: DTypeLike | None = None, device: Place = None, copy: bool | None = None) -> Tensor:
    """``data`` as a tensor: itself if it is one of that type and device, unless a ``copy`` is asked for; else a new
    one, off the tape. The name of the array API; ``autodiff.tensor`` is the usual way.
    """
    if isinstance(data, Tensor) and not copy and device in (None, data.device):
        return data if dtype is None else data.astype(dtype)
    if copy is False:
        raise ValueError("asarray: these elements must be copied to become a tensor of that type on that device")
    return tensor(data, dtype, device=device)


def from_dlpack(source: Any, device: Place = None) -> Tensor:
    """A tensor with a copy of the elements of any DLPack object on the host: numpy, torch on the CPU."""
    return Tensor(gpu_backend.from_dlpack(source, device))
