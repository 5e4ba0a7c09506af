"""The windows of a pool: what its arguments say, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ShapeError
from ..spec import Shape
from .convolution_geometry import numbers

HostArray = npt.NDArray[Any]
LONGEST = 65_535  # along H; Mesa 22.3.6 leaves a loop after as many rounds without a word


@dataclass(frozen=True)
class Windows:
    """Windows over the planes of ``shape``, which make ``out``. ``source`` and ``made`` are the extents of a plane of
    either, the rest is as in a call, one number for each of H, W; a dimension that an array lacks counts as 1.

    ``adaptive``: windows divide a plane evenly, and the rest is 1 and 0.
    """

    shape: Shape
    out: Shape
    source: Shape
    made: Shape
    taps: Shape
    stride: Shape
    pad: Shape
    dilation: Shape
    adaptive: bool = False

    def bounds(self, axis: int) -> tuple[HostArray, HostArray]:
        """Where each window along an axis starts and ends, padding included."""
        i = np.arange(self.made[axis])
        extent, made = self.source[axis], self.made[axis]
        if self.adaptive:
            return i * extent // made, -(-(i + 1) * extent // made)
        start = i * self.stride[axis] - self.pad[axis]
        end = start + self.dilation[axis] * (self.taps[axis] - 1) + 1
        return start, np.minimum(end, extent + self.pad[axis])

    def members(self, axis: int) -> tuple[HostArray, HostArray]:
        """The elements that each window along an axis looks at, (windows, most), and which of them exist."""
        start, end = self.bounds(axis)
        step = self.dilation[axis]
        most = int(((end - start - 1) // step).max(initial=0)) + 1
        at = start[:, None] + step * np.arange(most)
        there = (at >= 0) & (at < np.minimum(end, self.source[axis])[:, None])
        return np.where(there, at, 0), there

    def holds(self, axis: int) -> HostArray:
        """Which window along an axis holds which element: a matrix of bools."""
        start, end = self.bounds(axis)
        at = np.arange(self.source[axis])
        return np.asarray((at >= start[:, None]) & (at < end[:, None]))

    def sizes(self, counts_padding: bool) -> HostArray:
        """The elements of each window, with or without those of padding: (H, W) of what is made."""
        sides = []
        for axis in (0, 1):
            start, end = self.bounds(axis)
            inside = np.minimum(end, self.source[axis]) - np.maximum(start, 0)
            sides.append(end - start if counts_padding else inside)
        return np.asarray(np.multiply.outer(sides[0], sides[1]))


@lru_cache(maxsize=1024)
def regular_windows(
    name: str, dims: int, shape: Shape, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    """Windows a stride apart; ShapeError where the arguments do not fit."""
    _check_rank(name, dims, shape)
    taps = numbers(name, "kernel_size", kernel_size, dims)
    steps = taps if stride is None else numbers(name, "stride", stride, dims)
    pads = numbers(name, "padding", padding, dims, least=0)
    spread = numbers(name, "dilation", dilation, dims)
    made = []
    for extent, tap, step, pad, spacing in zip(shape[2:], taps, steps, pads, spread, strict=True):
        reach = spacing * (tap - 1) + 1
        if 2 * pad > reach:
            raise ShapeError(f"{name}: a padding of {pad} is more than half of what a kernel reaches, {reach}")
        if reach > LONGEST and dims > 1:
            raise ShapeError(f"{name}: a kernel that reaches over {reach} is longer than {LONGEST}")
        room = extent + 2 * pad - reach
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= extent + pad:
            count -= 1  # a window that would start behind the plane is none
        if count < 1:
            raise ShapeError(
                f"{name}: a kernel of {taps}{f' at dilation {spread}' if max(spread) > 1 else ''} is larger than the "
                f"padded input, {tuple(e + 2 * p for e, p in zip(shape[2:], pads, strict=True))}"
            )
        made.append(count)
    sizes = (_two(shape[2:]), _two(made), _two(taps), _two(steps), _two(pads, 0), _two(spread))
    return Windows(shape, (*shape[:2], *made), *sizes)


@lru_cache(maxsize=1024)
def even_windows(name: str, dims: int, shape: Shape, output_size: Any) -> Windows:
    """As many windows as ``output_size`` says, None keeping an extent."""
    _check_rank(name, dims, shape)
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * dims
    if len(sizes) != dims:
        raise ShapeError(f"{name}: output_size is a number, None, or {dims} of them, not {output_size!r}")
    if 0 in shape[2:]:
        raise ShapeError(f"{name}: there is nothing in planes of {shape[2:]}")
    made = numbers(name, "output_size", [e if n is None else n for n, e in zip(sizes, shape[2:], strict=True)], dims)
    return Windows(
        shape, (*shape[:2], *made), _two(shape[2:]), _two(made), (1, 1), (1, 1), (0, 0), (1, 1), adaptive=True
    )


def _check_rank(name: str, dims: int, shape: Shape) -> None:
    if len(shape) != dims + 2:
        raise ShapeError(f"{name}: the input has shape {shape}, not (N, C, {'L' if dims == 1 else 'H, W'})")


def _two(extents: Sequence[int], fill: int = 1) -> Shape:
    return (fill,) * (2 - len(extents)) + tuple(extents)
