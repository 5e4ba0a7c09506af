"""One row per op: samples, tolerance, errors. Tests sweep it, and ``shadertape check`` runs it on any machine.

The reference is the numpy twin in float64, itself checked by finite differences. A family of ops has its rows in the
file of the same name. Sample shapes: 1, odd, larger than a workgroup, empty; test_ops runs kernels past the groups of
one axis as well.
"""

from __future__ import annotations

from . import (
    activation,
    argument,
    batch_normalization,
    binary,
    cast,
    choice,
    convolution,
    indexing,
    joining,
    layer_normalization,
    linear_algebra,
    logic,
    loss,
    movement,
    normalization,
    padding,
    pooling,
    random,
    reduction,
    resampling,
    scan,
    sequence,
    statistics,
    unary,
)
from .sample import Fault as Fault
from .sample import Row as Row
from .sample import Sample as Sample
from .sample import on as on

FAMILIES = (
    unary,
    activation,
    binary,
    logic,
    choice,
    cast,
    reduction,
    scan,
    statistics,
    argument,
    movement,
    indexing,
    joining,
    padding,
    linear_algebra,
    convolution,
    pooling,
    resampling,
    normalization,
    batch_normalization,
    layer_normalization,
    sequence,
    loss,
    random,
)

ROWS: dict[str, tuple[Row, ...]] = {family.__name__.rpartition(".")[2]: family.ROWS for family in FAMILIES}
"""The rows of each family."""

TABLE: tuple[Row, ...] = tuple(row for rows in ROWS.values() for row in rows)
