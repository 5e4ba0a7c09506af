"""Rows of scans, and of prod."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError
from ..op import Op
from .reduction import reduction
from .sample import Array, Fault, Row, Sample, integers, normal, truths

LINES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), 0),
    ((), None),
    ((7,), None),
    ((3, 5), None),
    ((16,), 0),
    ((17,), 0),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), 1),
    ((2, 1, 250), 1),
    ((3, 300), 1),
    ((700, 5), 0),
    ((2, 960), 1),
    ((2, 961), 1),
    ((2000, 3), 0),
    ((17000,), None),
]


def around_one(*shape: int) -> Array:
    """float32 whose long products neither overflow nor vanish."""
    return np.asarray(np.exp(0.02 * normal(*shape)) * np.where(truths(*shape), 1, -1), np.float32)


def with_zeros(*places: int) -> Array:
    """A row of 300 with zeros at some places, and one without."""
    x = around_one(2, 300)
    x[0, list(places)] = 0
    return x


def cumulation(op: Op, elements: Any, *more: Sample, **options: Any) -> Row:
    """A row for a scan."""
    samples = [Sample(f"{shape}-{axis}", (elements(*shape),), {"axis": axis}) for shape, axis in LINES]
    samples += [
        Sample("no-lines", (normal(2, 0, 3),), {"axis": 0}),
        Sample("empty-lines", (normal(2, 0, 3),), {"axis": 1}),
        Sample("nothing", (normal(0),), {}),
        Sample("int32", (integers(3, 40),), {"axis": 1}),
        Sample("uint32", (integers(1000, 2, low=0, high=2**30, dtype=np.uint32),), {"axis": 0}),
        Sample("bool", (truths(3, 1000),), {"axis": 1}),
    ]
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions"),
        Fault((normal(2, 3),), {"axis": (0, 1)}, ShapeError, "an axis is an integer, not (0, 1)"),
    )
    return Row(op, (*samples, *more), faults=faults, **options)


def product() -> Row:
    """The row of prod: axes as for a sum, of elements whose products stay near 1."""
    row = reduction(ops.prod, empty=True, integer=True)
    samples = [
        Sample(s.id, (around_one(*s.inputs[0].shape),), s.attributes) if s.inputs[0].dtype == np.float32 else s
        for s in row.samples
    ]
    samples += [
        Sample("one-zero", (with_zeros(7),), {"axis": 1}),
        Sample("two-zeros", (with_zeros(0, 299),), {"axis": 1}),
        Sample("bool", (truths(3, 5),), {"axis": 1}),
    ]
    # As for cumprod; a product is a tree of factors here, so that fewer roundings add up.
    return Row(ops.prod, tuple(samples), faults=row.faults, tolerance=5e-6)


ROWS = (
    cumulation(ops.cumsum, normal),
    cumulation(
        ops.cumprod,
        around_one,
        Sample("one-zero", (with_zeros(7),), {"axis": 1}),
        Sample("two-zeros", (with_zeros(0, 250),), {"axis": 1}),
        tolerance=1e-5,  # each product rounds, in whatever order: thousands of them are off by more than a sum
    ),
    product(),
)
