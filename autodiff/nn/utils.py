"""What is done to the gradients of a model between backward and step."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_backend import Array, full
from gpu_backend.ops.gradient import clip_norm, clip_value

from ..tensor import Tensor


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients by one number so that their common norm is at most ``max_norm``; the norm before, shape ().

    The norm is that of one vector of all elements; squares do not overflow. Nothing is read back. It becomes NaN or
    infinite with the gradients, which ``skip_nonfinite`` of an optimizer catches. ValueError for a negative bound.
    """
    if not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_: max_norm is 0 or more, not {max_norm}")
    gradients = _gradients(parameters)
    return Tensor(clip_norm(gradients, float(max_norm)) if gradients else full((), 0.0))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value_: float) -> None:
    """Bring every element of every gradient into +-``clip_value_``; NaN stays. ValueError for a negative bound."""
    if not clip_value_ >= 0:
        raise ValueError(f"clip_grad_value_: the bound is 0 or more, not {clip_value_}")
    gradients = _gradients(parameters)
    if gradients:
        clip_value(gradients, float(clip_value_))


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Array]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [grad.array for grad in (parameter.grad for parameter in given) if grad is not None]
