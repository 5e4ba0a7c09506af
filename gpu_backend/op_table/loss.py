"""Rows of losses."""

from __future__ import annotations

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal


def cross_entropy_row() -> Row:
    samples = []
    for rows, cols in ((1, 1), (5, 3), (70, 10), (3, 200), (0, 4)):
        for reduction_ in ("mean", "sum", "none") if rows else ("sum", "none"):
            targets = integers(rows, low=0, high=cols)
            samples.append(
                Sample(f"{rows}x{cols}-{reduction_}", (normal(rows, cols), targets), {"reduction": reduction_})
            )
    x, t = normal(4, 3), integers(4, low=0, high=3)
    faults = (
        Fault((x, integers(3, low=0, high=3)), {}, ShapeError, "(4, 3) and (3,)"),
        Fault((normal(4), t), {}, ShapeError, "logits (N, C)"),
        Fault((x, normal(4)), {}, DtypeError, "class indices are int32, not float32"),
        Fault((x, t), {"reduction": "max"}, ValueError, "no reduction 'max'"),
    )
    return Row(ops.cross_entropy, tuple(samples), faults=faults)


ROWS = (cross_entropy_row(),)
