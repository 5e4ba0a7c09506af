"""Elementwise ops: functions of one array, of two that broadcast, comparisons, where, astype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Operand, Saved, require_float
from ..spec import (
    DType,
    DTypeLike,
    HasSpec,
    Scalar,
    Shape,
    Spec,
    as_dtype,
    as_scalar,
    bool_,
    broadcast_shapes,
    broadcast_strides,
    float32,
    result_type,
)
from .broadcast import label, record_pair, walk
from .movement import number_bits
from .reduction import sum_to, sum_to_host

__all__ = [
    "add",
    "astype",
    "divide",
    "equal",
    "exp",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "log",
    "multiply",
    "negative",
    "not_equal",
    "relu",
    "sigmoid",
    "sqrt",
    "subtract",
    "tanh",
    "where",
]

HostFunction = Callable[[HostArray], HostArray]
HostPair = Callable[[Any, Any], HostArray]


def _shape_of(x: Operand | HasSpec) -> Shape | None:
    return None if isinstance(x, bool | int | float) else x.shape


def _shape_of_host(x: Any) -> Shape | None:
    return x.shape if isinstance(x, np.ndarray) else None


def _broadcast_spec(op: str, dtype: DType, *operands: HasSpec | Scalar) -> Spec:
    shapes = [x.shape for x in operands if not isinstance(x, bool | int | float)]
    return Spec(shapes[0] if all(s == shapes[0] for s in shapes) else broadcast_shapes(op, *shapes), dtype)


# Functions of one array. y = value(x); dx = dy * slope(saved), with x or y saved.


def _unary(name: str, formula: str, value: HostFunction, slope: HostFunction, saves: str) -> Op:
    prelude = (
        f"// uses: lib/scalar\nalias elem = f32;\nalias result = f32;\n"
        f"fn value(x: f32) -> f32 {{ return {name}_value(x); }}\n"
        f"fn slope(v: f32) -> f32 {{ return {name}_slope(v); }}\n"
    )
    forward_label, backward_label = label(name, "forward", float32), label(name, "backward", float32)

    def spec(x: HasSpec) -> Spec:
        require_float(name, x)
        return Spec(x.shape, float32)

    def host_forward(x: HostArray) -> tuple[HostArray, Saved]:
        y = value(x)
        return y, (y if saves == "y" else x,)

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        return (dy * slope(saved[0]),)

    def forward(out: Spec, x: Array) -> tuple[Array, Saved]:
        y = allocate(x.shape, float32, x.device, name)
        kernel = x.device.kernel("unary", "forward", prelude, (), forward_label)
        size = x.size
        x.device.recorder.record_over(kernel, -(-size // 4), x=x, y=y, size=size, first=0.0, second=0.0)
        return y, (y if saves == "y" else x,)

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        dx = allocate(dy.shape, float32, dy.device, name)
        kernel = dy.device.kernel("unary", "backward", prelude, (), backward_label)
        size = dy.size
        dy.device.recorder.record_over(
            kernel, -(-size // 4), dy=dy, saved=saved[0], dx=dx, size=size, first=0.0, second=0.0
        )
        return (dx,)

    spec.__doc__ = f"{formula}. Elementwise, float32."
    return Op(name, spec, host_forward, forward, host_backward, backward)


def _sigmoid(x: HostArray) -> HostArray:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1.0 + small), x.dtype)


exp = _unary("exp", "y = e^x; dx = dy y", np.exp, lambda y: y, saves="y")
log = _unary(
    "log", "y = the natural logarithm of x, -inf at 0, NaN below; dx = dy / x", np.log, lambda x: 1.0 / x, saves="x"
)
sqrt = _unary("sqrt", "y = the square root of x, NaN below 0; dx = dy / (2 y)", np.sqrt, lambda y: 0.5 / y, saves="y")
tanh = _unary("tanh", "y = tanh(x); dx = dy (1 - y^2)", np.tanh, lambda y: 1.0 - y * y, saves="y")
sigmoid = _unary("sigmoid", "y = 1 / (1 + e^-x); dx = dy y (1 - y)", _sigmoid, lambda y: y * (1.0 - y), saves="y")
relu = _unary(
    "relu",
    "y = max(x, 0); dx = dy where y > 0, else 0",
    lambda x: np.maximum(x, 0),
    lambda y: ((y > 0) | np.isnan(y)).astype(y.dtype),
    saves="y",
)

# What linear may apply to its result: functions whose slope is told from y.
ACTIVATIONS = {op.name: op for op in (tanh, sigmoid, relu)}

_negative_float = _unary("negative", "y = -x; dx = -dy", np.negative, lambda x: np.full_like(x, -1), saves="x")


def negative_spec(x: HasSpec) -> Spec:
    """y = -x, for integers 0 - x, which wraps around; dx = -dy."""
    if x.dtype is bool_:
        raise DtypeError("negative: takes numbers, not bool")
    return Spec(x.shape, x.dtype)


def negative_host_forward(x: HostArray) -> tuple[HostArray, Saved]:
    return np.negative(x), ()


def negative_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (np.negative(dy),)


def negative_forward(out: Spec, x: Array) -> tuple[Array, Saved]:
    y = _negative_float(x) if x.dtype.is_float else record_pair("subtract", "forward", out, 0, x)
    return y, ()


def negative_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (_negative_float(dy),)


negative = Op(
    "negative", negative_spec, negative_host_forward, negative_forward, negative_host_backward, negative_backward
)


# Functions of two operands, either of which may be a number. da = dy * df/da summed to the shape of a, db likewise.

Slope = HostPair | Literal[1, -1]


def _binary(name: str, formula: str, value: HostPair, left: Slope, right: Slope) -> Op:
    """``left`` and ``right``, the partial derivatives, are functions of both operands or a constant 1 or -1.

    Where one is a function the operands are saved, and binary.wgsl has it as ``<name>_left`` or ``<name>_right``.
    """
    slopes = (left, right)
    sides = tuple(side for side, slope in zip(("left", "right"), slopes, strict=True) if callable(slope))

    def spec(a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
        out = _broadcast_spec(name, _common_type(name, a, b), a, b)
        if out.dtype is bool_:
            raise DtypeError(f"{name}: takes numbers, not bool; convert with astype")
        return out

    def host_forward(a: Any, b: Any) -> tuple[HostArray, Saved]:
        operands = (a, b) if sides else (None, None)
        return value(a, b), (*operands, _shape_of_host(a), _shape_of_host(b))

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        operands = [np.asarray(x, dy.dtype) for x in saved[:2]] if sides else []

        def one(slope: Slope, shape: Shape | None) -> HostArray:
            return sum_to_host(dy * (slope(*operands) if callable(slope) else slope), shape)

        made = [one(slopes[side], saved[2 + side]) if needs[side] else None for side in (0, 1)]
        return made[0], made[1]

    def forward(out: Spec, a: Operand, b: Operand) -> tuple[Array, Saved]:
        operands = (a, b) if sides else (None, None)
        return record_pair(name, "forward", out, a, b, sides), (*operands, _shape_of(a), _shape_of(b))

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        def one(side: int, slope: Slope, shape: Shape | None) -> Array:
            if callable(slope):
                entry = "right_backward" if side else "left_backward"
                a, b = saved[:2]
                return sum_to(record_pair(name, entry, Spec(dy.shape, float32), a, b, sides, dy), shape)
            return sum_to(dy if slope == 1 else _negative_float(dy), shape)

        made = [one(side, slopes[side], saved[2 + side]) if needs[side] else None for side in (0, 1)]
        return made[0], made[1]

    spec.__doc__ = f"{formula}, each summed to its shape. Broadcast; either operand may be a number."
    return Op(name, spec, host_forward, forward, host_backward, backward)


add = _binary("add", "y = a + b; da = dy, db = dy", np.add, 1, 1)
subtract = _binary("subtract", "y = a - b; da = dy, db = -dy", np.subtract, 1, -1)
multiply = _binary("multiply", "y = a b; da = dy b, db = dy a", np.multiply, lambda a, b: b, lambda a, b: a)
_divide = _binary(
    "divide", "y = a / b; da = dy / b, db = -dy a / b^2", np.divide, lambda a, b: 1.0 / b, lambda a, b: -(a / b) / b
)


def divide_spec(a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
    """y = a / b, float32, broadcast; da = dy / b, db = -dy a / b^2, each summed to its shape."""
    require_float("divide", a, b)
    return _divide.spec(a, b)


divide = replace(_divide, spec=divide_spec)


def _common_type(op: str, a: HasSpec | Scalar, b: HasSpec | Scalar) -> DType:
    """The one element type of two operands; a number takes that of the array."""
    if isinstance(a, bool | int | float):
        a, b = b, a
    assert not isinstance(a, bool | int | float)
    dtype = a.dtype
    if isinstance(b, bool | int | float):
        if result_type(op, a, b) is not dtype:
            raise DtypeError(f"{op}: the number {b!r} does not go with {dtype}; convert the array with astype")
        as_scalar(op, b, dtype)
    elif b.dtype is not dtype:
        raise DtypeError(f"{op}: element types differ: {dtype} and {b.dtype}; convert one with astype")
    return dtype


# Comparisons: bool; no gradient. A comparison with NaN is false, except not_equal, which is true.


def _comparison(name: str, sign: str, value: HostPair) -> Op:
    def spec(a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
        _common_type(name, a, b)
        return _broadcast_spec(name, bool_, a, b)

    def host_forward(a: Any, b: Any) -> tuple[HostArray, Saved]:
        return value(a, b), ()

    def forward(out: Spec, a: Operand, b: Operand) -> tuple[Array, Saved]:
        return record_pair(name, "forward", out, a, b, library="comparison"), ()

    nan = "true" if name == "not_equal" else "false"
    spec.__doc__ = f"a {sign} b as bool, broadcast; {nan} where an operand is NaN. No gradient."
    return Op(name, spec, host_forward, forward)


equal = _comparison("equal", "==", np.equal)
not_equal = _comparison("not_equal", "!=", np.not_equal)
less = _comparison("less", "<", np.less)
less_equal = _comparison("less_equal", "<=", np.less_equal)
greater = _comparison("greater", ">", np.greater)
greater_equal = _comparison("greater_equal", ">=", np.greater_equal)


def where_spec(condition: HasSpec, a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
    """y = a where the condition holds, else b, broadcast; da = dy where it holds, else 0, summed to the shape of a.

    The condition is bool; a or b may be a number. NaN keeps its bits.
    """
    if getattr(condition, "dtype", None) is not bool_:
        raise DtypeError(f"where: the condition is bool, not {getattr(condition, 'dtype', condition)}")
    if isinstance(a, bool | int | float) and isinstance(b, bool | int | float):
        raise DtypeError("where: at least one of the two choices must be an array; full() makes one")
    return _broadcast_spec("where", _common_type("where", a, b), condition, a, b)


def where_host_forward(condition: HostArray, a: Any, b: Any) -> tuple[HostArray, Saved]:
    array = a if isinstance(a, np.ndarray) else b
    y = np.where(condition, np.asarray(a, array.dtype), np.asarray(b, array.dtype))
    return y, (condition, _shape_of_host(a), _shape_of_host(b))


def where_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    condition, a_shape, b_shape = saved
    zero = dy.dtype.type(0)
    da = sum_to_host(np.where(condition, dy, zero), a_shape) if needs[1] else None
    db = sum_to_host(np.where(condition, zero, dy), b_shape) if needs[2] else None
    return None, da, db


def where_forward(out: Spec, condition: Array, a: Operand, b: Operand) -> tuple[Array, Saved]:
    return _choose(out, condition, a, b), (condition, _shape_of(a), _shape_of(b))


def where_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    condition, a_shape, b_shape = saved
    out = Spec(dy.shape, dy.dtype)
    da = sum_to(_choose(out, condition, dy, 0.0), a_shape) if needs[1] else None
    db = sum_to(_choose(out, condition, 0.0, dy), b_shape) if needs[2] else None
    return None, da, db


where = Op("where", where_spec, where_host_forward, where_forward, where_host_backward, where_backward)


def _choose(out: Spec, condition: Array, a: Operand, b: Operand) -> Array:
    device = condition.device
    y = allocate(out.shape, out.dtype, device, "where")
    operands = (condition, a, b)
    strides = tuple(
        broadcast_strides(x.shape, out.shape) if isinstance(x, Array) else (0,) * len(out.shape) for x in operands
    )
    rank, extents, steps = walk("where", out.shape, strides)
    device.recorder.record_over(
        device.kernel("where", "forward", label=label("where", "forward", out.dtype)),
        -(-y.size // 4),
        condition=condition,
        a=a if isinstance(a, Array) else condition,
        b=b if isinstance(b, Array) else condition,
        y=y,
        shape=extents,
        condition_strides=steps[0],
        a_strides=steps[1],
        b_strides=steps[2],
        size=y.size,
        rank=rank,
        a_is_number=not isinstance(a, Array),
        b_is_number=not isinstance(b, Array),
        a_number=0 if isinstance(a, Array) else number_bits(a, out.dtype),
        b_number=0 if isinstance(b, Array) else number_bits(b, out.dtype),
    )
    return y


def astype_spec(x: HasSpec, dtype: DTypeLike) -> Spec:
    """The nearest value of another type; dx = dy between floats, and no gradient otherwise.

    float32 to an integer cuts towards zero, stops at the ends of the range and makes 0 of NaN; anything to bool is "not
    zero"; integers keep their bits.
    """
    return Spec(x.shape, as_dtype(dtype))


def astype_host_forward(x: HostArray, dtype: DTypeLike) -> tuple[HostArray, Saved]:
    goal = as_dtype(dtype)
    if x.dtype.kind == "f" and goal.is_integer:
        limits = np.iinfo(goal.name)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=limits.max, neginf=limits.min))
        return np.clip(whole, limits.min, limits.max).astype(goal.numpy), ()
    if goal is bool_:
        return x != 0, ()
    return x.astype(x.dtype if goal.is_float and x.dtype.kind == "f" else goal.numpy), ()


def astype_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (dy.copy(),)


def astype_forward(out: Spec, x: Array, dtype: DTypeLike) -> tuple[Array, Saved]:
    y = allocate(x.shape, out.dtype, x.device, "astype")
    kernel = x.device.kernel(
        "cast", "forward", _cast_prelude(x.dtype, out.dtype), (), f"astype.forward[{x.dtype} to {out.dtype}]"
    )
    x.device.recorder.record_over(kernel, -(-x.size // 4), x=x, y=y, size=x.size)
    return y, ()


def _cast_prelude(source: DType, goal: DType) -> str:
    family = "" if goal in (bool_, float32) else "float32_" if source.is_float else "integer_"
    function = f"{family}to_{goal}"
    return (
        f"alias source = {source.wgsl};\nalias goal = {goal.wgsl};\n"
        f"fn convert(x: source) -> goal {{ return {function}(x); }}\n"
    )


def astype_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (astype(dy, dtype=float32),)


astype = Op("astype", astype_spec, astype_host_forward, astype_forward, astype_host_backward, astype_backward)
