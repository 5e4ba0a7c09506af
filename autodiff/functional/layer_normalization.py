"""layer_norm."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_backend import ops

from ..tensor import Tensor, apply


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) weight + bias, over the last dimensions, which are of ``normalized_shape``."""
    return apply(ops.layer_norm, x, weight, bias, normalized_shape=normalized_shape, eps=eps)
