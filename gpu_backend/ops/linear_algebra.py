"""Matrix products: matmul, and linear with bias and activation in the epilogue."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, broadcast_shapes, broadcast_strides, contiguous_strides, float32, size_of
from .activation import ACTIVATIONS
from .binary import add
from .broadcast import gather
from .reduction import reduce_axes, sum_to, sum_to_host

__all__ = ["linear", "matmul"]

TILE = 8
WORKGROUP_ROWS = WORKGROUP_COLUMNS = 8

# Reading a transposed right operand down its columns costs about as much as the product itself; from this many rows of
# the left operand on, a transposed copy is cheaper (benchmarks/matmul.py prints the measurement).
ROWS_WORTH_A_TRANSPOSED_COPY = 64


# A longer K is cut into parts: small terms are not swallowed, and lavapipe of Mesa 22.3.6, which leaves all loops of an
# invocation after 65,535 rounds without a word, computes the whole sum.
LONGEST_K = 16384


@lru_cache(maxsize=16)
def _prelude(activation: str) -> str:
    return f"fn activate(x: f32) -> f32 {{ return {activation}_value(x); }}\n"


def product(
    name: str,
    a: Array,
    b: Array,
    a_transposed: bool = False,
    b_transposed: bool = False,
    bias: Array | None = None,
    activation: str = "identity",
) -> Array:
    """activation(a' b' + bias) of stacks of matrices; a' is ``a`` or its transpose, b' likewise.

    The stacking dimensions broadcast. ``bias`` has one element per column. One dispatch, unless K is long
    or the work budget asks for more.
    """
    M, K = _matrix(a.shape, a_transposed)
    N = _matrix(b.shape, b_transposed)[1]
    batch = broadcast_shapes(name, a.shape[:-2], b.shape[:-2])
    out = (*batch, M, N)
    parts = -(-K // LONGEST_K) or 1
    whole = parts == 1
    y = allocate(out if whole else (parts, *out), float32, a.device, name)  # first: too large raises before any record
    if size_of(b.shape[:-2]) == 1 and not a_transposed:
        M *= size_of(a.shape[:-2])  # one matrix on the right: the stack on the left is one tall matrix
        batches, a_stride, b_stride = size_of(batch) // (size_of(a.shape[:-2]) or 1), 0, 0
    else:
        a, b = _stacked(a, batch), _stacked(b, batch)
        batches = size_of(batch)
        a_stride = 0 if size_of(a.shape[:-2]) == 1 else M * K
        b_stride = 0 if size_of(b.shape[:-2]) == 1 else K * N
    if b_transposed and M >= ROWS_WORTH_A_TRANSPOSED_COPY:
        b, b_transposed = _transposed(b), False
    constants = (
        ("a_transposed", a_transposed),
        ("b_transposed", b_transposed),
        ("a_packed", a_transposed and M % 4 == 0),
        ("b_packed", not b_transposed and N % 4 == 0),
    )
    entry = "bias_forward" if whole and bias is not None else "forward"
    prelude = _prelude(activation if whole else "identity")
    kernel = a.device.kernel("matmul", entry, prelude, constants, f"{name}.{entry}[f32]")
    row_groups = -(-M // (TILE * WORKGROUP_ROWS))
    column_groups = -(-N // (TILE * WORKGROUP_COLUMNS))
    arrays = {"a": a, "b": b, "y": y} | ({"bias": bias} if entry == "bias_forward" else {})
    a.device.recorder.record_parts(
        kernel,
        parts * batches * row_groups * column_groups,
        batches * M * N * K,
        M=M,
        N=N,
        K=K,
        batches=batches,
        parts=parts,
        k_chunk=LONGEST_K,
        a_stride=a_stride,
        b_stride=b_stride,
        row_groups=row_groups,
        column_groups=column_groups,
        **arrays,
    )
    if whole:
        return y
    y = reduce_axes(name, "sum", y, (0,), out)
    y = y if bias is None else add(y, bias)
    return y if activation == "identity" else ACTIVATIONS[activation](y)


def _matrix(shape: Shape, transposed: bool) -> tuple[int, int]:
    """Rows and columns of the operand as it enters the product."""
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _stacked(x: Array, batch: Shape) -> Array:
    """``x`` with the stacking dimensions ``batch``, or with one matrix that serves the whole stack."""
    if size_of(x.shape[:-2]) == 1 or x.shape[:-2] == batch or size_of(x.shape[:-2]) == size_of(batch):
        return x
    shape = batch + x.shape[-2:]
    return gather("matmul", x, shape, broadcast_strides(x.shape, shape))


def _transposed(x: Array) -> Array:
    strides = contiguous_strides(x.shape)
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return gather("matmul", x, shape, (*strides[:-2], strides[-1], strides[-2]))


def _rows(x: Array) -> Array:
    """The same memory as one matrix."""
    return x.reshape(size_of(x.shape[:-1]), x.shape[-1])


def _host(x: HostArray, transposed: bool) -> HostArray:
    return np.swapaxes(x, -1, -2) if transposed else x


def matmul_spec(a: HasSpec, b: HasSpec, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
    """y = a' b' of (..., M, K) and (..., K, N), float32; a' is a or, with ``transpose_a``, its transpose, b' likewise.

    The leading dimensions broadcast. da' = dy b'^T and db' = a'^T dy, each summed over what was broadcast.
    ShapeError if the inner extents differ, or an operand has fewer than two dimensions.
    """
    if isinstance(a, int | float) or isinstance(b, int | float):
        raise ShapeError("matmul: operands are matrices, not numbers; multiply scales")
    require_float("matmul", a, b)
    for x in (a, b):
        if len(x.shape) < 2:
            raise ShapeError(f"matmul: operands have at least two dimensions, not shape {x.shape}; reshape it")
    M, K = _matrix(a.shape, transpose_a)
    inner, N = _matrix(b.shape, transpose_b)
    if inner != K:
        turned = [name for name, flag in (("a", transpose_a), ("b", transpose_b)) if flag]
        how = f" with {' and '.join(turned)} transposed" if turned else ""
        raise ShapeError(f"matmul: inner dimensions differ: {a.shape} @ {b.shape}{how}")
    return Spec((*broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2]), M, N), float32)


def matmul_host_forward(
    a: HostArray, b: HostArray, transpose_a: bool = False, transpose_b: bool = False
) -> tuple[HostArray, Saved]:
    return np.matmul(_host(a, transpose_a), _host(b, transpose_b)), (a, b, transpose_a, transpose_b)


def matmul_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    a, b, transpose_a, transpose_b = saved
    da = db = None
    if needs[0]:
        da = _host(np.matmul(dy, _host(_host(b, transpose_b), True)), transpose_a)
        da = sum_to_host(np.ascontiguousarray(da), a.shape)
    if needs[1]:
        db = _host(np.matmul(_host(_host(a, transpose_a), True), dy), transpose_b)
        db = sum_to_host(np.ascontiguousarray(db), b.shape)
    return da, db


def matmul_forward(
    out: Spec, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False
) -> tuple[Array, Saved]:
    y = product("matmul", a, b, transpose_a, transpose_b)
    return y, (a, b, transpose_a, transpose_b)


def matmul_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    a, b, transpose_a, transpose_b = saved
    da = db = None
    if needs[0]:
        da = (
            product("matmul", b, dy, transpose_b, True)
            if transpose_a
            else product("matmul", dy, b, False, not transpose_b)
        )
        da = sum_to(da, a.shape)
    if needs[1]:
        db = _right_gradient(dy, a, b, transpose_a, transpose_b)
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
