"""What is done to gradients before an update: their norm, clipping, and whether they are finite. All in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..device import same_device
from ..errors import DtypeError
from ..pipeline import Kernel
from ..spec import float32
from .update import own

CHUNK = 4096
SMALL = 1e-6  # PyTorch's: keeps the coefficient finite where the norm is 0


def clip_norm(gradients: Sequence[Array], max_norm: float) -> Array:
    """Scale the gradients, as one long vector, to a norm of at most ``max_norm``; returns the norm before, shape ().

    norm = m sqrt(sum (g / m)^2), m = max |g|, so that no square overflows or vanishes (the scaled sum of LAPACK's
    slassq); each g is multiplied by min(1, max_norm / (norm + 1e-6)). With an element that is not finite the norm is
    not either, and g becomes NaN or 0. A norm past the range of float32 is inf, but g is scaled right.
    """
    device = _device("clip_norm", gradients)
    max_norm = _as_float32(max_norm)
    with device.lock:
        own(*gradients)
        total = allocate((3,), float32, device, "clip_norm")
        if device.is_host:
            with np.errstate(all="ignore"):
                total.host()[:2] = _total_on_host(gradients, max_norm)
                for g in gradients:
                    g.host()[...] *= total.host()[1]
        else:
            counts = [-(-g.size // CHUNK) for g in gradients]
            parts = allocate((max(sum(counts), 1), 2), float32, device, "clip_norm")
            kernel, first = _kernel(gradients[0], "norm_parts"), 0
            for g, count in zip(gradients, counts, strict=True):
                device.recorder.record(kernel, count, gradient=g, parts=parts, size=g.size, first=first, bound=0.0)
                first += count
            device.recorder.record(
                _kernel(total, "norm_total"), 1, parts=parts, next_total=total, size=first, first=0, bound=max_norm
            )
            for g in gradients:
                _record(g, "scale", total=total)
        for g in gradients:
            g.storage.version += 1
        return Array(total.storage, (), float32, device)


def _total_on_host(gradients: Sequence[Array], max_norm: float) -> tuple[float, float]:
    flat = [g.host().astype(np.float64).reshape(-1) for g in gradients]
    norm = np.float64(math.sqrt(sum(float(g @ g) for g in flat)))
    coefficient = np.float64(max_norm) / (norm + SMALL)
    return float(norm), 1.0 if coefficient > 1 else float(coefficient)


def clip_value(gradients: Sequence[Array], bound: float) -> None:
    """g <- max(-bound, min(g, bound)) for each element; NaN stays."""
    device = _device("clip_value", gradients)
    bound = _as_float32(bound)
    with device.lock:
        own(*gradients)
        for g in gradients:
            if device.is_host:
                np.clip(g.host(), -bound, bound, out=g.host())
            else:
                _record(g, "clamp_value", bound=bound)
            g.storage.version += 1


def judge(gradients: Sequence[Array], verdict: Array) -> None:
    """Set the first word of ``verdict`` to whether all elements are finite; the second counts how often they were not.

    The count is brought up to date by the next call.
    """
    device = _device("judge", gradients)
    with device.lock:
        clear_verdict(verdict)
        for g in gradients:
            if device.is_host:
                verdict.host()[0] &= int(np.isfinite(g.host()).all())
            else:
                device.recorder.record_over(
                    _kernel(g, "verdict_check"), g.size, gradient=g, verdict=verdict, size=g.size, first=0, bound=0.0
                )


def clear_verdict(verdict: Array) -> None:
    """Set the first word of ``verdict`` to 1; the second counts what it was."""
    device = verdict.device
    with device.lock:
        own(verdict)
        if device.is_host:
            words = verdict.host()
            words[1] += 1 - words[0]
            words[0] = 1
        else:
            begin = _kernel(verdict, "verdict_begin")
            device.recorder.record(begin, 1, verdict=verdict, size=1, first=0, bound=0.0)
        verdict.storage.version += 1


def _as_float32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _record(y: Array, entry: str, bound: float = 0.0, **arrays: Any) -> None:
    y.device.recorder.record_over(_kernel(y, entry), y.size, y=y, size=y.size, first=0, bound=bound, **arrays)


def _kernel(x: Array, entry: str) -> Kernel:
    return x.device.kernel("gradient", entry, label=f"gradient.{entry}[f32]")


def _device(name: str, gradients: Sequence[Array]) -> Any:
    for g in gradients:
        same_device(name, gradients[0].device, g.device)
        g.storage.check()
        if not g.dtype.is_float:
            raise DtypeError(f"{name}: takes float32, not {g.dtype}")
    gradients[0].device.health.check()
    return gradients[0].device
