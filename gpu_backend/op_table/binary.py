"""Rows of arithmetic of two operands."""

from __future__ import annotations

import numpy as np

from .. import ops
from .elementwise import binary, grid
from .sample import Array, Sample, normal, positive


def whole_pairs() -> tuple[Sample, ...]:
    """Integers against integers, zeros and the ends of the ranges among them."""
    ends = np.array([0, 1, -1, 2, -3, 7, 2**31 - 1, -(2**31), 16777217], np.int32)
    return (
        Sample("ends-int32", (ends[:, None], ends)),
        Sample("ends-uint32", (ends.view(np.uint32)[:, None], ends.view(np.uint32))),
        Sample("signs", (np.arange(-4, 4, dtype=np.int32), 3)),
        Sample("negative", (np.arange(-4, 4, dtype=np.int32), -3)),
    )


def apart(*shape: int, seed: int = 0) -> Array:
    """float32 in three tenths of a step around odd quarters, so that no two meet and no quotient is whole."""
    random = np.random.default_rng((seed, *shape))
    steps = (random.integers(-8, 8, shape) + 0.5) * (1 + 0.37 * seed)
    return np.asarray(steps + random.uniform(-0.1, 0.1, shape), np.float32)


NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -11.0, np.inf, -np.inf, np.nan)
NORMAL = (1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -11.0, 1e10, -1e-10, 123456.7)
ties = Sample("ties", (np.array([1, 2, 3, np.nan, 4], np.float32), np.array([1, 3, 2, 0, np.nan], np.float32)))

ROWS = (
    binary(ops.add, extra=whole_pairs()),
    binary(ops.subtract, extra=whole_pairs()),
    binary(ops.multiply, extra=whole_pairs()),
    binary(ops.divide, positive, integer=False),
    binary(
        ops.floor_divide,
        apart,
        extra=(*whole_pairs(), Sample("grid", grid(*NORMAL)), Sample("special", grid(*NUMBERS))),
    ),
    binary(
        ops.remainder, apart, extra=(*whole_pairs(), Sample("grid", grid(*NORMAL)), Sample("special", grid(*NUMBERS)))
    ),
    binary(ops.fmod, apart, extra=(*whole_pairs(), Sample("grid", grid(*NORMAL)), Sample("special", grid(*NUMBERS)))),
    binary(
        ops.power,
        positive,
        extra=(
            *whole_pairs(),
            Sample("P-WN04", (np.array([-2, -2, -4, 0, 2], np.float32), np.array([2, 3, 1.5, 0, -1], np.float32))),
            Sample("number", (normal(9), 3.0)),
            Sample("base", (2.0, normal(9))),
            Sample(
                "large",
                (np.array([1.001, 0.9, 10, 1e-3, 2], np.float32), np.array([5000, 300, 30.5, 9.5, 127], np.float32)),
            ),
            Sample("special", grid(*NUMBERS)),
        ),
        tolerance=4e-6,
    ),
    binary(ops.maximum, apart, extra=(ties, *whole_pairs(), Sample("special", grid(*NUMBERS)))),
    binary(ops.minimum, apart, extra=(ties, *whole_pairs(), Sample("special", grid(*NUMBERS)))),
    binary(ops.atan2, apart, integer=False, extra=(Sample("special", grid(*NUMBERS[:-1])),)),
    binary(
        ops.hypot,
        integer=False,
        extra=(
            Sample("grid", grid(0.0, 1e-30, 3e38, 1e30, -4.0, 3.0)),
            Sample("infinite", (np.array([np.inf, np.nan], np.float32), np.array([np.nan, 1], np.float32))),
        ),
    ),
    binary(ops.logaddexp, integer=False, extra=(Sample("grid", grid(0.0, -200.0, 200.0, 88.0, np.inf, -np.inf)),)),
    binary(ops.copysign, apart, integer=False, extra=(Sample("special", grid(0.0, -0.0, 1.0, -2.0, np.inf, -np.inf)),)),
    binary(
        ops.prelu,
        integer=False,
        extra=(Sample("zero", (np.array([0, -0.0, -1, 2], np.float32), 0.25), has_corners=True),),
    ),
)
