"""Choice between elements, and functions of three operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_backend import ops

from ..tensor import Tensor, apply, apply_promoted, tensor
from .method import method


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b, broadcast. As in PyTorch, a NaN slope in the branch not taken stays NaN."""
    device = next((x.device for x in (condition, a, b) if isinstance(x, Tensor)), None)
    if not isinstance(condition, Tensor):
        condition = tensor(condition, device=device)
    if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
        a = tensor(a, device=condition.device)
    return apply_promoted(ops.where, condition, a, b)


@method
def masked_fill(x: Tensor, mask: Any, value: float) -> Tensor:
    """``value`` where the mask holds, else x; the mask broadcasts."""
    if not isinstance(mask, Tensor):
        mask = tensor(mask, device=x.device)
    return apply(ops.masked_fill, x, mask, value=value.item() if isinstance(value, np.generic) else value)


@method
def lerp(a: Any, b: Any, weight: Any) -> Tensor:
    """a + weight (b - a), broadcast; weights 0 and 1 give the ends exactly."""
    return apply_promoted(ops.lerp, a, b, weight)


@method
def addcmul(x: Any, a: Any, b: Any, value: float = 1.0) -> Tensor:
    """x + value a b, broadcast."""
    return apply_promoted(ops.addcmul, x, a, b, value=value)
