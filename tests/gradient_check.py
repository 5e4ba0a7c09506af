"""Finite differences for one op: its twin's backward in float64 against a central difference along a random direction.

``autodiff.gradient_check`` does the same for whole functions of tensors; it is re-exported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodiff import gradient_check as gradient_check
from gpu_backend import Op


def check_twin(op: Op, inputs: Sequence[Any], attributes: dict[str, Any], rtol: float = 1e-5) -> None:
    """Compare ``op.host_backward`` with finite differences of ``op.host_forward``, all in float64."""
    random = np.random.default_rng(1)
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x for x in inputs]
    needs = [isinstance(x, np.ndarray) and x.dtype == np.float64 for x in wide]
    y, saved = op.host_forward(*wide, **attributes)
    weights = random.uniform(0.5, 1.5, np.shape(y)) * random.choice((-1.0, 1.0), np.shape(y))
    assert op.host_backward is not None
    gradients = op.host_backward(np.asarray(weights), saved, needs)
    directions = [random.standard_normal(np.shape(x)) if need else 0.0 for x, need in zip(wide, needs, strict=True)]
    terms = [
        np.asarray(dx) * direction
        for dx, direction, need in zip(gradients, directions, needs, strict=True)
        if need and dx is not None
    ]
    assert len(terms) == sum(needs), f"{op.name}: an input has no gradient"
    step = 1e-6

    def value(sign: float) -> float:
        moved = [x + sign * step * d if need else x for x, d, need in zip(wide, directions, needs, strict=True)]
        return float((op.host_forward(*moved, **attributes)[0] * weights).sum())

    analytic = float(sum(term.sum() for term in terms))
    numeric = (value(1.0) - value(-1.0)) / (2 * step)
    scale = float(sum(np.abs(term).sum() for term in terms))
    assert abs(analytic - numeric) <= 1e-7 + rtol * scale, f"{op.name}: {analytic} against {numeric} by differences"
