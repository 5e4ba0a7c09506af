"""One row per op: samples, tolerance, errors. Tests sweep it, and ``shadertape check`` runs it on any machine.

The reference is the numpy twin in float64, itself checked by finite differences. A family of ops has its rows in the
file of the same name. Sample shapes: 1, odd, larger than a workgroup, empty; test_ops runs kernels past the groups of
one axis as well.
"""

from __future__ import annotations

from . import (
    elementwise,
    layer_normalization,
    linear_algebra,
    loss,
    movement,
    normalization,
    random,
    reduction,
    sequence,
)
from .sample import Fault as Fault
from .sample import Row as Row
from .sample import Sample as Sample
from .sample import on as on

FAMILIES = (
    elementwise,
    reduction,
    movement,
    linear_algebra,
    normalization,
    loss,
    random,
    layer_normalization,
    sequence,
)

TABLE: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
