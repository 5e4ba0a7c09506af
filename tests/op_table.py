"""One row per op: samples, tolerance, errors. The reference is the numpy twin in float64, itself checked by finite
differences (``gradient_check.check_twin``).

Sample shapes: 1, odd, larger than a workgroup, empty; test_ops runs kernels past the groups of one axis as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gpu_backend as gb
from gpu_backend import DtypeError, Op, ShapeError, ops

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """Inputs and attributes of one call; ``id`` names it in the test run."""

    id: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A call that must raise: inputs, attributes, the exception, a piece of its text."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    error: type[Exception]
    text: str


@dataclass(frozen=True)
class Row:
    """What is tested of one op. ``tolerance`` is relative to the largest value, and absolute below 1."""

    op: Op
    samples: tuple[Sample, ...]
    tolerance: float = 2e-6
    faults: tuple[Fault, ...] = ()


def normal(*shape: int, seed: int = 0) -> Array:
    """Standard normal float32."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> Array:
    """float32 between 0.25 and 4."""
    return np.random.default_rng((seed, *shape)).uniform(0.25, 4, shape).astype(np.float32)


def integers(*shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: type = np.int32) -> Array:
    """Integers in low .. high - 1."""
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> Array:
    """Random bools."""
    return np.random.default_rng(shape).random(shape) < 0.5


SHAPES = [(1,), (), (7,), (0,), (3, 5), (2, 0, 3), (33, 41), (5000,)]
PAIRS = [
    ((1,), (1,)),
    ((7,), (7,)),
    ((), (5,)),
    ((3, 1), (1, 5)),
    ((4, 2, 3), (3,)),
    ((4, 2, 3), (2, 1)),
    ((1, 3), (4, 2, 3)),
    ((0, 3), (1, 3)),
    ((2, 1, 3, 1, 2), (4, 1, 5, 1)),
    ((63, 65), (63, 65)),
    ((130, 33), (33,)),
]


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


AXES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), None),
    ((), None),
    ((5,), 0),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), 1),
    ((2, 1, 250), 1),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (1, 2)),
    ((4000,), None),
    ((3, 300), 1),
    ((700, 5), 0),
    ((20, 30, 11), (0, 1)),
]


def reduction(op: Op, empty: bool, integer: bool, **options: Any) -> Row:
    """A row for a reduction, with and without keepdims."""
    samples = []
    for shape, axis in AXES:
        for keepdims in (False, True):
            samples.append(
                Sample(f"{shape}-{axis}-{keepdims}", (normal(*shape),), {"axis": axis, "keepdims": keepdims})
            )
    samples.append(Sample("no-output", (normal(0, 3),), {"axis": 1}))
    if empty:
        samples.append(Sample("nothing", (normal(0, 3),), {"axis": 0}))
    if integer:
        samples.append(Sample("int32", (integers(3, 40),), {"axis": 1}))
        samples.append(Sample("uint32", (integers(3, 40, low=0, high=2**30, dtype=np.uint32),), {"axis": 0}))
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range for 2 dimensions"),
        Fault((normal(2, 3),), {"axis": (0, -2)}, ShapeError, "twice"),
    )
    return Row(op, tuple(samples), faults=faults, **options)


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


def matmul_row() -> Row:
    samples = []
    for a, b in MATMUL:
        for ta in (False, True):
            for tb in (False, True):
                left, right = normal(*a), normal(*b, seed=1)
                left = np.ascontiguousarray(np.swapaxes(left, -1, -2)) if ta else left
                right = np.ascontiguousarray(np.swapaxes(right, -1, -2)) if tb else right
                samples.append(Sample(f"{a}{b}-{ta:d}{tb:d}", (left, right), {"transpose_a": ta, "transpose_b": tb}))
    faults = (
        Fault((normal(4, 3), normal(5, 6)), {}, ShapeError, "matmul: inner dimensions differ: (4, 3) @ (5, 6)"),
        Fault((normal(3), normal(3, 2)), {}, ShapeError, "at least two dimensions, not shape (3,)"),
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


def softmax_row(op: Op) -> Row:
    shapes: list[tuple[tuple[int, ...], int]] = [((1,), 0), ((3, 7), -1), ((3, 7), 0), ((2, 5, 3), 1), ((70, 130), 1)]
    samples = [Sample(f"{shape}-{axis}", (normal(*shape),), {"axis": axis}) for shape, axis in shapes]
    samples += [Sample("empty", (normal(0, 4),)), Sample("no-cols", (normal(3, 0),))]
    samples.append(Sample("large", (1000 * normal(3, 5),)))
    faults = (
        Fault((normal(2, 3),), {"axis": 2}, ShapeError, "axis 2 is out of range"),
        Fault((normal(),), {}, ShapeError, "axis -1 is out of range for 0 dimensions"),
        Fault((integers(2, 3),), {}, DtypeError, "float32"),
    )
    return Row(op, tuple(samples), faults=faults)


def cross_entropy_row() -> Row:
    samples = []
    for rows, cols in ((1, 1), (5, 3), (70, 10), (3, 200), (0, 4)):
        for reduction_ in ("mean", "sum", "none") if rows else ("sum", "none"):
            targets = integers(rows, low=0, high=cols)
            samples.append(
                Sample(f"{rows}x{cols}-{reduction_}", (normal(rows, cols), targets), {"reduction": reduction_})
            )
    x, t = normal(4, 3), integers(4, low=0, high=3)
    faults = (
        Fault((x, integers(3, low=0, high=3)), {}, ShapeError, "(4, 3) and (3,)"),
        Fault((normal(4), t), {}, ShapeError, "logits (N, C)"),
        Fault((x, normal(4)), {}, DtypeError, "class indices are int32, not float32"),
        Fault((x, t), {"reduction": "max"}, ValueError, "no reduction 'max'"),
    )
    return Row(ops.cross_entropy, tuple(samples), faults=faults)


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


def movement(op: Op, name: str, cases: list[tuple[tuple[int, ...], Any]], faults: tuple[Fault, ...]) -> Row:
    samples = [Sample(f"{shape}-{value}", (normal(*shape),), {name: value}) for shape, value in cases]
    shape, value = cases[1]
    samples.append(Sample("int32", (integers(*shape),), {name: value}))
    samples.append(Sample("bool", (truths(*shape),), {name: value}))
    return Row(op, tuple(samples), tolerance=1e-6, faults=faults)


def clone_row() -> Row:
    samples = [Sample(str(shape), (normal(*shape),)) for shape in ((1,), (), (3, 5), (70, 90), (0, 3))]
    samples += [Sample("int32", (integers(7),)), Sample("bool", (truths(7),))]
    fault = Fault((1.0,), {}, DtypeError, "clone: at least one operand must be an array")
    return Row(ops.clone, tuple(samples), tolerance=1e-6, faults=(fault,))


def dropout_row() -> Row:
    zero = np.zeros(4, np.uint32)
    samples = [Sample(str(shape), (normal(*shape), zero), {"p": 0.5, "key": 7}) for shape in SHAPES]
    samples += [Sample(f"p={p}", (normal(9, 7), ~zero), {"p": p, "position": 2**40 + 11}) for p in (0.0, 0.3, 1.0)]
    faults = (
        Fault((normal(3), zero), {"p": 1.5}, ValueError, "a probability lies between 0 and 1, not 1.5"),
        Fault((normal(3), zero[:3]), {"p": 0.5}, ShapeError, "the base has four words, not shape (3,)"),
        Fault((normal(3), normal(4)), {"p": 0.5}, DtypeError, "the base is uint32, not float32"),
        Fault((integers(3), zero), {"p": 0.5}, DtypeError, "float32"),
    )
    return Row(ops.dropout, tuple(samples), faults=faults)


TABLE: tuple[Row, ...] = (
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
    reduction(ops.sum, empty=True, integer=True),
    reduction(ops.mean, empty=True, integer=False),
    Row(
        ops.max,
        reduction(ops.max, empty=False, integer=True).samples,
        faults=(
            Fault((normal(0, 3),), {"axis": 0}, ShapeError, "nothing to choose from in axes (0,) of shape (0, 3)"),
            Fault((truths(3),), {}, DtypeError, "not bool"),
        ),
    ),
    clone_row(),
    movement(
        ops.reshape,
        "shape",
        [((1,), ()), ((2, 6), (3, -1)), ((4, 5, 6), (120,)), ((0, 3), (3, 0))],
        (
            Fault((normal(2, 3),), {"shape": (4,)}, ShapeError, "(2, 3) has 6 elements, (4,) has 4"),
            Fault((normal(2, 3),), {"shape": (-1, -1)}, ShapeError, "only one extent may be -1"),
            Fault((normal(2, 3),), {"shape": (4, -1)}, ShapeError, "do not fill"),
        ),
    ),
    movement(
        ops.permute_dims,
        "axes",
        [
            ((1,), (0,)),
            ((2, 3), (1, 0)),
            ((2, 3, 4), (2, 0, 1)),
            ((2, 3, 4, 5), (3, 1, -2, 0)),
            ((0, 3), (1, 0)),
            ((70, 90), (1, 0)),
        ],
        (
            Fault((normal(2, 3),), {"axes": (0, 0)}, ShapeError, "not an order of 2 dimensions"),
            Fault((normal(2, 3),), {"axes": (0, 2)}, ShapeError, "axis 2 is out of range"),
        ),
    ),
    movement(
        ops.broadcast_to,
        "shape",
        [((1,), (1,)), ((3,), (4, 3)), ((2, 1), (5, 2, 3)), ((), (2, 2)), ((1, 3), (0, 3)), ((1, 90), (70, 90))],
        (
            Fault((normal(2, 3),), {"shape": (2, 4)}, ShapeError, "broadcast_to: shapes do not broadcast"),
            Fault((normal(2, 3),), {"shape": (3,)}, ShapeError, "(2, 3) does not broadcast to (3,)"),
        ),
    ),
    matmul_row(),
    linear_row(),
    softmax_row(ops.softmax),
    softmax_row(ops.log_softmax),
    cross_entropy_row(),
    dropout_row(),
)


def on(device: gb.Device, inputs: tuple[Any, ...]) -> list[Any]:
    """The inputs of a sample as arrays of ``device``; numbers and None stay."""
    return [gb.array(x, device=device) if isinstance(x, np.ndarray) else x for x in inputs]
