"""Change of element type: astype."""

from __future__ import annotations

import numpy as np

from ..array import Array, allocate
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import DType, DTypeLike, HasSpec, Spec, as_dtype, bool_, float32

__all__ = ["astype"]


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
