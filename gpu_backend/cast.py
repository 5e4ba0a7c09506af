"""Elements in another type: what ops do before and after themselves so that operands of several types meet."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .array import Array, allocate, from_host
from .spec import DType, Scalar, as_scalar, bool_, float16, float32, result_type


def cast(x: Array, goal: DType) -> Array:
    """The nearest values of another type, as a new array; ``x`` itself if it has that type.

    float32 to an integer cuts towards zero, stops at the ends of the range and makes 0 of NaN; to float16 it rounds to
    the nearest. Anything to bool is "not zero"; integers keep their bits.
    """
    if x.dtype is goal:
        return x
    device = x.device
    with device.lock:
        if device.is_host:
            return from_host(device, cast_host(x.host(), goal), goal, "astype")
        if x.dtype is float16:
            return cast(_halves(x, "widen", float32), goal)
        if goal is float16:
            return _halves(cast(x, float32), "narrow", float16)
        y = allocate(x.shape, goal, device, "astype")
        kernel = device.kernel("cast", "forward", _prelude(x.dtype, goal), (), f"astype.forward[{x.dtype} to {goal}]")
        device.recorder.record_over(kernel, -(-x.size // 4), x=x, y=y, size=x.size)
        return y


def _halves(x: Array, entry: str, goal: DType) -> Array:
    y = allocate(x.shape, goal, x.device, "astype")
    arrays = {"words": x, "y": y} if entry == "widen" else {"x": x, "y_words": y}
    kernel = x.device.kernel("half", entry, "", (), f"astype.{entry}")
    x.device.recorder.record_over(kernel, -(-x.size // 2), size=x.size, **arrays)
    return y


def cast_host(x: npt.NDArray[Any], goal: DType) -> npt.NDArray[Any]:
    """The twin of ``cast``; float64 stays where the goal is float32, for oracles."""
    if x.dtype.kind == "f" and goal.is_integer:
        limits: Any = np.iinfo(goal.name)
        whole: Any = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=limits.max, neginf=limits.min))
        return np.asarray(np.clip(whole, limits.min, limits.max), goal.numpy)
    if goal is bool_:
        return np.asarray(x != 0)
    with np.errstate(over="ignore"):
        return x.astype(np.float64 if x.dtype == np.float64 and goal is float32 else goal.numpy)


@lru_cache(maxsize=64)
def _prelude(source: DType, goal: DType) -> str:
    family = "" if goal in (bool_, float32) else "float32_" if source.is_float else "integer_"
    return (
        f"alias source = {source.wgsl};\nalias goal = {goal.wgsl};\n"
        f"fn convert(x: source) -> goal {{ return {family}to_{goal}(x); }}\n"
    )


def meet(op: str, promotion: str, operands: tuple[Any, ...]) -> tuple[Array | Scalar, ...]:
    """``operands``, arrays and numbers, in their common element type; with ``promotion`` "float" integers are floats.

    A number stays one and takes the type of the arrays.
    """
    goal = common(op, promotion, operands)
    return tuple(cast(x, goal) if isinstance(x, Array) else as_scalar(op, x, goal) for x in operands)


def common(op: str, promotion: str, operands: tuple[Any, ...]) -> DType:
    """The element type in which ``operands`` meet."""
    goal = result_type(op, *operands)
    return float32 if promotion == "float" and not goal.is_float else goal
