"""Rows of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal, truths

AXES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), None),
    ((), None),
    ((5,), 0),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), 1),
    ((2, 1, 250), 1),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (1, 2)),
    ((4000,), None),
    ((3, 300), 1),
    ((700, 5), 0),
    ((20, 30, 11), (0, 1)),
]


def reduction(op: Op, empty: bool, integer: bool, **options: Any) -> Row:
    """A row for a reduction, with and without keepdims."""
    samples = []
    for shape, axis in AXES:
        for keepdims in (False, True):
            samples.append(
                Sample(f"{shape}-{axis}-{keepdims}", (normal(*shape),), {"axis": axis, "keepdims": keepdims})
            )
    samples.append(Sample("no-output", (normal(0, 3),), {"axis": 1}))
    if empty:
        samples.append(Sample("nothing", (normal(0, 3),), {"axis": 0}))
    if integer:
        samples.append(Sample("int32", (integers(3, 40),), {"axis": 1}))
        samples.append(Sample("uint32", (integers(3, 40, low=0, high=2**30, dtype=np.uint32),), {"axis": 0}))
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions"),
        Fault((normal(2, 3),), {"axis": (0, -2)}, ShapeError, "twice"),
    )
    return Row(op, tuple(samples), faults=faults, **options)


TIES = np.array([[1, 3, 3, -2], [0, 0, 0, 0], [np.nan, 5, -np.inf, 5], [-np.inf, -np.inf, -np.inf, np.inf]], np.float32)


def extreme(op: Op) -> Row:
    """A row for a largest or smallest element."""
    return Row(
        op,
        (*reduction(op, empty=False, integer=True).samples, Sample("ties", (TIES,), {"axis": 1}, has_corners=True)),
        faults=(
            Fault((normal(0, 3),), {"axis": 0}, ShapeError, "nothing to choose from in axes (0,) of shape (0, 3)"),
            Fault((truths(3),), {}, DtypeError, "not bool"),
        ),
    )


def quantifier(op: Op) -> Row:
    """A row for what is said of truths."""
    samples = [
        Sample(f"{shape}-{axis}", (np.where(truths(*shape), 0, normal(*shape)).astype(np.float32),), {"axis": axis})
        for shape, axis in AXES
    ]
    samples += [
        Sample("all-true", (normal(3, 300),), {"axis": 1}),
        Sample("all-false", (np.zeros((700, 3), bool),), {"axis": 0, "keepdims": True}),
        Sample("ties", (TIES,), {"axis": 1}),
        Sample("nothing", (normal(0, 3),), {"axis": 0}),
        Sample("no-output", (normal(0, 3),), {"axis": 1}),
        Sample("bool", (truths(5, 300),), {"axis": 1}),
        Sample("int32", (integers(3, 40, low=-1, high=2),), {"axis": 0}),
        Sample("uint32", (integers(9, 3, low=0, high=2, dtype=np.uint32),), {"axis": 1}),
    ]
    fault = Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions")
    return Row(op, tuple(samples), faults=(fault,))


ROWS = (
    reduction(ops.sum, empty=True, integer=True),
    reduction(ops.mean, empty=True, integer=False),
    extreme(ops.max),
    extreme(ops.min),
    extreme(ops.amax),
    extreme(ops.amin),
    quantifier(ops.any),
    quantifier(ops.all),
    quantifier(ops.count_nonzero),
)
