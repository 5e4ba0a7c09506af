"""The sizes of a convolution: what its arguments say, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..spec import Shape, size_of

Extents = int | Sequence[int]
Padding = str | int | Sequence[int | Sequence[int]]

# An invocation goes round three loops a tap; Mesa 22.3.6 leaves them all after 65,535 rounds without a word.
MOST_TAPS = 16_384


@dataclass(frozen=True)
class Geometry:
    """A convolution of ``batch`` images in ``groups``, each of ``terms`` channels read and ``rows`` channels made.

    ``source``, ``made``, ``taps``, ``stride``, ``pad`` and ``pad_after``, ``dilation``: one number for each of D, H, W,
    the last ones; a dimension that an array lacks counts as 1. ``dims`` says how many there are.
    """

    dims: int
    batch: int
    groups: int
    terms: int
    rows: int
    source: Shape
    made: Shape
    taps: Shape
    stride: Shape
    pad: Shape
    pad_after: Shape
    dilation: Shape

    @property
    def source_shape(self) -> Shape:
        """The shape of what is convolved: (N, C, ...)."""
        return (self.batch, self.groups * self.terms, *self.source[-self.dims :])

    @property
    def made_shape(self) -> Shape:
        """The shape of what comes out: (N, C, ...)."""
        return (self.batch, self.groups * self.rows, *self.made[-self.dims :])

    @property
    def weight_shape(self) -> Shape:
        """(channels made, channels read in a group, taps ...)."""
        return (self.groups * self.rows, self.terms, *self.taps[-self.dims :])

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.batch * size_of(self.made) * size_of(self.weight_shape)

    @property
    def is_matmul(self) -> bool:
        """Whether every position is a matrix product of its own channels."""
        return self.groups == size_of(self.taps) == size_of(self.stride) == 1 and not any(self.pad + self.pad_after)


@lru_cache(maxsize=1024)
def convolution_geometry(
    name: str,
    dims: int,
    x: Shape,
    weight: Shape,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Geometry:
    """The geometry of ``name`` on shapes ``x`` and ``weight``; ShapeError where they do not fit."""
    steps, spread, pads, count = _checked(name, dims, x, weight, stride, padding, dilation, groups)
    channels, terms = weight[:2]
    if x[1] != count * terms:
        raise ShapeError(
            f"{name}: the input has {x[1]} channels, the weight {weight} with {count} group{'s' * (count > 1)} wants "
            f"{count * terms}"
        )
    if channels % count:
        raise ShapeError(f"{name}: {channels} channels of the weight {weight} do not divide into {count} groups")
    made = []
    for extent, taps, step, (before, after), spacing in zip(x[2:], weight[2:], steps, pads, spread, strict=True):
        reach = spacing * (taps - 1) + 1
        if reach > extent + before + after:
            raise ShapeError(
                f"{name}: a kernel of {weight[2:]}{_dilated(spread)} is larger than the padded input, "
                f"{_padded(x[2:], pads)}"
            )
        made.append((extent + before + after - reach) // step + 1)
    return Geometry(
        dims, x[0], count, terms, channels // count, _three(x[2:]), _three(made), _three(weight[2:]), _three(steps),
        _three([before for before, _ in pads], 0), _three([after for _, after in pads], 0), _three(spread),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def transposed_geometry(
    name: str,
    dims: int,
    x: Shape,
    weight: Shape,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Geometry:
    """The geometry of the convolution that ``name``, a transposed one, is the backward of: its ``made`` is x here."""
    if isinstance(padding, str):
        raise ShapeError(f"{name}: padding is a number of elements, not {padding!r}")
    steps, spread, pads, count = _checked(name, dims, x, weight, stride, padding, dilation, groups)
    extras = numbers(name, "output_padding", output_padding, dims, least=0)
    if x[1] != weight[0]:
        raise ShapeError(f"{name}: the input has {x[1]} channels, the weight {weight} wants {weight[0]}")
    if x[1] % count:
        raise ShapeError(f"{name}: {x[1]} channels do not divide into {count} groups")
    source = []
    for extent, taps, step, (before, after), spacing, extra in zip(
        x[2:], weight[2:], steps, pads, spread, extras, strict=True
    ):
        if extra >= max(step, spacing):
            raise ShapeError(
                f"{name}: an output padding of {extra} must be smaller than the stride {step} or the dilation {spacing}"
            )
        source.append((extent - 1) * step - before - after + spacing * (taps - 1) + extra + 1)
        if source[-1] < 1:
            raise ShapeError(
                f"{name}: a padding of {before} and {after} leaves nothing of an input of {x[2:]} under a kernel of "
                f"{weight[2:]}"
            )
    afters = [after - extra for (_, after), extra in zip(pads, extras, strict=True)]
    return Geometry(
        dims, x[0], count, weight[1], weight[0] // count, _three(source), _three(x[2:]), _three(weight[2:]),
        _three(steps), _three([before for before, _ in pads], 0), _three(afters, 0), _three(spread),
    )  # fmt: skip


def _checked(
    name: str, dims: int, x: Shape, weight: Shape, stride: Any, padding: Any, dilation: Any, groups: Any
) -> tuple[Shape, Shape, tuple[tuple[int, int], ...], int]:
    layout = ("N", "C", "D", "H", "W") if dims == 3 else ("N", "C", "H", "W") if dims == 2 else ("N", "C", "L")
    for what, shape in (("input", x), ("weight", weight)):
        if len(shape) != dims + 2:
            wanted = ", ".join(layout) if what == "input" else f"channels made, channels read, {', '.join(layout[2:])}"
            raise ShapeError(f"{name}: the {what} has shape {shape}, not ({wanted})")
    if 0 in weight:
        raise ShapeError(f"{name}: the weight {weight} is empty")
    if size_of(weight[2:]) > MOST_TAPS:
        raise ShapeError(f"{name}: a kernel of {weight[2:]} has more than {MOST_TAPS} taps")
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1:
        raise ShapeError(f"{name}: groups is a number from 1 on, not {groups!r}")
    steps = numbers(name, "stride", stride, dims)
    spread = numbers(name, "dilation", dilation, dims)
    return steps, spread, _sides(name, padding, steps, spread, weight[2:]), groups


def numbers(name: str, what: str, given: Any, dims: int, least: int = 1) -> Shape:
    """One integer for each dimension, of at least ``least``: ``given`` is one for all, or has as many."""
    each = (given,) * dims if not isinstance(given, list | tuple) else tuple(given)
    if len(each) != dims or not all(isinstance(n, int) and not isinstance(n, bool) for n in each):
        raise ShapeError(f"{name}: {what} is a number or {dims} of them, not {given!r}")
    if min(each) < least:
        raise ShapeError(f"{name}: {what} is {'positive' if least else '0 or more'}, not {given!r}")
    return each


def _sides(name: str, padding: Any, steps: Shape, spread: Shape, taps: Shape) -> tuple[tuple[int, int], ...]:
    """How much is added before and after, in each dimension."""
    dims = len(taps)
    if padding == "valid":
        return ((0, 0),) * dims
    if padding == "same":
        if any(step != 1 for step in steps):
            raise ShapeError(f"{name}: padding 'same' wants a stride of 1, not {steps}; give numbers")
        reach = [spacing * (extent - 1) for spacing, extent in zip(spread, taps, strict=True)]
        return tuple((each // 2, each - each // 2) for each in reach)
    if isinstance(padding, str):
        raise ShapeError(f"{name}: padding is numbers, 'same' or 'valid', not {padding!r}")
    if isinstance(padding, list | tuple) and any(isinstance(each, list | tuple) for each in padding):
        if len(padding) != dims:
            raise ShapeError(f"{name}: padding has {len(padding)} pairs for {dims} dimensions: {padding!r}")
        pairs = tuple(numbers(name, "a padding per side", each, 2, least=0) for each in padding)
        return tuple((before, after) for before, after in pairs)
    return tuple((each, each) for each in numbers(name, "padding", padding, dims, least=0))


def _three(extents: Sequence[int], fill: int = 1) -> Shape:
    return (fill,) * (3 - len(extents)) + tuple(extents)


def _dilated(spread: Shape) -> str:
    return f" at dilation {spread}" if any(each != 1 for each in spread) else ""


def _padded(extents: Shape, pads: Sequence[tuple[int, int]]) -> Shape:
    return tuple(extent + before + after for extent, (before, after) in zip(extents, pads, strict=True))


def hashable(given: Any) -> Any:
    """``given`` with tuples for lists, and Python's integers for numpy's, all the way down."""
    if isinstance(given, list | tuple):
        return tuple(hashable(each) for each in given)
    return int(given) if isinstance(given, np.integer) else given
