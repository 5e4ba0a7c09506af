"""What a row of the op table holds, and the arrays that rows are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import array
from ..device import Device
from ..op import Op

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """Inputs and attributes of one call; ``id`` names it in the test run.

    ``has_corners``: the function has a kink or a pole at one of the inputs, where finite differences tell nothing.
    """

    id: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    has_corners: bool = False


@dataclass(frozen=True)
class Fault:
    """A call that must raise: inputs, attributes, the exception, a piece of its text."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    error: type[Exception]
    text: str


@dataclass(frozen=True)
class Row:
    """What is tested of one op. ``tolerance`` is relative, and absolute below 1: to each value if the op
    ``is_elementwise``, else to the largest.
    """

    op: Op
    samples: tuple[Sample, ...]
    tolerance: float = 2e-6
    is_elementwise: bool = False
    faults: tuple[Fault, ...] = ()


def normal(*shape: int, seed: int = 0) -> Array:
    """Standard normal float32."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> Array:
    """float32 between 0.25 and 4."""
    return np.random.default_rng((seed, *shape)).uniform(0.25, 4, shape).astype(np.float32)


def integers(*shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: type = np.int32) -> Array:
    """Integers in low .. high - 1."""
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> Array:
    """Random bools."""
    return np.random.default_rng(shape).random(shape) < 0.5


SHAPES = [(1,), (), (7,), (0,), (3, 5), (2, 0, 3), (33, 41), (5000,)]
PAIRS = [
    ((1,), (1,)),
    ((7,), (7,)),
    ((), (5,)),
    ((3, 1), (1, 5)),
    ((4, 2, 3), (3,)),
    ((4, 2, 3), (2, 1)),
    ((1, 3), (4, 2, 3)),
    ((0, 3), (1, 3)),
    ((2, 1, 3, 1, 2), (4, 1, 5, 1)),
    ((63, 65), (63, 65)),
    ((130, 33), (33,)),
]


def on(device: Device, inputs: tuple[Any, ...]) -> list[Any]:
    """The inputs of a sample as arrays of ``device``; numbers and None stay."""
    return [array(x, device=device) if isinstance(x, np.ndarray) else x for x in inputs]
