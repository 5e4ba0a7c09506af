"""Checking gradients against finite differences, and giving their memory back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from gpu_backend import Device, memory
from gpu_backend.device import HostDevice

from .errors import GradientError
from .tape import no_grad
from .tensor import Tensor, tensor


def gradient_check(
    function: Callable[..., Tensor],
    *inputs: Tensor,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    step: float = 1e-6,
    seed: int = 0,
) -> float:
    """Compare the gradient of ``sum(w * function(*inputs))`` along one random direction with a central difference.

    The gradient comes from the tape, on the device of the inputs. The difference comes from the numpy twins in float64,
    so ``function`` must be made of ops on its arguments alone. ``w`` is random, so that no gradient cancels. It costs
    three evaluations at any size. Returns the absolute error; GradientError if it exceeds ``atol + rtol * scale``, the
    scale being the sum of the absolute terms of the directional derivative.
    """
    if not any(x.requires_grad for x in inputs):
        raise GradientError("gradient_check: none of the inputs has requires_grad")
    random = np.random.default_rng(seed)
    leaves = [tensor(x, requires_grad=x.requires_grad, device=x.device) for x in inputs]
    result = function(*leaves)
    weights = random.uniform(0.5, 1.5, result.shape) * random.choice((-1.0, 1.0), result.shape)
    (result * tensor(weights.astype(np.float32), device=result.device)).sum().backward()
    directions = [random.standard_normal(x.shape) if x.requires_grad else None for x in inputs]
    terms = []
    for x, direction in zip(leaves, directions, strict=True):
        if direction is not None:
            if x.grad is None:
                raise GradientError("gradient_check: an input with requires_grad got no gradient")
            terms.append(x.grad.numpy().astype(np.float64) * direction)
    analytic = float(sum(term.sum() for term in terms))
    scale = float(sum(np.abs(term).sum() for term in terms))

    oracle = HostDevice(np.float64)

    def value(sign: float) -> float:
        moved = [
            _on(oracle, x) if direction is None else _on(oracle, x, sign * step * direction)
            for x, direction in zip(inputs, directions, strict=True)
        ]
        with no_grad():
            return float((function(*moved).numpy() * weights.astype(np.float32).astype(np.float64)).sum())

    numeric = (value(1.0) - value(-1.0)) / (2 * step)
    error = abs(analytic - numeric)
    if not error <= atol + rtol * scale:
        raise GradientError(
            f"gradient_check: along a random direction the tape gives {analytic:.9g}, "
            f"finite differences {numeric:.9g}; the error {error:.3g} exceeds {atol + rtol * scale:.3g}"
        )
    return error


def release_gradients(parameters: Iterable[Tensor]) -> None:
    """Drop the gradient of each parameter and release its memory at once: whoever else holds the gradient gets a
    ReleasedBufferError. What was cloned from it stays.
    """
    for parameter in parameters:
        gradient, parameter.grad = parameter.grad, None
        if gradient is not None and not gradient.array.storage.released:
            memory.release(gradient)


def _on(oracle: Device, x: Tensor, shift: np.ndarray | float = 0.0) -> Tensor:
    elements = x.numpy()
    moved = tensor(elements, device=oracle)
    if x.dtype.is_float:
        moved.array.host()[...] = elements.astype(np.float64) + shift
    return moved
