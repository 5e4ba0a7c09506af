"""Change of element type."""

from __future__ import annotations

from gpu_backend.spec import DTypeLike

from ..tensor import Tensor


def astype(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The nearest values of another element type."""
    return x.astype(dtype)
