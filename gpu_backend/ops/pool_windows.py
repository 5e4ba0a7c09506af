"""The windows of a pool: what its arguments say, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ShapeError
from ..spec import Shape, size_of
from .convolution_geometry import numbers

HostArray = npt.NDArray[Any]
# An invocation looks at a window, or at the windows that hold an element, in rounds of loops, and Mesa 22.3.6 leaves
# them all after 65,535 rounds without a word.
LARGEST = 32_768


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

    @property
    def is_whole(self) -> bool:
        """Whether one window looks at a whole plane."""
        return self.made == (1, 1) and (self.adaptive or (self.taps == self.source and not any(self.pad)))

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
    return _checked(name, Windows(shape, (*shape[:2], *made), *sizes))


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
    ones = (1, 1)
    windows = Windows(shape, (*shape[:2], *made), _two(shape[2:]), _two(made), ones, ones, (0, 0), ones, adaptive=True)
    return _checked(name, windows)


def _checked(name: str, w: Windows) -> Windows:
    if w.adaptive:
        taps = [_most(extent, made) for extent, made in zip(w.source, w.made, strict=True)]
        holders = [_most(made, extent) for extent, made in zip(w.source, w.made, strict=True)]
    else:
        taps = [min(tap, extent) for tap, extent in zip(w.taps, w.source, strict=True)]
        holders = [min(made, tap) for made, tap in zip(w.made, w.taps, strict=True)]
    if not w.is_whole and max(size_of(tuple(taps)), size_of(tuple(holders))) > LARGEST:
        what = (
            f"windows of {tuple(taps)}" if size_of(tuple(taps)) > LARGEST else f"elements in {tuple(holders)} windows"
        )
        raise ShapeError(f"{name}: {what}, of which only one over a whole plane may be larger than {LARGEST}")
    return w


def _most(extent: int, made: int) -> int:
    """How many of ``extent`` elements one of ``made`` even windows holds at most."""
    return -(-extent // made) + (extent % made > 0)


def _check_rank(name: str, dims: int, shape: Shape) -> None:
    if len(shape) != dims + 2:
        raise ShapeError(f"{name}: the input has shape {shape}, not (N, C, {'L' if dims == 1 else 'H, W'})")


def _two(extents: Sequence[int], fill: int = 1) -> Shape:
    return (fill,) * (2 - len(extents)) + tuple(extents)
