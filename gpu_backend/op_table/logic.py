"""Rows of comparisons, logical functions and functions of bits."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .elementwise import UINT32
from .sample import PAIRS, Fault, Row, Sample, integers, normal, truths


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


def logical(op: Op) -> Row:
    """As ``comparison``: every element type, NaN and zeros of both signs among the numbers."""
    return comparison(op)


def bitwise(op: Op, *extra: Sample, with_bool: bool = True) -> Row:
    """A row of a function of the bits of integers, and of bool."""
    samples = [
        Sample("int32", (integers(4, 9), integers(9, seed=1))),
        Sample("uint32", (integers(70, **UINT32), integers(70, **UINT32, seed=1))),
        Sample("number", (integers(5), 6)),
        Sample("one", (integers(1), integers(1, seed=2))),
        Sample("empty", (integers(0, 3), integers(3))),
    ]
    if with_bool:
        samples.append(Sample("bool", (truths(9), truths(9)[::-1].copy())))
    faults = (
        Fault((normal(3), normal(3)), {}, DtypeError, "not float32"),
        Fault((integers(2, 3), integers(4)), {}, ShapeError, "do not broadcast"),
    )
    return Row(op, (*samples, *extra), faults=faults)


def shift(op: Op) -> Row:
    """Shifts by 0, some, the last bit, past it, and backwards."""
    numbers = np.array([1, -1, 2**31 - 1, -(2**31), 12345], np.int32)
    counts = np.array([0, 1, 5, 31, 32, 33, -1], np.int32)
    return bitwise(
        op,
        Sample("counts", (numbers[:, None], counts)),
        Sample("counts-uint32", (numbers.view(np.uint32)[:, None], counts.view(np.uint32))),
        with_bool=False,
    )


ROWS = (
    comparison(ops.equal),
    comparison(ops.not_equal),
    comparison(ops.less),
    comparison(ops.less_equal),
    comparison(ops.greater),
    comparison(ops.greater_equal),
    logical(ops.logical_and),
    logical(ops.logical_or),
    logical(ops.logical_xor),
    bitwise(ops.bitwise_and),
    bitwise(ops.bitwise_or),
    bitwise(ops.bitwise_xor),
    shift(ops.bitwise_left_shift),
    shift(ops.bitwise_right_shift),
)
