"""Rows of random ops."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import SHAPES, Fault, Row, Sample, integers, normal


def dropout_row() -> Row:
    zero = np.zeros(4, np.uint32)
    samples = [Sample(str(shape), (normal(*shape), zero), {"p": 0.5, "key": 7}) for shape in SHAPES]
    samples += [Sample(f"p={p}", (normal(9, 7), ~zero), {"p": p, "position": 2**40 + 11}) for p in (0.0, 0.3, 1.0)]
    faults = (
        Fault((normal(3), zero), {"p": 1.5}, ValueError, "a probability lies between 0 and 1, not 1.5"),
        Fault((normal(3), zero[:3]), {"p": 0.5}, ShapeError, "the base has four words, not shape (3,)"),
        Fault((normal(3), normal(4)), {"p": 0.5}, DtypeError, "the base is uint32, not float32"),
        Fault((integers(3), zero), {"p": 0.5}, DtypeError, "float32"),
    )
    return Row(ops.dropout, tuple(samples), faults=faults)


ROWS = (dropout_row(),)
