"""Ops of sequence models: embedding, rotary_embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array, allocate
from ..composite import taken
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, float32, int32, size_of, uint32
from .broadcast import label
from .creation import number_bits
from .reduction import reduce_axes, sum_to_host

__all__ = ["embedding", "rotary_embedding", "take"]

SORTED_BLOCK = 512  # pairs that sort.wgsl sorts in workgroup memory
CHUNK = 1024  # pairs whose gradients are added up before backward, where they are all of one row


def embedding_spec(ids: HasSpec, table: HasSpec) -> Spec:
    """y = table[ids]: rows of a table (V, ...) by ids of any shape, int32, -V .. V - 1; negative ones from the end.

    dtable = in row r the sum of dy[i] over all i with ids[i] = r, in rising order of i: the same bits each time. The
    table has any element type. An id out of range is an IndexError: at once on the host; on an adapter at the next
    read-back, where its row is NaN (0 in integers) and adds nothing to the gradient.
    """
    if not hasattr(ids, "dtype") or ids.dtype is not int32:
        raise DtypeError(f"embedding: ids are int32, not {getattr(ids, 'dtype', ids)}; convert with astype")
    if not getattr(table, "shape", ()):
        raise ShapeError(f"embedding: a table has rows, (V, ...), not shape {getattr(table, 'shape', ())}")
    return Spec((*ids.shape, *table.shape[1:]), table.dtype)


def check_indices(name: str, ids: HostArray, extent: int) -> None:
    """IndexError if an index that comes from the host is outside -extent .. extent - 1."""
    wrong = (ids < -extent) | (ids >= extent)
    if wrong.any():
        raise IndexError(f"{name}: index {int(ids[wrong].flat[0])} is out of range for {extent}")


def embedding_host_forward(ids: HostArray, table: HostArray) -> tuple[HostArray, Saved]:
    check_indices("embedding", ids, len(table))
    return np.array(table[ids]), (ids, table.shape)


def embedding_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    ids, shape = saved
    dtable = np.zeros(shape, np.float64)
    np.add.at(dtable, ids, dy)
    return None, dtable.astype(dy.dtype)


def _record(entry: str, items: int, device: Any, arrays: dict[str, Array], **params: int) -> None:
    """Record an entry point of embedding.wgsl with one invocation for each of so many items."""
    fields = dict.fromkeys(("count", "padded", "rows", "cols", "chunk", "missing", "op"), 0)
    kernel = device.kernel("embedding", entry, label=label("embedding", entry, float32))
    device.recorder.record_over(kernel, items, **arrays, **(fields | params))


def embedding_forward(out: Spec, ids: Array, table: Array) -> tuple[Array, Saved]:
    device = table.device
    y = allocate(out.shape, table.dtype, device, "embedding")
    _record(
        "forward",
        -(-y.size // 4),
        device,
        {"ids": ids, "table": table, "y": y},
        count=ids.size,
        rows=table.shape[0],
        cols=size_of(table.shape[1:]),
        missing=number_bits(float("nan") if table.dtype.is_float else 0, table.dtype),
        op=device.recorder.fault_number("embedding"),
    )
    return y, (ids, table.shape)


def embedding_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    ids, shape = saved
    if not needs[1]:
        return None, None
    device, rows, cols, count = dy.device, shape[0], size_of(shape[1:]), ids.size
    padded = max(SORTED_BLOCK, 1 << (count - 1).bit_length())
    params = {"count": count, "padded": padded, "rows": rows, "cols": cols, "chunk": CHUNK}
    dtable = allocate(shape, float32, device, "embedding")
    pairs = allocate((padded, 2), uint32, device, "embedding")
    starts = allocate((rows + 1,), uint32, device, "embedding")
    parts = allocate((count // CHUNK, cols), float32, device, "embedding")
    _record("begin_pairs", padded, device, {"ids": ids, "made_pairs": pairs}, **params)
    sort_pairs(pairs)
    _record("starts_forward", rows + 1, device, {"pairs": pairs, "made_starts": starts}, **params)
    _record("chunk_sums", parts.size, device, {"dy": dy, "pairs": pairs, "made_parts": parts}, **params)
    arrays = {"dy": dy, "pairs": pairs, "starts": starts, "parts": parts, "dtable": dtable}
    _record("backward", dtable.size, device, arrays, **params)
    return None, dtable


def sort_pairs(pairs: Array) -> None:
    """Sort pairs (n, 2) of uint32, rising, in place; n is a power of two and at least 512."""
    device, count = pairs.device, pairs.shape[0]

    def record(entry: str, size: int, stride: int) -> None:
        kernel = device.kernel("sort", entry, label=label("sort", entry, uint32))
        groups = count // SORTED_BLOCK
        device.recorder.record(kernel, groups, pairs=pairs, count=count, size=size, stride=stride)

    record("blocks", SORTED_BLOCK, 0)
    size = 2 * SORTED_BLOCK
    while size <= count:
        stride = size // 2
        while stride >= SORTED_BLOCK:
            record("exchange", size, stride)
            stride //= 2
        record("merge", size, stride)
        size *= 2


embedding = Op(
    "embedding",
    embedding_spec,
    embedding_host_forward,
    embedding_forward,
    embedding_host_backward,
    embedding_backward,
)


def take(x: Array, indices: Array, axis: int = 0) -> Array:
    """Slices of x by int32 indices of any shape along ``axis``, which their dimensions replace; see ``embedding``."""
    return taken(x, indices, axis)


def rotary_embedding_spec(x: HasSpec, cos: HasSpec, sin: HasSpec, interleaved: bool = False) -> Spec:
    """Pairs (x0, x1) of row t of x (..., T, D) turned by an angle: y0 = x0 cos - x1 sin, y1 = x1 cos + x0 sin.

    cos and sin are tables (T, D / 2), float32. A pair is the elements i and i + D / 2, or, ``interleaved``, 2 i and
    2 i + 1. dx0 = dy0 cos + dy1 sin and dx1 = dy1 cos - dy0 sin, the rotation by minus the angle; dcos = x0 dy0 +
    x1 dy1 and dsin = x0 dy1 - x1 dy0, summed over the leading dimensions. Su et al., RoFormer, 2021.
    """
    require_float("rotary_embedding", x, cos, sin)
    if len(x.shape) < 2 or x.shape[-1] % 2:
        raise ShapeError(f"rotary_embedding: the input has shape (..., T, D) with an even D, not {x.shape}")
    wanted = (x.shape[-2], x.shape[-1] // 2)
    for name, given in (("cos", cos), ("sin", sin)):
        if given.shape != wanted:
            raise ShapeError(
                f"rotary_embedding: {name} has shape {given.shape}, the input {x.shape} wants (T, D / 2), {wanted}"
            )
    return Spec(x.shape, float32)


def _parted(x: HostArray, interleaved: bool) -> tuple[HostArray, HostArray]:
    """Views of the first and of the second element of every pair."""
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def _turned_host(x: HostArray, cos: HostArray, sin: HostArray, interleaved: bool) -> HostArray:
    y = np.empty_like(x)
    (a, b), (c, d) = _parted(x, interleaved), _parted(y, interleaved)
    c[...] = a * cos - b * sin
    d[...] = b * cos + a * sin
    return y


def rotary_embedding_host_forward(
    x: HostArray, cos: HostArray, sin: HostArray, interleaved: bool = False
) -> tuple[HostArray, Saved]:
    return _turned_host(x, cos, sin, interleaved), (x, cos, sin, interleaved)


def rotary_embedding_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, cos, sin, interleaved = saved
    (a, b), (da, db) = _parted(x, interleaved), _parted(dy, interleaved)
    return (
        _turned_host(dy, cos, -sin, interleaved) if needs[0] else None,
        sum_to_host(a * da + b * db, cos.shape) if needs[1] else None,
        sum_to_host(a * db - b * da, sin.shape) if needs[2] else None,
    )


def _layout(shape: Shape, interleaved: bool) -> dict[str, Any]:
    half = shape[-1] // 2
    return {
        "pairs": size_of(shape) // 2,
        "positions": shape[-2],
        "half": half,
        "step": 2 if interleaved else 1,
        "gap": 1 if interleaved else half,
    }


def _turned(x: Array, cos: Array, sin: Array, interleaved: bool, direction: float) -> Array:
    y = allocate(x.shape, float32, x.device, "rotary_embedding")
    kernel = x.device.kernel("rotary", "forward", label=label("rotary_embedding", "forward", float32))
    arrays = {"x": x, "cosines": cos, "sines": sin, "y": y}
    x.device.recorder.record_over(kernel, x.size // 2, direction=direction, **arrays, **_layout(x.shape, interleaved))
    return y


def rotary_embedding_forward(
    out: Spec, x: Array, cos: Array, sin: Array, interleaved: bool = False
) -> tuple[Array, Saved]:
    return _turned(x, cos, sin, interleaved, 1.0), (x, cos, sin, interleaved)


def rotary_embedding_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, cos, sin, interleaved = saved
    dx = _turned(dy, cos, sin, interleaved, -1.0) if needs[0] else None
    if not (needs[1] or needs[2]):
        return dx, None, None
    device = x.device
    shape = (size_of(x.shape[:-2]), *cos.shape)
    dcosines, dsines = (allocate(shape, float32, device, "rotary_embedding") for _ in range(2))
    kernel = device.kernel("rotary", "tables_backward", label=label("rotary_embedding", "tables_backward", float32))
    arrays = {"x": x, "dy": dy, "dcosines": dcosines, "dsines": dsines}
    device.recorder.record_over(kernel, x.size // 2, direction=1.0, **arrays, **_layout(x.shape, interleaved))
    dcos = reduce_axes("rotary_embedding", "sum", dcosines, (0,), cos.shape) if needs[1] else None
    dsin = reduce_axes("rotary_embedding", "sum", dsines, (0,), sin.shape) if needs[2] else None
    return dx, dcos, dsin


rotary_embedding = Op(
    "rotary_embedding",
    rotary_embedding_spec,
    rotary_embedding_host_forward,
    rotary_embedding_forward,
    rotary_embedding_host_backward,
    rotary_embedding_backward,
)
