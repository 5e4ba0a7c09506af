"""Rows of var, std, logsumexp and norm."""

from __future__ import annotations

import math

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .reduction import AXES
from .sample import Fault, Row, Sample, integers, normal, positive

INF = math.inf
INTEGERS = Fault((integers(3),), {}, DtypeError, "takes float32, not int32")
NO_AXIS = Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions")
EMPTY = (Sample("no-output", (normal(0, 3),), {"axis": 1}), Sample("nothing", (normal(0, 3),), {"axis": 0}))


def spread(op: Op) -> Row:
    """A row for a measure of spread."""
    samples = [
        Sample(
            f"{shape}-{axis}-{correction}",
            (normal(*shape),),
            {"axis": axis, "correction": correction, "keepdims": correction == 0},
            has_corners=math.prod(shape) == 1,  # of one element
        )
        for shape, axis in AXES
        for correction in ((0, 0.5) if math.prod(shape) == 1 or shape == (2, 1, 250) else (0, 1))
    ]
    flat = normal(4, 300)
    flat[1] = 1234
    flat[3] = 1000 + np.arange(300) * 1e-3
    few = np.array([[1, 1], [1, 2]], np.float32)
    special = np.array([[1, INF, 2], [np.nan, 1, 2], [-INF, INF, 0]], np.float32)
    samples += [
        Sample("equal", (flat,), {"axis": 1}, has_corners=True),
        Sample("too-few", (few,), {"axis": 1, "correction": 2}, has_corners=True),
        Sample("special", (special,), {"axis": 1}, has_corners=True),
        *EMPTY,
    ]
    return Row(op, tuple(samples), faults=(INTEGERS, NO_AXIS))


def log_sum() -> Row:
    """The row of logsumexp."""
    samples = [
        Sample(f"{shape}-{axis}-{keepdims}", (np.asarray(5 * normal(*shape)),), {"axis": axis, "keepdims": keepdims})
        for shape, axis in AXES
        for keepdims in (False, True)
    ]
    special = np.array([[1, -INF, 2], [-INF, -INF, -INF], [INF, 0, -INF], [np.nan, 0, 1]], np.float32)
    samples += [
        Sample("large", (np.array([[1e4, 1e4 + 1], [-3e38, -3e38]], np.float32),), {"axis": 1}),
        Sample("special", (special,), {"axis": 1}),
        *EMPTY,
    ]
    return Row(ops.logsumexp, tuple(samples), faults=(INTEGERS, NO_AXIS))


def norms() -> Row:
    """The row of norm."""
    orders = (2, 1, INF, 3, 2.5)
    samples = [
        Sample(
            f"{shape}-{axis}-{orders[n % 5]}",
            (np.asarray(positive(*shape) * np.where(normal(*shape) > 0, 1, -1), np.float32),),
            {"ord": orders[n % 5], "axis": axis, "keepdims": n % 2 == 1},
        )
        for n, (shape, axis) in enumerate(AXES + AXES[-6:] + AXES)
    ]
    samples.append(Sample("half", (positive(3, 5),), {"ord": 0.5, "axis": 1}))
    special = [[0, 0, 0], [3, 0, -4], [3e38, 0, -1e38], [1e-30, -2e-30, 1e-31], [-INF, 1, INF], [np.nan, 0, 1]]
    ties = [[2, -2, 1], [0, 0, 0], [INF, -INF, 3], [np.nan, np.nan, 1]]
    for order in (1, 2, 3.5):
        x = np.array(special, np.float32)
        samples.append(Sample(f"special-{order}", (x,), {"ord": order, "axis": 1}, has_corners=True))
    samples += [
        Sample("ties", (np.array(ties, np.float32),), {"ord": INF, "axis": 1}, has_corners=True),
        Sample("large-order", (normal(3, 300),), {"ord": 1000.0, "axis": 1}, has_corners=True),
        *EMPTY,
        *(Sample(f"{s.id}-inf", s.inputs, {**s.attributes, "ord": INF}) for s in EMPTY),
    ]
    faults = (
        INTEGERS,
        NO_AXIS,
        Fault((normal(3),), {"ord": 0}, ValueError, "ord is a number above 0, or inf, not 0"),
        Fault((normal(3),), {"ord": "fro"}, ValueError, "ord is a number above 0, or inf, not 'fro'"),
    )
    return Row(ops.norm, tuple(samples), faults=faults)


ROWS = (spread(ops.var), spread(ops.std), log_sum(), norms())
