"""Rows of argmax and argmin."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError
from ..op import Op
from .reduction import TIES
from .sample import Fault, Row, Sample, integers, normal, truths

LINES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), 0),
    ((), None),
    ((7,), None),
    ((3, 5), None),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), 1),
    ((2, 1, 250), 1),
    ((3, 300), 1),
    ((700, 5), 0),
    ((20000,), None),
]


def argument(op: Op) -> Row:
    """A row for the place of an extreme element, with and without keepdims."""
    samples = [
        Sample(f"{shape}-{axis}-{keepdims}", (normal(*shape),), {"axis": axis, "keepdims": keepdims})
        for shape, axis in LINES
        for keepdims in (False, True)
    ]
    samples += [
        Sample("ties", (TIES,), {"axis": 1}),
        Sample("ties-down", (TIES,), {"axis": 0}),
        Sample("many-ties", (integers(5, 5000, low=-2, high=3).astype(np.float32),), {"axis": 1}),
        Sample("NaN", (np.where(truths(3, 5000), np.nan, 1).astype(np.float32),), {"axis": 1}),
        Sample("no-output", (normal(0, 3),), {"axis": 1}),
        Sample("int32", (integers(3, 400, low=-(2**31), high=2**31),), {"axis": 1}),
        Sample("uint32", (integers(400, 3, low=0, high=2**32, dtype=np.uint32),), {"axis": 0}),
        Sample("bool", (truths(5, 7),), {"axis": 1}),
    ]
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions"),
        Fault((normal(2, 3),), {"axis": (0, 1)}, ShapeError, "an axis is an integer, not (0, 1)"),
        Fault((normal(0, 3),), {"axis": 0}, ShapeError, "nothing to choose from in axes (0,) of shape (0, 3)"),
        Fault((normal(0),), {}, ShapeError, "nothing to choose from"),
    )
    return Row(op, tuple(samples), faults=faults)


ROWS = (argument(ops.argmax), argument(ops.argmin))
