"""The row of astype."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError
from .sample import Fault, Row, Sample, normal


def astype_row() -> Row:
    edges = np.array(
        [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 2147483520.0, 3e9, -3e9, 5e9, np.inf, -np.inf, np.nan], np.float32
    )
    values = {
        "float32": edges,
        "int32": np.array([0, 1, -1, 2**31 - 1, -(2**31), 16777217], np.int32),
        "uint32": np.array([0, 1, 2**32 - 1, 2**31, 16777217], np.uint32),
        "bool": np.array([True, False, True]),
    }
    samples = [Sample(f"{a}-{b}", (values[a],), {"dtype": b}) for a in values for b in values]
    samples.append(Sample("empty", (normal(0),), {"dtype": "int32"}))
    faults = (Fault((normal(3),), {"dtype": "float64"}, DtypeError, "no element type float64"),)
    return Row(ops.astype, tuple(samples), faults=faults)


ROWS = (astype_row(),)
