"""The product of stacks of matrices, by the kernel that suits the device."""

from __future__ import annotations

from functools import lru_cache

from ..array import Array, allocate
from ..spec import Shape, broadcast_shapes, broadcast_strides, contiguous_strides, float32, size_of
from .activation import ACTIVATIONS
from .binary import add
from .broadcast import gather
from .reduction import reduce_axes

FILES = {"blocked": "matmul", "tiled": "matmul_tiled"}
SIDE = 64  # of what a workgroup makes of y, in either

# Reading a transposed right operand down its columns costs the blocked kernel about as much as the product itself; from
# this many rows of the left operand on, a transposed copy is cheaper (benchmarks/matmul.py prints the measurement). The
# tiled kernel reads either way equally well.
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
    M, K = matrix(a.shape, a_transposed)
    N = matrix(b.shape, b_transposed)[1]
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
    kind = a.device.matmul_kernel
    if b_transposed and kind == "blocked" and M >= ROWS_WORTH_A_TRANSPOSED_COPY:
        b, b_transposed = _transposed(b), False
    constants = (
        ("a_transposed", a_transposed),
        ("b_transposed", b_transposed),
        ("a_packed", a_transposed and M % 4 == 0),
        ("b_packed", not b_transposed and N % 4 == 0),
    )
    entry = "bias_forward" if whole and bias is not None else "forward"
    prelude = _prelude(activation if whole else "identity")
    kernel = a.device.kernel(FILES[kind], entry, prelude, constants, f"{name}.{entry}[f32]")
    row_groups, column_groups = -(-M // SIDE), -(-N // SIDE)
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


def matrix(shape: Shape, transposed: bool) -> tuple[int, int]:
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
