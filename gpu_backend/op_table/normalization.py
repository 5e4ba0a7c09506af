"""Rows of ops that norm rows."""

from __future__ import annotations

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import Fault, Row, Sample, integers, normal


def softmax_row(op: Op) -> Row:
    shapes: list[tuple[tuple[int, ...], int]] = [((1,), 0), ((3, 7), -1), ((3, 7), 0), ((2, 5, 3), 1), ((70, 130), 1)]
    samples = [Sample(f"{shape}-{axis}", (normal(*shape),), {"axis": axis}) for shape, axis in shapes]
    samples += [Sample("empty", (normal(0, 4),)), Sample("no-cols", (normal(3, 0),))]
    samples.append(Sample("large", (1000 * normal(3, 5),)))
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range"),
        Fault((normal(),), {}, ShapeError, "axis -1 is out of range for 0 dimensions"),
        Fault((integers(2, 3),), {}, DtypeError, "float32"),
    )
    return Row(op, tuple(samples), faults=faults)


ROWS = (
    softmax_row(ops.softmax),
    softmax_row(ops.log_softmax),
)
