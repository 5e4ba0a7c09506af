"""Products of matrices and vectors: matmul; linear, with bias and activation in one kernel; vecdot, outer, bilinear."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, broadcast_shapes, float32, normalize_axis, reduced_shape, size_of
from .activation import ACTIVATIONS
from .broadcast import record_pair
from .matmul_kernels import matrix, product
from .reduction import reduce_axes, sum_to, sum_to_host

__all__ = ["bilinear", "linear", "matmul", "outer", "vecdot"]


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


def vecdot_spec(a: HasSpec, b: HasSpec, axis: int = -1) -> Spec:
    """y = sum over ``axis`` of a b, float32; the other dimensions broadcast. da = dy b, db = dy a, each summed over
    what was broadcast.

    ``axis`` counts from the end, or from the start where both have as many dimensions. ShapeError for a number, or if
    the extents along it differ.
    """
    if isinstance(a, int | float) or isinstance(b, int | float):
        raise ShapeError("vecdot: operands are vectors or stacks of them, not numbers; multiply scales")
    require_float("vecdot", a, b)
    place = _from_the_end(a.shape, b.shape, axis)
    if a.shape[place] != b.shape[place]:
        raise ShapeError(
            f"vecdot: vectors of {a.shape[place]} and of {b.shape[place]} along axis {axis}: {a.shape} and {b.shape}"
        )
    shape = broadcast_shapes("vecdot", a.shape, b.shape)
    return Spec(reduced_shape(shape, (len(shape) + place,), keepdims=False), float32)


def _from_the_end(a: Shape, b: Shape, axis: int) -> int:
    rank = min(len(a), len(b))
    if axis >= 0 and len(a) != len(b):
        raise ShapeError(f"vecdot: axis {axis} of {a} is not that of {b}; count it from the end, from -{rank} to -1")
    return normalize_axis("vecdot", axis, rank) - rank


def vecdot_host_forward(a: HostArray, b: HostArray, axis: int = -1) -> tuple[HostArray, Saved]:
    place = _from_the_end(a.shape, b.shape, axis)
    return np.asarray((a * b).sum(axis=place, dtype=np.float64), a.dtype), (a, b, place)


def vecdot_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    a, b, place = saved
    spread = np.expand_dims(dy, place)
    da = sum_to_host(spread * b, a.shape) if needs[0] else None
    db = sum_to_host(spread * a, b.shape) if needs[1] else None
    return da, db


def vecdot_forward(out: Spec, a: Array, b: Array, axis: int = -1) -> tuple[Array, Saved]:
    place = _from_the_end(a.shape, b.shape, axis)
    terms = _times("vecdot", a, b)
    return reduce_axes("vecdot", "sum", terms, (terms.ndim + place,), out.shape), (a, b, place)


def vecdot_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    a, b, place = saved
    at = dy.ndim + 1 + place
    spread = dy.reshape(*dy.shape[:at], 1, *dy.shape[at:])
    da = sum_to(_times("vecdot", spread, b), a.shape) if needs[0] else None
    db = sum_to(_times("vecdot", spread, a), b.shape) if needs[1] else None
    return da, db


def _times(name: str, a: Array, b: Array) -> Array:
    """a b, broadcast."""
    return record_pair("multiply", "forward", Spec(broadcast_shapes(name, a.shape, b.shape), float32), a, b)


vecdot = Op(
    "vecdot", vecdot_spec, vecdot_host_forward, vecdot_forward, vecdot_host_backward, vecdot_backward, promotion="float"
)


def outer_spec(a: HasSpec, b: HasSpec) -> Spec:
    """y_ij = a_i b_j of two vectors, float32; da = dy b, db = dy^T a. ShapeError unless both have one dimension."""
    for x in (a, b):
        if isinstance(x, int | float) or len(x.shape) != 1:
            what = "numbers" if isinstance(x, int | float) else f"shape {x.shape}"
            raise ShapeError(f"outer: operands are vectors, of one dimension, not {what}; reshape(-1) makes one")
    require_float("outer", a, b)
    return Spec((*a.shape, *b.shape), float32)


def outer_host_forward(a: HostArray, b: HostArray) -> tuple[HostArray, Saved]:
    return np.outer(a, b), (a, b)


def outer_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    a, b = saved
    return dy @ b if needs[0] else None, dy.T @ a if needs[1] else None


def outer_forward(out: Spec, a: Array, b: Array) -> tuple[Array, Saved]:
    return _times("outer", a.reshape(a.size, 1), b), (a, b)


def outer_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    a, b = saved
    da = product("outer", dy, b.reshape(b.size, 1)).reshape(a.shape) if needs[0] else None
    db = product("outer", a.reshape(1, a.size), dy).reshape(b.shape) if needs[1] else None
    return da, db


outer = Op(
    "outer", outer_spec, outer_host_forward, outer_forward, outer_host_backward, outer_backward, promotion="float"
)


def bilinear_spec(x1: HasSpec, x2: HasSpec, weight: HasSpec, bias: HasSpec | None = None) -> Spec:
    """y_o = x1^T weight_o x2 + bias_o: x1 (..., in1), x2 (..., in2), weight (out, in1, in2), bias (out,) or None.

    y (..., out) is float32. It is a linear layer on the products p_ij = x1_i x2_j, of which memory is taken for in1 in2
    a row. With dp = dy weight: dx1_i = sum_j dp_ij x2_j, dx2_j = sum_i dp_ij x1_i, dweight = dy^T p, dbias = dy summed
    over rows.
    """
    require_float("bilinear", x1, x2, weight, bias)
    if len(weight.shape) != 3:
        raise ShapeError(f"bilinear: the weight has shape (out, in1, in2), not {weight.shape}")
    out, in1, in2 = weight.shape
    if (x1.shape[-1:], x2.shape[-1:]) != ((in1,), (in2,)) or x1.shape[:-1] != x2.shape[:-1]:
        raise ShapeError(
            f"bilinear: the inputs have shapes {x1.shape} and {x2.shape}, the weight {weight.shape} wants "
            f"(..., {in1}) and (..., {in2}) with equal leading dimensions"
        )
    if bias is not None and bias.shape != (out,):
        raise ShapeError(f"bilinear: the bias has shape {bias.shape}, the weight {weight.shape} wants ({out},)")
    return Spec((*x1.shape[:-1], out), float32)


def bilinear_host_forward(
    x1: HostArray, x2: HostArray, weight: HostArray, bias: HostArray | None = None
) -> tuple[HostArray, Saved]:
    y = np.einsum("...i,oij,...j->...o", x1, weight, x2, optimize=True)
    return np.asarray(y if bias is None else y + bias), (x1, x2, weight)


def bilinear_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x1, x2, weight = saved
    rows, left, right = (x.reshape(size_of(x.shape[:-1]), x.shape[-1]) for x in (dy, x1, x2))
    dx1 = np.einsum("no,oij,nj->ni", rows, weight, right, optimize=True).reshape(x1.shape) if needs[0] else None
    dx2 = np.einsum("no,oij,ni->nj", rows, weight, left, optimize=True).reshape(x2.shape) if needs[1] else None
    dweight = np.einsum("no,ni,nj->oij", rows, left, right, optimize=True) if needs[2] else None
    dbias = sum_to_host(rows, rows.shape[1:]) if len(needs) > 3 and needs[3] else None
    return dx1, dx2, dweight, dbias


def bilinear_forward(out: Spec, x1: Array, x2: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Saved]:
    y = product("bilinear", _products(x1, x2), _flat(weight), False, True, bias).reshape(out.shape)
    return y, (x1, x2, weight)


def bilinear_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x1, x2, weight = saved
    rows = _rows(dy)
    in1, in2 = weight.shape[1:]
    dx1 = dx2 = dweight = dbias = None
    if needs[0] or needs[1]:
        dp = product("bilinear", rows, _flat(weight)).reshape(rows.shape[0], in1, in2)
        left, right = x1.reshape(rows.shape[0], in1, 1), x2.reshape(rows.shape[0], 1, in2)
        dx1 = reduce_axes("bilinear", "sum", _times("bilinear", dp, right), (2,), x1.shape) if needs[0] else None
        dx2 = reduce_axes("bilinear", "sum", _times("bilinear", dp, left), (1,), x2.shape) if needs[1] else None
    if needs[2]:
        dweight = product("bilinear", rows, _products(x1, x2), True).reshape(weight.shape)
    if len(needs) > 3 and needs[3]:
        dbias = reduce_axes("bilinear", "sum", rows, (0,), rows.shape[1:])
    return dx1, dx2, dweight, dbias


def _products(x1: Array, x2: Array) -> Array:
    """x1_i x2_j of each row, as a row."""
    left, right = _rows(x1), _rows(x2)
    count, in1, in2 = left.shape[0], left.shape[1], right.shape[1]
    return _times("bilinear", left.reshape(count, in1, 1), right.reshape(count, 1, in2)).reshape(count, in1 * in2)


def _flat(weight: Array) -> Array:
    return weight.reshape(weight.shape[0], weight.shape[1] * weight.shape[2])


bilinear = Op(
    "bilinear", bilinear_spec, bilinear_host_forward, bilinear_forward, bilinear_host_backward, bilinear_backward
)
