"""Rows of ops that put arrays together."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal, truths

Shapes = tuple[tuple[int, ...], ...]


def joining(op: Op, cases: list[tuple[Shapes, int]], faults: tuple[Fault, ...]) -> Row:
    """A row of an op of any number of arrays."""
    samples = [
        Sample(f"{shapes}-{axis}", tuple(normal(*shape, seed=n) for n, shape in enumerate(shapes)), {"axis": axis})
        for shapes, axis in cases
    ]
    samples.append(Sample("int32", (integers(3, 2), integers(3, 2, seed=1)), {"axis": 0}))
    samples.append(Sample("bool", (truths(5), truths(5)[::-1].copy()), {"axis": 0}))
    return Row(op, tuple(samples), tolerance=1e-6, faults=faults)


def copying(op: Op, cases: list[tuple[tuple[int, ...], dict[str, Any]]], faults: tuple[Fault, ...]) -> Row:
    """A row of an op that lays an array side by side."""
    samples = [Sample(f"{shape}-{attributes}", (normal(*shape),), attributes) for shape, attributes in cases]
    shape, attributes = cases[1]
    samples.append(Sample("int32", (integers(*shape),), attributes))
    samples.append(Sample("bool", (truths(*shape),), attributes))
    return Row(op, tuple(samples), faults=faults)


ROWS = (
    joining(
        ops.concat,
        [
            (((1,),), 0),
            (((3,), (2,), (4,)), 0),
            (((2, 3), (2, 1)), 1),
            (((2, 3), (0, 3), (4, 3)), 0),
            (((2, 3, 4), (2, 5, 4)), -2),
            (((3,),) * 12, 0),  # P-LM04: more than a kernel binds
            (((70, 30), (70, 90)), 1),
        ],
        (
            Fault(
                (normal(2, 3), normal(3, 2)),
                {},
                ShapeError,
                "concat: shapes (2, 3) and (3, 2) differ in more than axis 0",
            ),
            Fault((normal(2), integers(2)), {}, DtypeError, "concat: element types differ: float32 and int32"),
            Fault((normal(2),), {"axis": 1}, ShapeError, "concat: axis 1 is out of range"),
            Fault((normal(), normal()), {}, ShapeError, "concat: axis 0 is out of range for 0 dimensions"),
        ),
    ),
    joining(
        ops.stack,
        [
            (((),), 0),
            (((3,), (3,)), 0),
            (((2, 3),) * 3, 1),
            (((2, 3),) * 3, -1),
            (((0, 3),) * 2, 0),
            (((3,),) * 9, 0),
            (((70, 30), (70, 30)), 2),
        ],
        (
            Fault((normal(2, 3), normal(3, 2)), {}, ShapeError, "stack: shapes differ: (2, 3) and (3, 2)"),
            Fault((normal(2), normal(2)), {"axis": 2}, ShapeError, "stack: axis 2 is out of range"),
        ),
    ),
    copying(
        ops.tile,
        [
            ((1,), {"repetitions": 3}),
            ((2, 3), {"repetitions": (2, 1)}),
            ((2, 3), {"repetitions": 2}),
            ((2, 3), {"repetitions": (2, 1, 3)}),
            ((), {"repetitions": (2, 2)}),
            ((2, 3), {"repetitions": (0, 2)}),
            ((0, 3), {"repetitions": 2}),
            ((70, 9), {"repetitions": (3, 5)}),
        ],
        (Fault((normal(2),), {"repetitions": -1}, ShapeError, "tile: repetitions are not negative"),),
    ),
    copying(
        ops.repeat,
        [
            ((1,), {"repeats": 3}),
            ((2, 3), {"repeats": 2}),
            ((2, 3), {"repeats": 2, "axis": 0}),
            ((2, 3, 4), {"repeats": 3, "axis": 1}),
            ((), {"repeats": 4}),
            ((2, 3), {"repeats": 0, "axis": 1}),
            ((0, 3), {"repeats": 2, "axis": 0}),
            ((70, 9), {"repeats": 5, "axis": -1}),
        ],
        (
            Fault((normal(2),), {"repeats": -1}, ShapeError, "repeat: repeats are not negative, as -1"),
            Fault((normal(2),), {"repeats": 1, "axis": 1}, ShapeError, "repeat: axis 1 is out of range"),
        ),
    ),
)
