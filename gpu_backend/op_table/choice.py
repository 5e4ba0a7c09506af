"""Rows of choices between elements and of functions of three operands."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal, truths


def where_row() -> Row:
    samples = [
        Sample(str(shapes), (truths(*shapes[0]), normal(*shapes[1]), normal(*shapes[2], seed=1)))
        for shapes in (
            ((1,), (1,), (1,)),
            ((7,), (7,), (7,)),
            ((3, 1), (5,), ()),
            ((4, 1, 3), (2, 1), (4, 2, 3)),
            ((0,), (0,), (1,)),
            ((50, 41), (50, 41), (41,)),
        )
    ]
    samples.append(Sample("number-b", (truths(9), normal(9), -2.0)))
    samples.append(Sample("number-a", (truths(9), float("-inf"), normal(9))))
    samples.append(Sample("int32", (truths(9), integers(9), integers(9, seed=1))))
    faults = (
        Fault((normal(3), normal(3), normal(3)), {}, DtypeError, "the condition is bool, not float32"),
        Fault((truths(3), 1.0, 2.0), {}, DtypeError, "at least one of the two choices"),
        Fault((truths(3), normal(2), 2.0), {}, ShapeError, "do not broadcast"),
    )
    return Row(ops.where, tuple(samples), faults=faults)


def masked_fill_row() -> Row:
    samples = [
        Sample(f"{x}{mask}", (normal(*x), truths(*mask)), {"value": value})
        for x, mask, value in (
            ((1,), (1,), 2.0),
            ((7,), (7,), float("-inf")),
            ((3, 1), (5,), float("nan")),
            ((0,), (1,), 1.0),
            ((50, 41), (41,), -1.5),
        )
    ]
    samples.append(Sample("int32", (integers(9), truths(9)), {"value": 7}))
    faults = (
        Fault((normal(3), normal(3)), {"value": 1.0}, DtypeError, "the mask is bool, not float32"),
        Fault((integers(3), truths(3)), {"value": 1.5}, DtypeError, "1.5 does not go with int32"),
        Fault((normal(2), truths(3)), {"value": 1.0}, ShapeError, "do not broadcast"),
    )
    return Row(ops.masked_fill, tuple(samples), faults=faults)


TRIPLES: list[tuple[tuple[int, ...], ...]] = [
    ((1,), (1,), (1,)),
    ((7,), (7,), (7,)),
    ((3, 1), (5,), ()),
    ((4, 1, 3), (2, 1), (4, 2, 3)),
    ((0,), (0,), (1,)),
    ((50, 41), (50, 41), (41,)),
]


def ternary(op: Op, *extra: Sample) -> Row:
    """A row of a function of three operands that broadcast."""
    samples = [
        Sample(str(shapes), tuple(normal(*shape, seed=seed) for seed, shape in enumerate(shapes))) for shapes in TRIPLES
    ]
    samples.append(Sample("number-c", (normal(9), normal(9, seed=1), 0.25)))
    samples.append(Sample("numbers", (2.0, normal(9), 0.75)))
    faults = (
        Fault((normal(3), normal(2), 1.0), {}, ShapeError, "do not broadcast"),
        Fault((normal(3), integers(3), 1.0), {}, DtypeError, "float32"),
        Fault((1.0, 2.0, 3.0), {}, DtypeError, "at least one operand must be an array"),
    )
    return Row(op, (*samples, *extra), faults=faults)


ROWS = (
    where_row(),
    masked_fill_row(),
    ternary(
        ops.lerp,
        Sample("ends", (np.array([1e8, 3], np.float32), np.array([1, 5], np.float32), np.array([1, 0], np.float32))),
    ),
    ternary(ops.addcmul, Sample("value", (normal(9), normal(9, seed=1), normal(9, seed=2)), {"value": -0.5})),
)
