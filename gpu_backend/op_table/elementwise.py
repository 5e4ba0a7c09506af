"""What makes rows of elementwise ops from a line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import PAIRS, SHAPES, Array, Fault, Row, Sample, integers, normal, truths

UINT32: dict[str, Any] = {"low": 0, "high": 2**32, "dtype": np.uint32}
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 0.5, -0.5, 1.5, -2.5, 1e-30, -3e38, 100.0], np.float32
)


def unary(
    op: Op, make: Callable[..., Array] = normal, *extra: Sample, faults: tuple[Fault, ...] = (), **options: Any
) -> Row:
    """A row for a function of one array of floats; ``extra`` samples besides the shapes."""
    samples = [Sample(str(shape), (make(*shape),)) for shape in SHAPES]
    fault = Fault((truths(3),), {}, DtypeError, "not bool")
    return Row(op, (*samples, *extra), faults=(fault, *faults), is_elementwise=True, **options)


def points(name: str, *values: float, **attributes: float) -> Sample:
    """A sample of some places of a function, where a choice was made or an algorithm changes."""
    return Sample(name, (np.array(values, np.float32),), attributes, has_corners=True)


def special(**attributes: float) -> Sample:
    """NaN, infinities, zeros of both signs, halves, the very small and large."""
    return Sample("special", (SPECIAL,), attributes, has_corners=True)


def whole() -> tuple[Sample, ...]:
    """Integers, the ends of both ranges among them."""
    ends = np.array([0, 1, -1, 2**31 - 1, -(2**31), 7, 16777217], np.int32)
    return Sample("int32", (ends,)), Sample("uint32", (ends.view(np.uint32),))


def binary(
    op: Op, make: Callable[..., Array] = normal, integer: bool = True, extra: tuple[Sample, ...] = (), **options: Any
) -> Row:
    """A row for a function of two operands: arrays that broadcast, a number on either side, integers."""
    samples = [Sample(f"{a}{b}", (make(*a), make(*b, seed=1))) for a, b in PAIRS]
    samples += [Sample("array-number", (make(5, 3), 2.5)), Sample("number-array", (1.5, make(70)))]
    if integer:
        samples.append(Sample("int32", (integers(4, 9), integers(9, seed=1))))
        samples.append(Sample("int32-number", (integers(11), -7)))
        samples.append(Sample("uint32", (integers(9, **UINT32), integers(9, **UINT32, seed=1))))
    faults = (
        Fault((normal(2, 3), normal(4)), {}, ShapeError, f"{op.name}: shapes do not broadcast: (2, 3) and (4,)"),
        Fault((normal(2), integers(2)), {}, DtypeError, "float32"),
        Fault((truths(2), truths(2)), {}, DtypeError, "not bool"),
    )
    return Row(op, (*samples, *extra), faults=faults, is_elementwise=True, **options)


def grid(*values: float) -> tuple[Array, Array]:
    """Every value against every other, as a column and a row."""
    row = np.array(values, np.float32)
    return row[:, None], row
