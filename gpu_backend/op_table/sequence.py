"""Rows of ops of sequence models."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal


def embedding_row() -> Row:
    samples = []
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1,), (1, 1)),
        ((), (3, 4)),
        ((7,), (5, 3)),
        ((4, 5), (9, 8)),
        ((3, 600), (50, 2)),
        ((0,), (3, 2)),
        ((6,), (3, 0)),
        ((3,), (6,)),
        ((3,), (4, 2, 5)),
    ]
    for shape, table in shapes:
        given = integers(*shape, low=-table[0], high=table[0])
        samples.append(Sample(f"{shape}-{table}", (given, normal(*table))))
    skewed = np.where(np.arange(5000) < 4000, 2, np.arange(5000) % 7).astype(np.int32)
    ids = integers(6, low=0, high=4)
    samples += [
        Sample("many of one row", (skewed, normal(7, 3))),
        Sample("int32", (ids, integers(4, 3))),
        Sample("bool", (ids, integers(4, 3) > 0)),
    ]
    faults = (
        Fault((normal(3), normal(4, 2)), {}, DtypeError, "ids are int32, not float32"),
        Fault((ids, normal()), {}, ShapeError, "a table has rows"),
    )
    return Row(ops.embedding, tuple(samples), faults=faults)


def rotary_row() -> Row:
    samples = []
    for shape in ((1, 2), (3, 4), (2, 5, 6), (2, 3, 7, 10), (70, 66), (0, 3, 4), (2, 0, 4), (3, 0)):
        for interleaved in (False, True):
            angles = normal(shape[-2], shape[-1] // 2, seed=1)
            inputs = normal(*shape), np.cos(angles), np.sin(angles)
            samples.append(Sample(f"{shape}-{interleaved}", inputs, {"interleaved": interleaved}))
    table = normal(3, 2)
    faults = (
        Fault((normal(4), table, table), {}, ShapeError, "(..., T, D) with an even D, not (4,)"),
        Fault((normal(3, 5), table, table), {}, ShapeError, "(..., T, D) with an even D, not (3, 5)"),
        Fault((normal(2, 4), table, table), {}, ShapeError, "cos has shape (3, 2), the input (2, 4) wants"),
        Fault((normal(3, 4), table, normal(3, 4)), {}, ShapeError, "sin has shape (3, 4)"),
        Fault((integers(3, 4), table, table), {}, DtypeError, "float32"),
    )
    return Row(ops.rotary_embedding, tuple(samples), faults=faults)


ROWS = (
    embedding_row(),
    rotary_row(),
)
