"""Rows of functions of one array."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError
from ..op import Op
from .elementwise import points, special, unary, whole
from .sample import Array, Fault, Row, Sample, integers, normal, positive, truths


def inside(*shape: int, seed: int = 0) -> Array:
    """float32 between -0.95 and 0.95."""
    return np.random.default_rng((seed, *shape)).uniform(-0.95, 0.95, shape).astype(np.float32)


def above_one(*shape: int, seed: int = 0) -> Array:
    """float32 between 1.1 and 9."""
    return np.random.default_rng((seed, *shape)).uniform(1.1, 9, shape).astype(np.float32)


def test_row(op: Op) -> Row:
    """A row of a function from numbers to bool."""
    return unary(op, normal, special(), *whole(), faults=())


LARGE = points("large", 3.0, -50.0, 50.0, -87.0, 88.0, 1e-20, -1e-5, 20.0, 0.3, -0.35, 5.5)

ROWS = (
    unary(ops.abs, normal, special(), *whole()),
    unary(ops.sign, normal, special(), *whole()),
    unary(ops.negative, normal, special(), *whole()),
    unary(ops.square, normal, *whole()),
    unary(ops.reciprocal, positive, special()),
    unary(
        ops.clip,
        normal,
        special(min=-1.0, max=1.5),
        points("crossed", -3.0, 0.0, 3.0, min=1.0, max=-1.0),
        points("one-sided", -3.0, 0.25, 3.0, min=0.25),
        faults=(
            Fault((normal(3),), {"min": "a"}, DtypeError, "clip: min is a number, not str"),
            Fault((normal(3),), {"low": 1.0}, TypeError, "clip: no attribute low; it takes min, max"),
        ),
    ),
    unary(ops.sqrt, positive, special()),
    unary(ops.rsqrt, positive, special()),
    unary(ops.exp, normal, special(), LARGE),
    unary(ops.exp2, normal, special(), LARGE),
    unary(ops.expm1, normal, special(), LARGE),
    unary(ops.log, positive, special(), points("near-1", 0.999, 1.001, 1.0, 0.7, 1.5, 1e-30, 1e30)),
    unary(ops.log2, positive, special(), points("near-1", 0.999, 1.001, 1.0, 0.7, 1.5, 1e-30, 1e30, 8.0)),
    unary(
        ops.log10, positive, special(), points("near-1", 0.999, 1.001, 1.0, 0.7, 1e-30, 1e30, 1000.0), tolerance=4e-6
    ),
    unary(ops.log1p, positive, special(), points("near-0", 1e-10, -1e-4, 0.4, 0.42, -0.28, -0.3, 1e30, -1.0, -1.5)),
    unary(ops.sin, normal, special(), points("turns", 3.1415927, -100.0, 8191.0, 8193.0, 1e5, 1e10, -3e30, 3e38)),
    unary(ops.cos, normal, special(), points("turns", 1.5707964, -100.0, 8191.0, 8193.0, 1e5, 1e10, -3e30, 3e38)),
    unary(ops.tan, normal, points("turns", 3.0, -100.0, 8193.0, 1e5, -3e30, np.inf, np.nan), tolerance=1e-5),
    unary(ops.asin, inside, points("ends", 1.0, -1.0, 0.0, -0.0, 1.5, np.nan, 0.5, 0.51)),
    unary(ops.acos, inside, points("ends", 1.0, -1.0, 0.0, -0.0, 1.5, np.nan, 0.5, -0.51)),
    unary(ops.atan, normal, special()),
    unary(ops.sinh, normal, special(), LARGE),
    unary(ops.cosh, normal, special(), LARGE),
    unary(ops.tanh, normal, special(), LARGE),
    unary(ops.asinh, normal, special(), points("large", 4095.0, -4097.0, 1e10, -1e30, 1e-10)),
    unary(ops.acosh, above_one, points("ends", 1.0, 0.5, 1.00001, 4097.0, 1e30, np.inf, np.nan), tolerance=1e-5),
    unary(ops.atanh, inside, points("ends", 1.0, -1.0, 0.0, 1.5, np.nan, 0.1, 1e-10), tolerance=4e-6),
    unary(ops.sigmoid, normal, special(), LARGE),
    unary(ops.erf, normal, special(), points("steps", 0.89, 0.91, -2.0, 4.0, 9.0, 1e-10)),
    unary(ops.floor, normal, special()),
    unary(ops.ceil, normal, special()),
    unary(ops.round, normal, special()),
    unary(ops.trunc, normal, special()),
    unary(ops.frac, normal, special()),
    test_row(ops.isnan),
    test_row(ops.isinf),
    test_row(ops.isfinite),
    test_row(ops.signbit),
    unary(ops.nan_to_num, normal, special(), special(nan=1.0, posinf=2.0, neginf=3.0)),
    Row(ops.logical_not, (*test_row(ops.logical_not).samples, Sample("bool", (truths(9),)))),
    Row(
        ops.bitwise_invert,
        (*whole(), Sample("bool", (truths(9),)), Sample("one", (integers(1),)), Sample("empty", (integers(0),))),
        faults=(Fault((normal(3),), {}, DtypeError, "int32 or uint32, not float32"),),
    ),
)
