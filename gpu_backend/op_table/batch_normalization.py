"""Rows of batch_norm and batch_statistics."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal

SHAPES = [(2, 1), (5, 7), (70, 130), (2, 3, 6), (3, 5, 4, 6), (1, 2, 90, 70), (2, 2, 3, 2, 4)]


def statistics_row() -> Row:
    samples = [Sample(str(shape), (normal(*shape),)) for shape in SHAPES]
    samples += [
        Sample("one", (normal(1, 3),)),
        Sample("far from 0", (1000 + normal(9, 4),)),
        Sample("equal", (np.full((3, 2, 5), 0.1, np.float32),)),
    ]
    faults = (
        Fault((normal(5),), {}, ShapeError, "batch_statistics: the input has shape (5,), not (N, C, ...)"),
        Fault((normal(0, 5),), {}, ShapeError, "there is nothing in the channels of (0, 5)"),
        Fault((integers(4, 9),), {}, DtypeError, "float32"),
    )
    return Row(ops.batch_statistics, tuple(samples), faults=faults)


def batch_norm_row() -> Row:
    samples = [
        Sample(str(shape), (normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2), None))
        for shape in SHAPES
        if shape != (2, 1)
    ]
    x, weight, bias = normal(6, 9, 2), normal(9, seed=1), normal(9, seed=2)
    given, _ = ops.batch_statistics.host_forward(x)
    samples += [
        Sample("plain", (x, None, None, None)),
        Sample("weight", (x, weight, None, None)),
        Sample("bias", (x, None, bias, None), {"eps": 0.5}),
        # The statistics count as made from x, where finite differences hold them fast.
        Sample("given", (x, weight, bias, given), has_corners=True),
        Sample("far from 0", (1000 + x, weight, bias, None)),
        Sample("equal", (np.full((3, 9), 0.1, np.float32), weight, bias, None)),
    ]
    faults = (
        Fault((x[:1, :, :1], None, None, None), {}, ShapeError, "more than one element per channel is wanted"),
        Fault((x[:0], None, None, None), {}, ShapeError, "the input has shape (0, 9, 2)"),
        Fault((x, normal(4), None, None), {}, ShapeError, "the weight has shape (4,), 9 channels want (9,)"),
        Fault((x, None, normal(4), None), {}, ShapeError, "the bias has shape (4,), 9 channels want (9,)"),
        Fault((x, None, None, normal(9)), {}, ShapeError, "the statistics have shape (9,), not (9, 3)"),
        Fault((x, None, None, None), {"eps": -1.0}, ValueError, "eps is 0 or more, not -1.0"),
        Fault((integers(4, 9), None, None, None), {}, DtypeError, "float32"),
    )
    return Row(ops.batch_norm, tuple(samples), tolerance=4e-6, faults=faults)


ROWS = (batch_norm_row(), statistics_row())
