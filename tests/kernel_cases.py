"""What tests of single kernels have in common: their register, grids, strides, random numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import wgsl

ROOT = Path(wgsl.__file__).parent
RNG = np.random.default_rng(7)
N = 403  # more than a workgroup, no multiple of four
TESTS: dict[str, Callable[..., None]] = {}

Run = Callable[..., Any]


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def kernel(*entries: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a test for entry points, ``file.entry``."""

    def register(test: Callable[..., None]) -> Callable[..., None]:
        for entry in entries:
            TESTS[entry] = functools.partial(test, entry=entry.split(".")[1]) if len(entries) > 1 else test
        return test

    return register


def quads(size: int) -> Callable[[tuple[int, int, int]], int]:
    """The workgroups of a kernel that makes four elements an invocation."""
    return lambda extent: -(-size // (4 * prod(extent)))


def items(size: int) -> Callable[[tuple[int, int, int]], int]:
    """The workgroups of a kernel that makes one element an invocation."""
    return lambda extent: -(-size // prod(extent))


def strides(shape: tuple[int, ...], own: tuple[int, ...]) -> list[int]:
    """Strides, innermost first, that walk an array of shape ``own`` as if it had ``shape``; padded to eight."""
    full = (1,) * (len(shape) - len(own)) + own
    found, step = [], 1
    for extent, have in zip(shape[::-1], full[::-1], strict=True):
        found.append(step if have == extent and have != 1 else 0)
        step *= have
    return found + [0] * (8 - len(shape))


def extents(shape: tuple[int, ...]) -> list[int]:
    return [*shape[::-1], *[1] * (8 - len(shape))]
