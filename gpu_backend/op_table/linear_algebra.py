"""Rows of products of matrices and vectors."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal

MATMUL = [
    ((1, 1), (1, 1)),
    ((3, 5), (5, 4)),
    ((17, 33), (33, 65)),
    ((70, 20), (20, 130)),
    ((2, 0), (0, 3)),
    ((0, 4), (4, 3)),
    ((5, 3, 4), (5, 4, 7)),
    ((5, 3, 4), (4, 7)),
    ((3, 4), (5, 4, 7)),
    ((2, 1, 3, 4), (3, 4, 8)),
    ((2, 3, 4, 4), (1, 3, 4, 4)),
]
VECTORS = [
    ((1,), (1,)),
    ((0,), (0,)),
    ((300,), (300,)),
    ((5,), (5, 70)),
    ((70, 5), (5,)),
    ((5,), (2, 3, 5, 4)),
    ((2, 3, 4, 5), (5,)),
    ((2, 0, 5), (5,)),
    ((5,), (5, 0)),
]


def matmul_row() -> Row:
    samples = []
    for a, b in MATMUL:
        for ta in (False, True):
            for tb in (False, True):
                left, right = normal(*a), normal(*b, seed=1)
                left = np.ascontiguousarray(np.swapaxes(left, -1, -2)) if ta else left
                right = np.ascontiguousarray(np.swapaxes(right, -1, -2)) if tb else right
                samples.append(Sample(f"{a}{b}-{ta:d}{tb:d}", (left, right), {"transpose_a": ta, "transpose_b": tb}))
    samples += [Sample(f"vector-{a}{b}", (normal(*a), normal(*b, seed=1))) for a, b in VECTORS]
    samples += [
        Sample("vector-turned-a", (normal(6, 3), normal(6, seed=1)), {"transpose_a": True}),
        Sample("vector-turned-b", (normal(6), normal(3, 6, seed=1)), {"transpose_b": True}),
    ]
    faults = (
        Fault((normal(4, 3), normal(5, 6)), {}, ShapeError, "matmul: inner dimensions differ: (4, 3) @ (5, 6)"),
        Fault((normal(3), normal(4, 2)), {}, ShapeError, "matmul: inner dimensions differ: (3,) @ (4, 2)"),
        Fault((normal(3), normal(4)), {}, ShapeError, "matmul: inner dimensions differ: (3,) @ (4,)"),
        Fault((normal(3), normal(3, 2)), {"transpose_a": True}, ShapeError, "shape (3,), has no transpose"),
        Fault((normal(2, 3), normal(3)), {"transpose_b": True}, ShapeError, "shape (3,), has no transpose"),
        Fault((normal(), normal(3, 2)), {}, ShapeError, "not numbers; multiply scales"),
        Fault((normal(2, 4, 3), normal(3, 3, 2)), {}, ShapeError, "do not broadcast: (2,) and (3,)"),
        Fault((integers(2, 2), integers(2, 2)), {}, DtypeError, "float32"),
    )
    return Row(ops.matmul, tuple(samples), faults=faults)


def linear_row() -> Row:
    samples = [
        Sample("1", (normal(1, 1), normal(1, 1, seed=1), normal(1, seed=2))),
        Sample("no-bias", (normal(6, 5), normal(3, 5, seed=1), None)),
        Sample("no-rows", (normal(0, 5), normal(3, 5, seed=1), normal(3, seed=2))),
        Sample("1-D", (normal(5), normal(3, 5, seed=1), normal(3, seed=2))),
        Sample("3-D", (normal(2, 7, 5), normal(12, 5, seed=1), normal(12, seed=2)), {"activation": "sigmoid"}),
        Sample("tall", (normal(150, 20), normal(70, 20, seed=1), normal(70, seed=2)), {"activation": "relu"}),
        Sample("tanh", (normal(9, 33), normal(65, 33, seed=1), normal(65, seed=2)), {"activation": "tanh"}),
    ]
    x, w, b = normal(2, 5), normal(3, 5), normal(3)
    faults = (
        Fault(
            (x, normal(3, 4), b), {}, ShapeError, "linear: the input has shape (2, 5), the weight (3, 4) wants (..., 4)"
        ),
        Fault((x, w, normal(4)), {}, ShapeError, "the bias has shape (4,), the weight (3, 5) wants (3,)"),
        Fault((x, normal(5), b), {}, ShapeError, "(out_features, in_features), not (5,)"),
        Fault((x, w, b), {"activation": "swish"}, ValueError, "no activation 'swish'"),
        Fault((integers(2, 5), w, b), {}, DtypeError, "float32"),
    )
    return Row(ops.linear, tuple(samples), faults=faults)


def vecdot_row() -> Row:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
        ((1,), (1,), -1),
        ((0,), (0,), -1),
        ((5000,), (5000,), 0),
        ((3, 5), (3, 5), -1),
        ((3, 5), (3, 1), 0),
        ((4, 7), (7,), -1),
        ((2, 1, 3, 5), (4, 3, 1), -2),
        ((2, 0, 3), (2, 0, 3), 1),
        ((0, 3), (1, 3), -1),
        ((300, 9), (300, 9), -1),
    ]
    samples = [Sample(f"{a}{b}{axis}", (normal(*a), normal(*b, seed=1)), {"axis": axis}) for a, b, axis in shapes]
    faults = (
        Fault((normal(3), normal(4)), {}, ShapeError, "vecdot: vectors of 3 and of 4 along axis -1: (3,) and (4,)"),
        Fault((normal(2, 3), normal(2, 1)), {}, ShapeError, "vecdot: vectors of 3 and of 1 along axis -1"),
        Fault((normal(2, 3), normal(3)), {"axis": 1}, ShapeError, "count it from the end, from -1 to -1"),
        Fault((normal(2, 3), normal(3)), {"axis": -2}, ShapeError, "vecdot: axis -2 is out of range for 1 dimension"),
        Fault((normal(2, 3), normal(4, 3)), {}, ShapeError, "vecdot: shapes do not broadcast: (2, 3) and (4, 3)"),
        Fault((normal(3), 2.0), {}, ShapeError, "vecdot: operands are vectors"),
        Fault((integers(3), integers(3)), {}, DtypeError, "float32"),
    )
    return Row(ops.vecdot, tuple(samples), faults=faults)


def outer_row() -> Row:
    sizes = [(1, 1), (3, 5), (0, 4), (4, 0), (300, 70)]
    samples = [Sample(f"{m}x{n}", (normal(m), normal(n, seed=1))) for m, n in sizes]
    faults = (
        Fault(
            (normal(2, 3), normal(3)), {}, ShapeError, "outer: operands are vectors, of one dimension, not shape (2, 3)"
        ),
        Fault((normal(3), 2.0), {}, ShapeError, "outer: operands are vectors, of one dimension, not numbers"),
        Fault((integers(3), integers(3)), {}, DtypeError, "float32"),
    )
    return Row(ops.outer, tuple(samples), faults=faults)


def bilinear_row() -> Row:
    w, bias = normal(6, 5, 3, seed=2), normal(6, seed=3)
    samples = (
        Sample("1", (normal(1, 1), normal(1, 1, seed=1), normal(1, 1, 1, seed=2), normal(1, seed=3))),
        Sample("rows", (normal(7, 5), normal(7, 3, seed=1), w, bias)),
        Sample("no-bias", (normal(7, 5), normal(7, 3, seed=1), w, None)),
        Sample("1-D", (normal(5), normal(3, seed=1), w, bias)),
        Sample("3-D", (normal(2, 4, 5), normal(2, 4, 3, seed=1), w, bias)),
        Sample("no-rows", (normal(0, 5), normal(0, 3, seed=1), w, bias)),
        Sample("no-columns", (normal(2, 0), normal(2, 3, seed=1), normal(4, 0, 3), normal(4, seed=3))),
        Sample("large", (normal(70, 17), normal(70, 9, seed=1), normal(66, 17, 9, seed=2), normal(66, seed=3))),
    )
    x1, x2 = normal(7, 5), normal(7, 3)
    wants = "the weight (6, 5, 3) wants (..., 5) and (..., 3)"
    faults = (
        Fault((x1, x1, w, bias), {}, ShapeError, f"bilinear: the inputs have shapes (7, 5) and (7, 5), {wants}"),
        Fault((x1, normal(6, 3), w, bias), {}, ShapeError, "with equal leading dimensions"),
        Fault(
            (x1, x2, normal(6, 5), bias), {}, ShapeError, "bilinear: the weight has shape (out, in1, in2), not (6, 5)"
        ),
        Fault(
            (x1, x2, w, normal(5)), {}, ShapeError, "bilinear: the bias has shape (5,), the weight (6, 5, 3) wants (6,)"
        ),
        Fault((x1, x2, integers(6, 5, 3), bias), {}, DtypeError, "float32"),
    )
    return Row(ops.bilinear, samples, faults=faults)


ROWS = (
    matmul_row(),
    linear_row(),
    vecdot_row(),
    outer_row(),
    bilinear_row(),
)
