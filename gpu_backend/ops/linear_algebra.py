"""Matrix products: matmul, and linear with bias and activation in the epilogue."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, broadcast_shapes, float32, size_of
from .activation import ACTIVATIONS
from .matmul_kernels import matrix, product
from .reduction import reduce_axes, sum_to, sum_to_host

__all__ = ["linear", "matmul"]


def _rows(x: Array) -> Array:
    """The same memory as one matrix."""
    return x.reshape(size_of(x.shape[:-1]), x.shape[-1])


def _host(x: HostArray, transposed: bool) -> HostArray:
    return np.swapaxes(x, -1, -2) if transposed else x


def matmul_spec(a: HasSpec, b: HasSpec, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
    """y = a' b' of (..., M, K) and (..., K, N), float32; a' is a or, with ``transpose_a``, its transpose, b' likewise.

    The leading dimensions broadcast. A vector on the left is a row, on the right a column, and y lacks that dimension,
    as in numpy. da' = dy b'^T and db' = a'^T dy, each summed over what was broadcast. ShapeError if the inner extents
    differ, for a number, or for a vector that is to be transposed.
    """
    for x, flag in ((a, transpose_a), (b, transpose_b)):
        if isinstance(x, int | float) or not x.shape:
            raise ShapeError("matmul: operands are vectors or matrices, not numbers; multiply scales")
        if flag and len(x.shape) == 1:
            raise ShapeError(
                f"matmul: a vector, of shape {x.shape}, has no transpose; leave transpose_a, transpose_b off"
            )
    require_float("matmul", a, b)
    left, right = _as_row(a.shape), _as_column(b.shape)
    M, K = matrix(left, transpose_a)
    inner, N = matrix(right, transpose_b)
    if inner != K:
        turned = [name for name, flag in (("a", transpose_a), ("b", transpose_b)) if flag]
        how = f" with {' and '.join(turned)} transposed" if turned else ""
        raise ShapeError(f"matmul: inner dimensions differ: {a.shape} @ {b.shape}{how}")
    batch = broadcast_shapes("matmul", left[:-2], right[:-2])
    return Spec(batch + (M,) * (len(a.shape) > 1) + (N,) * (len(b.shape) > 1), float32)


def _as_row(shape: Shape) -> Shape:
    """The shape of a left operand as matrices: a vector is a row."""
    return (1, *shape) if len(shape) == 1 else shape


def _as_column(shape: Shape) -> Shape:
    """The shape of a right operand as matrices: a vector is a column."""
    return (*shape, 1) if len(shape) == 1 else shape


def _as_matrices(dy: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """dy and the operands, arrays or numpy, with the dimension that a vector lacks."""
    shape = dy.shape if b.ndim > 1 else (*dy.shape, 1)
    shape = shape if a.ndim > 1 else (*shape[:-1], 1, shape[-1])
    return dy.reshape(shape), a.reshape(_as_row(a.shape)), b.reshape(_as_column(b.shape))


def matmul_host_forward(
    a: HostArray, b: HostArray, transpose_a: bool = False, transpose_b: bool = False
) -> tuple[HostArray, Saved]:
    return np.asarray(np.matmul(_host(a, transpose_a), _host(b, transpose_b))), (a, b, transpose_a, transpose_b)


def matmul_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    left, right, transpose_a, transpose_b = saved
    dy, a, b = _as_matrices(dy, left, right)
    da = db = None
    if needs[0]:
        da = _host(np.matmul(dy, _host(_host(b, transpose_b), True)), transpose_a)
        da = sum_to_host(np.ascontiguousarray(da), a.shape).reshape(left.shape)
    if needs[1]:
        db = _host(np.matmul(_host(_host(a, transpose_a), True), dy), transpose_b)
        db = sum_to_host(np.ascontiguousarray(db), b.shape).reshape(right.shape)
    return da, db


def matmul_forward(
    out: Spec, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False
) -> tuple[Array, Saved]:
    left, right = a.reshape(_as_row(a.shape)), b.reshape(_as_column(b.shape))
    y = product("matmul", left, right, transpose_a, transpose_b).reshape(out.shape)
    return y, (a, b, transpose_a, transpose_b)


def matmul_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    left, right, transpose_a, transpose_b = saved
    dy, a, b = _as_matrices(dy, left, right)
    da = db = None
    if needs[0]:
        da = (
            product("matmul", b, dy, transpose_b, True)
            if transpose_a
            else product("matmul", dy, b, False, not transpose_b)
        )
        da = sum_to(da, a.shape).reshape(left.shape)
    if needs[1]:
        db = _right_gradient(dy, a, b, transpose_a, transpose_b).reshape(right.shape)
    return da, db


def _right_gradient(dy: Array, a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    if b.ndim == 2 and not transpose_a and a.shape[:-2] == dy.shape[:-2]:
        a, dy = _rows(a), _rows(dy)  # the stack is summed inside the product
    if transpose_b:
        return sum_to(product("matmul", dy, a, True, transpose_a), b.shape)
    return sum_to(product("matmul", a, dy, not transpose_a, False), b.shape)


matmul = Op(
    "matmul", matmul_spec, matmul_host_forward, matmul_forward, matmul_host_backward, matmul_backward, promotion="float"
)


def linear_spec(x: HasSpec, weight: HasSpec, bias: HasSpec | None = None, activation: str | None = None) -> Spec:
    """y = activation(x weight^T + bias): x (..., K), weight (N, K), bias (N,) or None, y (..., N), float32.

    ``activation`` is None, "relu", "tanh" or "sigmoid". With dz = dy activation'(y): dx = dz weight, dweight = dz^T x,
    dbias = dz summed over rows.
    """
    require_float("linear", x, weight, bias)
    if len(weight.shape) != 2:
        raise ShapeError(f"linear: the weight has shape (out_features, in_features), not {weight.shape}")
    N, K = weight.shape
    if not x.shape or x.shape[-1] != K:
        raise ShapeError(f"linear: the input has shape {x.shape}, the weight {weight.shape} wants (..., {K})")
    if bias is not None and bias.shape != (N,):
        raise ShapeError(f"linear: the bias has shape {bias.shape}, the weight {weight.shape} wants ({N},)")
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"linear: no activation {activation!r}; there are {', '.join(ACTIVATIONS)}")
    return Spec((*x.shape[:-1], N), float32)


def linear_host_forward(
    x: HostArray, weight: HostArray, bias: HostArray | None = None, activation: str | None = None
) -> tuple[HostArray, Saved]:
    z = x @ weight.T
    if bias is not None:
        z = z + bias
    y = z if activation is None else ACTIVATIONS[activation].host_forward(z)[0]
    return y, (x, weight, None if activation is None else y, activation)


def linear_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, weight, y, activation = saved
    dz: Any = dy if activation is None else ACTIVATIONS[activation].host_backward(dy, (y,), (True,))[0]  # type: ignore[misc]
    count = size_of(dz.shape[:-1])
    rows = dz.reshape(count, dz.shape[-1])
    dx = dz @ weight if needs[0] else None
    dweight = rows.T @ x.reshape(count, x.shape[-1]) if needs[1] else None
    dbias = sum_to_host(rows, rows.shape[1:]) if len(needs) > 2 and needs[2] else None
    return dx, dweight, dbias


def linear_forward(
    out: Spec, x: Array, weight: Array, bias: Array | None = None, activation: str | None = None
) -> tuple[Array, Saved]:
    y = product("linear", _rows(x), weight, False, True, bias, activation or "identity").reshape(out.shape)
    return y, (x, weight, None if activation is None else y, activation)


def linear_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, weight, y, activation = saved
    dz = dy if activation is None else ACTIVATIONS[activation].run_backward(dy, (y,), (True,))[0]
    assert dz is not None
    rows, inputs = _rows(dz), _rows(x)
    dx = product("linear", rows, weight).reshape(x.shape) if needs[0] else None
    dweight = product("linear", rows, inputs, True) if needs[1] else None
    dbias = reduce_axes("linear", "sum", rows, (0,), rows.shape[1:]) if len(needs) > 2 and needs[2] else None
    return dx, dweight, dbias


linear = Op("linear", linear_spec, linear_host_forward, linear_forward, linear_host_backward, linear_backward)
