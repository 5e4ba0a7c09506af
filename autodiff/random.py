"""Random numbers made on the host, per thread, so that a seed gives the same weights on every device."""

from __future__ import annotations

import threading

import numpy as np

_state = threading.local()


def manual_seed(seed: int) -> None:
    """Start this thread's generator anew from ``seed``."""
    _state.generator = np.random.Generator(np.random.Philox(seed))


def generator() -> np.random.Generator:
    """This thread's generator; seeded by the system until ``manual_seed`` is called."""
    if not hasattr(_state, "generator"):
        _state.generator = np.random.Generator(np.random.Philox())
    result: np.random.Generator = _state.generator
    return result
