"""Change of element type: astype."""

from __future__ import annotations

from ..array import Array
from ..cast import cast, cast_host
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved
from ..spec import DTYPES, DTypeLike, HasSpec, Spec, as_dtype, float32
from .update import copy

__all__ = ["astype"]


def astype_spec(x: HasSpec, dtype: DTypeLike) -> Spec:
    """The nearest value of another type; dx = dy between floats, and no gradient otherwise.

    float32 to an integer cuts towards zero, stops at the ends of the range and makes 0 of NaN; to float16 it rounds to
    the nearest, of two the even one; anything to bool is "not zero"; integers keep their bits.
    """
    return Spec(x.shape, as_dtype(dtype))


def astype_host_forward(x: HostArray, dtype: DTypeLike) -> tuple[HostArray, Saved]:
    goal = as_dtype(dtype)
    y = cast_host(x, goal)
    return (y.copy() if y is x else y), (next((d for d in DTYPES if d.numpy == x.dtype), float32),)


def astype_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return (cast_host(dy, saved[0]),)


def astype_forward(out: Spec, x: Array, dtype: DTypeLike) -> tuple[Array, Saved]:
    y = cast(x, out.dtype)
    return (copy(x) if y is x else y), (x.dtype,)


def astype_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return (cast(dy, saved[0]),)


astype = Op(
    "astype",
    astype_spec,
    astype_host_forward,
    astype_forward,
    astype_host_backward,
    astype_backward,
    typeless=True,
)
