"""Rows of elementwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .sample import PAIRS, SHAPES, Array, Fault, Row, Sample, integers, normal, positive, truths


def unary(op: Op, make: Callable[..., Array] = normal, **options: Any) -> Row:
    """A row for a function of one float array."""
    samples = tuple(Sample(str(shape), (make(*shape),)) for shape in SHAPES)
    return Row(op, samples, faults=(Fault((integers(3),), {}, DtypeError, "float32"),), **options)


def binary(op: Op, make: Callable[..., Array] = normal, integer: bool = True, **options: Any) -> Row:
    """A row for a function of two operands: arrays that broadcast, a number on either side, integers."""
    samples = [Sample(f"{a}{b}", (make(*a), make(*b, seed=1))) for a, b in PAIRS]
    samples += [Sample("array-number", (make(5, 3), 2.5)), Sample("number-array", (-1.5, make(70)))]
    if integer:
        samples.append(Sample("int32", (integers(4, 9), integers(9, seed=1))))
        samples.append(Sample("int32-number", (integers(11), -7)))
        big = integers(9, low=0, high=2**32, dtype=np.uint32)
        samples.append(Sample("uint32", (big, integers(9, low=0, high=2**32, seed=1, dtype=np.uint32))))
    faults = (
        Fault((normal(2, 3), normal(4)), {}, ShapeError, f"{op.name}: shapes do not broadcast: (2, 3) and (4,)"),
        Fault((normal(2), integers(2)), {}, DtypeError, "float32"),
    )
    return Row(op, tuple(samples), faults=faults, **options)


def where_row() -> Row:
    samples = [
        Sample(str(shapes), (truths(*shapes[0]), normal(*shapes[1]), normal(*shapes[2], seed=1)))
        for shapes in (
            ((1,), (1,), (1,)),
            ((7,), (7,), (7,)),
            ((3, 1), (5,), ()),
            ((4, 1, 3), (2, 1), (4, 2, 3)),
            ((0,), (0,), (1,)),
            ((50, 41), (50, 41), (41,)),
        )
    ]
    samples.append(Sample("number-b", (truths(9), normal(9), -2.0)))
    samples.append(Sample("number-a", (truths(9), float("-inf"), normal(9))))
    samples.append(Sample("int32", (truths(9), integers(9), integers(9, seed=1))))
    faults = (
        Fault((normal(3), normal(3), normal(3)), {}, DtypeError, "the condition is bool, not float32"),
        Fault((truths(3), 1.0, 2.0), {}, DtypeError, "at least one of the two choices"),
        Fault((truths(3), normal(2), 2.0), {}, ShapeError, "do not broadcast"),
    )
    return Row(ops.where, tuple(samples), faults=faults)


def comparison(op: Op) -> Row:
    samples = [
        Sample(f"{a}{b}", (integers(*a).astype(np.float32), integers(*b, seed=1).astype(np.float32))) for a, b in PAIRS
    ]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, np.nan], np.float32)
    samples.append(Sample("special", (special[:, None], special)))
    samples.append(Sample("number", (special, 0.0)))
    samples.append(Sample("int32", (integers(40), integers(40, seed=1))))
    samples.append(Sample("uint32", (integers(9, low=0, high=2**32, dtype=np.uint32), 2**31)))
    samples.append(Sample("bool", (truths(9), truths(9)[::-1].copy())))
    faults = (
        Fault((normal(2, 3), normal(4)), {}, ShapeError, "do not broadcast"),
        Fault((integers(3), 0.5), {}, DtypeError, "0.5 does not go with int32"),
    )
    return Row(op, tuple(samples), faults=faults)


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


ROWS = (
    binary(ops.add),
    binary(ops.subtract),
    binary(ops.multiply),
    binary(ops.divide, positive, integer=False),
    Row(
        ops.negative,
        (
            *unary(ops.negative).samples,
            Sample("int32", (integers(5),)),
            Sample("uint32", (np.array([1, 2], np.uint32),)),
        ),
        faults=(Fault((truths(3),), {}, DtypeError, "not bool"),),
    ),
    unary(ops.exp),
    unary(ops.log, positive),
    unary(ops.sqrt, positive),
    unary(ops.tanh, tolerance=4e-6),
    unary(ops.sigmoid),
    unary(ops.relu),
    comparison(ops.equal),
    comparison(ops.not_equal),
    comparison(ops.less),
    comparison(ops.less_equal),
    comparison(ops.greater),
    comparison(ops.greater_equal),
    where_row(),
    astype_row(),
)
