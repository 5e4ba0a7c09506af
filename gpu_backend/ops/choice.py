"""Choice between elements: where, masked_fill; and lerp and addcmul, functions of three operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Operand, Saved, require_float
from ..spec import HasSpec, Scalar, Shape, Spec, bool_, broadcast_strides, float32
from .broadcast import label, walk
from .creation import number_bits
from .elementwise import broadcast_spec, common_type, shape_of
from .reduction import sum_to, sum_to_host

__all__ = ["addcmul", "lerp", "masked_fill", "where"]


def where_spec(condition: HasSpec, a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
    """y = a where the condition holds, else b, broadcast; da = dy where it holds, else 0, summed to the shape of a.

    The condition is bool; a or b may be a number. NaN keeps its bits.
    """
    if getattr(condition, "dtype", None) is not bool_:
        raise DtypeError(f"where: the condition is bool, not {getattr(condition, 'dtype', condition)}")
    if isinstance(a, bool | int | float) and isinstance(b, bool | int | float):
        raise DtypeError("where: at least one of the two choices must be an array; full() makes one")
    return broadcast_spec("where", common_type("where", a, b), condition, a, b)


def where_host_forward(condition: HostArray, a: Any, b: Any) -> tuple[HostArray, Saved]:
    array = a if isinstance(a, np.ndarray) else b
    y = np.where(condition, np.asarray(a, array.dtype), np.asarray(b, array.dtype))
    return y, (condition, shape_of(a), shape_of(b))


def where_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    condition, a_shape, b_shape = saved
    zero = dy.dtype.type(0)
    da = sum_to_host(np.where(condition, dy, zero), a_shape) if needs[1] else None
    db = sum_to_host(np.where(condition, zero, dy), b_shape) if needs[2] else None
    return None, da, db


def where_forward(out: Spec, condition: Array, a: Operand, b: Operand) -> tuple[Array, Saved]:
    return _choose(out, condition, a, b), (condition, shape_of(a), shape_of(b))


def where_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    condition, a_shape, b_shape = saved
    out = Spec(dy.shape, dy.dtype)
    da = sum_to(_choose(out, condition, dy, 0.0), a_shape) if needs[1] else None
    db = sum_to(_choose(out, condition, 0.0, dy), b_shape) if needs[2] else None
    return None, da, db


where = Op(
    "where",
    where_spec,
    where_host_forward,
    where_forward,
    where_host_backward,
    where_backward,
    promotion="common",
    promoted_from=1,
)


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


def masked_fill_spec(x: HasSpec, mask: HasSpec, value: Scalar) -> Spec:
    """y = value where the mask holds, else x, broadcast; dx = dy where the mask does not hold, else 0.

    The mask is bool; the value is a number, infinite or NaN too. Nothing flows to the value.
    """
    if getattr(mask, "dtype", None) is not bool_:
        raise DtypeError(f"masked_fill: the mask is bool, not {getattr(mask, 'dtype', mask)}")
    if not isinstance(value, bool | int | float):
        raise DtypeError(f"masked_fill: the value is a number, not {type(value).__name__}; where() takes an array")
    return broadcast_spec("masked_fill", common_type("masked_fill", x, value), mask, x)


def masked_fill_host_forward(x: HostArray, mask: HostArray, value: Scalar) -> tuple[HostArray, Saved]:
    return np.where(mask, np.asarray(value, x.dtype), x), (mask, x.shape)


def masked_fill_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    mask, shape = saved
    return sum_to_host(np.where(mask, dy.dtype.type(0), dy), shape), None


def masked_fill_forward(out: Spec, x: Array, mask: Array, value: Scalar) -> tuple[Array, Saved]:
    return _choose(out, mask, value, x), (mask, x.shape)


def masked_fill_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    mask, shape = saved
    return sum_to(_choose(Spec(dy.shape, dy.dtype), mask, 0.0, dy), shape), None


masked_fill = Op(
    "masked_fill",
    masked_fill_spec,
    masked_fill_host_forward,
    masked_fill_forward,
    masked_fill_host_backward,
    masked_fill_backward,
)


# Functions of three operands.


@lru_cache(maxsize=8)
def _ternary_prelude(name: str) -> str:
    lines = [
        f"fn {function}(p: f32, q: f32, r: f32) -> f32 {{ return {name}_{function}(p, q, r); }}"
        for function in ("value", "first", "second", "third")
    ]
    return "\n".join(lines) + "\n"


def _record_ternary(
    name: str, entry: str, shape: Shape, operands: Sequence[Operand], dy: Array | None, constant: float
) -> Array:
    """An entry point of ternary.wgsl on three operands, arrays or numbers."""
    array = next(x for x in operands if isinstance(x, Array))
    y = allocate(shape, float32, array.device, name)
    strides = tuple(broadcast_strides(x.shape, shape) if isinstance(x, Array) else (0,) * len(shape) for x in operands)
    rank, extents, steps = walk(name, shape, strides)
    arguments: dict[str, Any] = {} if dy is None else {"dy": dy}
    for place, x, step in zip("abc", operands, steps, strict=True):
        arguments[place] = x if isinstance(x, Array) else array
        arguments[f"{place}_strides"] = step
        arguments[f"{place}_is_number"] = not isinstance(x, Array)
        arguments[f"{place}_number"] = 0.0 if isinstance(x, Array) else float(x)
    kernel = array.device.kernel("ternary", entry, _ternary_prelude(name), (), label(name, entry, float32))
    array.device.recorder.record_over(
        kernel, y.size, y=y, shape=extents, size=y.size, rank=rank, constant=constant, **arguments
    )
    return y


def _ternary_backward(name: str, dy: Array, operands: Saved, needs: Needs, constant: float) -> Gradients:
    entries = ("first_backward", "second_backward", "third_backward")
    return tuple(
        sum_to(_record_ternary(name, entry, dy.shape, operands, dy, constant), shape_of(x)) if need else None
        for entry, x, need in zip(entries, operands, needs, strict=True)
    )


def _ternary_spec(name: str, *operands: HasSpec | Scalar) -> Spec:
    require_float(name, *operands)
    return broadcast_spec(name, common_type(name, *operands), *operands)


def lerp_spec(a: HasSpec | Scalar, b: HasSpec | Scalar, weight: HasSpec | Scalar) -> Spec:
    """y = a + weight (b - a), broadcast; da = (1 - weight) dy, db = weight dy, dweight = (b - a) dy,
    summed to the shapes.

    Reckoned from b where the weight is at least 1/2, so that weights 0 and 1 give the ends exactly. Any of the three
    may be a number.
    """
    return _ternary_spec("lerp", a, b, weight)


def lerp_host_forward(a: Any, b: Any, weight: Any) -> tuple[HostArray, Saved]:
    dtype = next(x.dtype for x in (a, b, weight) if isinstance(x, np.ndarray))
    p, q, r = (np.asarray(x, dtype) for x in (a, b, weight))
    return np.where(r < 0.5, p + r * (q - p), q - (q - p) * (1 - r)), (a, b, weight)


def lerp_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    a, b, weight = (np.asarray(x, dy.dtype) for x in saved)
    slopes = (1 - weight, weight, b - a)
    return tuple(
        sum_to_host(np.asarray(dy * slope), shape_of(x)) if need else None
        for slope, x, need in zip(slopes, saved, needs, strict=True)
    )


def lerp_forward(out: Spec, a: Operand, b: Operand, weight: Operand) -> tuple[Array, Saved]:
    return _record_ternary("lerp", "forward", out.shape, (a, b, weight), None, 0.0), (a, b, weight)


def lerp_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return _ternary_backward("lerp", dy, saved, needs, 0.0)


lerp = Op("lerp", lerp_spec, lerp_host_forward, lerp_forward, lerp_host_backward, lerp_backward, promotion="float")


def addcmul_spec(x: HasSpec | Scalar, a: HasSpec | Scalar, b: HasSpec | Scalar, value: float = 1.0) -> Spec:
    """y = x + value a b, broadcast; dx = dy, da = value b dy, db = value a dy, summed to the shapes."""
    if not isinstance(value, int | float):
        raise DtypeError(f"addcmul: the value is a number, not {type(value).__name__}")
    return _ternary_spec("addcmul", x, a, b)


def addcmul_host_forward(x: Any, a: Any, b: Any, value: float = 1.0) -> tuple[HostArray, Saved]:
    dtype = next(operand.dtype for operand in (x, a, b) if isinstance(operand, np.ndarray))
    p, q, r = (np.asarray(operand, dtype) for operand in (x, a, b))
    return np.asarray(p + dtype.type(value) * q * r), (x, a, b, value)


def addcmul_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    *operands, value = saved
    a, b = (np.asarray(operand, dy.dtype) for operand in operands[1:])
    factor = dy.dtype.type(value)
    made = (dy, dy * factor * b, dy * factor * a)
    return tuple(
        sum_to_host(np.asarray(dx), shape_of(x)) if need else None
        for dx, x, need in zip(made, operands, needs, strict=True)
    )


def addcmul_forward(out: Spec, x: Operand, a: Operand, b: Operand, value: float = 1.0) -> tuple[Array, Saved]:
    return _record_ternary("addcmul", "forward", out.shape, (x, a, b), None, value), (x, a, b, value)


def addcmul_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return _ternary_backward("addcmul", dy, saved[:3], needs, saved[3])


addcmul = Op(
    "addcmul",
    addcmul_spec,
    addcmul_host_forward,
    addcmul_forward,
    addcmul_host_backward,
    addcmul_backward,
    promotion="float",
)
