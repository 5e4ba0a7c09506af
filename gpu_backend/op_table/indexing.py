"""Rows of slices and of what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal, truths

KEYS: list[tuple[tuple[int, ...], Any]] = [
    ((1,), 0),
    ((7,), slice(None)),
    ((7,), slice(None, None, -2)),
    ((7,), slice(5, 1, -1)),
    ((7,), slice(5, 2)),
    ((5, 6), -2),
    ((5, 6), (slice(None), 3)),
    ((5, 6), (slice(1, None, 2), slice(None, None, -1))),
    ((5, 6), (None, ..., None, 2)),
    ((4, 3, 5), (..., slice(1, 3))),
    ((4, 3, 5), (1, None, slice(None, None, -1), -1)),
    ((4, 3, 5), ()),
    ((0, 3), (slice(None), 1)),
    ((), ...),
    ((90, 70), (slice(3, 80, 3), slice(60, 5, -1))),
]


def indexing(op: Op, cases: list[tuple[tuple[int, ...], dict[str, Any]]], faults: tuple[Fault, ...]) -> Row:
    """A row of an op that moves elements; the second case in every element type."""
    samples = [Sample(f"{shape}-{attributes}", (normal(*shape),), attributes) for shape, attributes in cases]
    shape, attributes = cases[1]
    samples.append(Sample("int32", (integers(*shape),), attributes))
    samples.append(Sample("bool", (truths(*shape),), attributes))
    return Row(op, tuple(samples), tolerance=1e-6, faults=faults)


MATRICES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1), {}),
    ((5, 7), {}),
    ((5, 7), {"k": 2}),
    ((7, 5), {"k": -3}),
    ((2, 3, 4, 4), {"k": 1}),
    ((3, 3), {"k": 100}),
    ((3, 3), {"k": -(2**40)}),
    ((0, 3), {}),
    ((70, 90), {}),
]
VECTOR = Fault((normal(3),), {}, ShapeError, "shape (3,) has fewer than two dimensions")

ROWS = (
    indexing(
        ops.getitem,
        [(shape, {"key": key}) for shape, key in KEYS],
        (
            Fault(
                (normal(2, 3),),
                {"key": (0, 3)},
                IndexError,
                "getitem: index 3 is out of range for axis 1 with extent 3",
            ),
            Fault(
                (normal(2, 3),), {"key": (0, 0, 0)}, IndexError, "3 indices for shape (2, 3), which has 2 dimensions"
            ),
            Fault((normal(2, 3),), {"key": (..., ...)}, IndexError, "only one ... may stand in an index"),
            Fault((normal(2, 3),), {"key": [0, 1]}, TypeError, "not list; take() has indices from an array"),
            Fault((normal(2, 3),), {"key": True}, TypeError, "not bool"),
            Fault((normal(2, 3),), {"key": np.array([0])}, TypeError, "not ndarray"),
        ),
    ),
    indexing(
        ops.flip,
        [
            ((1,), {}),
            ((5, 7), {}),
            ((5, 7), {"axis": 0}),
            ((2, 3, 4), {"axis": (0, -1)}),
            ((), {}),
            ((0, 3), {}),
            ((70, 90), {"axis": 1}),
        ],
        (Fault((normal(2, 3),), {"axis": 2}, ShapeError, "flip: axis 2 is out of range"),),
    ),
    indexing(
        ops.roll,
        [
            ((1,), {"shift": 1}),
            ((5, 7), {"shift": 3}),
            ((5, 7), {"shift": -2, "axis": 1}),
            ((5, 7), {"shift": (2, 10), "axis": (0, 1)}),
            ((5, 7), {"shift": (2, 1), "axis": (1, 1)}),
            ((5, 7), {"shift": 0, "axis": 0}),
            ((), {"shift": 2}),
            ((0, 3), {"shift": 2, "axis": 0}),
            ((70, 90), {"shift": 33, "axis": 0}),
        ],
        (
            Fault((normal(2, 3),), {"shift": 1, "axis": 2}, ShapeError, "roll: axis 2 is out of range"),
            Fault((normal(2, 3),), {"shift": (1, 2), "axis": 0}, ShapeError, "roll: 2 shifts for 1 axes"),
        ),
    ),
    indexing(
        ops.diagonal,
        [
            ((1, 1), {}),
            ((5, 7), {}),
            ((5, 7), {"offset": 2}),
            ((5, 7), {"offset": -4}),
            ((5, 7), {"offset": 9}),
            ((2, 3, 4), {"axis1": -1, "axis2": 0}),
            ((0, 3), {}),
            ((70, 90), {"offset": 10}),
        ],
        (
            VECTOR,
            Fault((normal(2, 3),), {"axis1": 1, "axis2": -1}, ShapeError, "axes 1 and -1 of shape (2, 3) are the same"),
        ),
    ),
    indexing(ops.tril, MATRICES, (VECTOR,)),
    indexing(ops.triu, MATRICES, (VECTOR,)),
)
