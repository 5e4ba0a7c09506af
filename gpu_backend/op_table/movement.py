"""Rows of ops that move elements."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal, truths


def movement(op: Op, name: str, cases: list[tuple[tuple[int, ...], Any]], faults: tuple[Fault, ...]) -> Row:
    samples = [Sample(f"{shape}-{value}", (normal(*shape),), {name: value}) for shape, value in cases]
    shape, value = cases[1]
    samples.append(Sample("int32", (integers(*shape),), {name: value}))
    samples.append(Sample("bool", (truths(*shape),), {name: value}))
    return Row(op, tuple(samples), tolerance=1e-6, faults=faults)


def clone_row() -> Row:
    samples = [Sample(str(shape), (normal(*shape),)) for shape in ((1,), (), (3, 5), (70, 90), (0, 3))]
    samples += [Sample("int32", (integers(7),)), Sample("bool", (truths(7),))]
    fault = Fault((1.0,), {}, DtypeError, "clone: at least one operand must be an array")
    return Row(ops.clone, tuple(samples), tolerance=1e-6, faults=(fault,))


ROWS = (
    clone_row(),
    movement(
        ops.reshape,
        "shape",
        [((1,), ()), ((2, 6), (3, -1)), ((4, 5, 6), (120,)), ((0, 3), (3, 0))],
        (
            Fault((normal(2, 3),), {"shape": (4,)}, ShapeError, "(2, 3) has 6 elements, (4,) has 4"),
            Fault((normal(2, 3),), {"shape": (-1, -1)}, ShapeError, "only one extent may be -1"),
            Fault((normal(2, 3),), {"shape": (4, -1)}, ShapeError, "do not fill"),
        ),
    ),
    movement(
        ops.permute_dims,
        "axes",
        [
            ((1,), (0,)),
            ((2, 3), (1, 0)),
            ((2, 3, 4), (2, 0, 1)),
            ((2, 3, 4, 5), (3, 1, -2, 0)),
            ((0, 3), (1, 0)),
            ((70, 90), (1, 0)),
        ],
        (
            Fault((normal(2, 3),), {"axes": (0, 0)}, ShapeError, "not an order of 2 dimensions"),
            Fault((normal(2, 3),), {"axes": (0, 2)}, ShapeError, "axis 2 is out of range"),
        ),
    ),
    movement(
        ops.broadcast_to,
        "shape",
        [((1,), (1,)), ((3,), (4, 3)), ((2, 1), (5, 2, 3)), ((), (2, 2)), ((1, 3), (0, 3)), ((1, 90), (70, 90))],
        (
            Fault((normal(2, 3),), {"shape": (2, 4)}, ShapeError, "broadcast_to: shapes do not broadcast"),
            Fault((normal(2, 3),), {"shape": (3,)}, ShapeError, "(2, 3) does not broadcast to (3,)"),
        ),
    ),
    movement(
        ops.flatten,
        "start_axis",
        [((), 0), ((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((0, 3), 0)],
        (
            Fault((normal(2, 3),), {"start_axis": 2}, ShapeError, "flatten: axis 2 is out of range"),
            Fault((normal(2, 3, 4),), {"start_axis": 2, "end_axis": 1}, ShapeError, "axis 2 comes after axis 1"),
        ),
    ),
    movement(
        ops.squeeze,
        "axis",
        [((1,), None), ((2, 1, 3, 1), None), ((2, 1, 3, 1), 1), ((2, 1, 3, 1), (-1, 1)), ((1, 0), 0)],
        (Fault((normal(2, 1),), {"axis": 0}, ShapeError, "squeeze: axis 0 of shape (2, 1) has extent 2, not 1"),),
    ),
    movement(
        ops.expand_dims,
        "axis",
        [((), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3), (0, 2)), ((0,), 1)],
        (
            Fault((normal(2, 3),), {"axis": 3}, ShapeError, "expand_dims: axis 3 is out of range for 3 dimensions"),
            Fault((normal(2, 3),), {"axis": (1, 1)}, ShapeError, "twice"),
        ),
    ),
    Row(
        ops.swapaxes,
        tuple(
            Sample(f"{shape}-{one}-{other}", (normal(*shape),), {"axis1": one, "axis2": other})
            for shape, one, other in (
                ((1,), 0, 0),
                ((2, 3), 0, 1),
                ((2, 3, 4, 5), 1, -1),
                ((70, 90), 1, 0),
                ((0, 3), 0, 1),
            )
        ),
        tolerance=1e-6,
        faults=(Fault((normal(2, 3),), {"axis1": 0, "axis2": 2}, ShapeError, "swapaxes: axis 2 is out of range"),),
    ),
)
