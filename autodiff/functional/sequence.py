"""Functions of sequence models: embedding, take, rotary embedding, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpu_backend import Array, Device, DtypeError, ShapeError, array, ops
from gpu_backend.capture import paused
from gpu_backend.composite import taken
from gpu_backend.ops.sequence import check_indices
from gpu_backend.ops.update import persist
from gpu_backend.spec import bool_, normalize_axis

from ..tensor import Tensor, apply, tensor
from .binary import add, multiply
from .choice import where
from .linear_algebra import matmul
from .logic import greater
from .normalization import softmax
from .random import dropout

KEPT_MASKS = 8


def embedding(ids: Any, table: Tensor) -> Tensor:
    """table[ids]: rows of a table (V, D), for ids of any shape: int32 tensors, or what numpy understands as integers.

    Negative ids count from the end. IndexError for one outside -V .. V-1: at once if it comes from the host, at the
    next read-back if it lives on a device. The gradient of the table is dense; ids that occur twice add up, in a fixed
    order.
    """
    return apply(ops.embedding, _indices("embedding", ids, table, 0), table)


def take(x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    """Slices of x by index along ``axis``, which the dimensions of ``indices`` replace; the rules are those of
    ``embedding``."""
    place = normalize_axis("take", axis, x.ndim)
    return taken(x, _indices("take", indices, x, place), place)


def _indices(name: str, given: Any, x: Tensor, axis: int) -> Tensor:
    """Indices into a dimension of x as a tensor, checked if they come from the host."""
    if isinstance(given, Tensor):
        return given
    indices = np.asarray(given)
    if indices.dtype.kind not in "iu" and indices.size:
        raise DtypeError(f"{name}: indices are integers, not {indices.dtype}")
    if x.ndim > axis:
        check_indices(name, indices, x.shape[axis])
    return tensor(indices.astype(np.int32), device=x.device)


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Turn pairs of elements of x (..., T, D) by angles that grow with the position, from ``rotary_tables``.

    A pair is the elements i and i + D / 2, or, ``interleaved``, 2 i and 2 i + 1. Su et al., RoFormer, 2021.
    """
    return apply(ops.rotary_embedding, x, cos, sin, interleaved=interleaved)


def rotary_tables(
    T: int, D: int, base: float = 10000.0, start: int = 0, device: str | Device | None = None
) -> tuple[Tensor, Tensor]:
    """cos and sin, (T, D / 2), of the angles t base^(-2 i / D), t from ``start`` on; made on the host in float64."""
    if D < 2 or D % 2:
        raise ShapeError(f"rotary_tables: D is even and positive, not {D}")
    positions = np.arange(start, start + T, dtype=np.float64)
    angles = positions[:, None] * base ** (-2.0 * np.arange(D // 2) / D)
    return tensor(np.cos(angles), device=device), tensor(np.sin(angles), device=device)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale query key^T) value: query (..., T, D), key (..., S, D), value (..., S, E).

    ``scale`` is 1 / sqrt(D) unless given. ``attn_mask``, broadcast to (..., T, S): bool, true where attention is
    allowed, or float32, added to the scores, of which -inf forbids. ``is_causal``: position t attends to 0 .. t. With
    both, both must allow. A position that may attend to nothing gives 0, and a gradient of 0, where softmax alone would
    give NaN. ``dropout_p`` applies to the probabilities, whenever it is not 0.
    """
    name = "scaled_dot_product_attention"
    for x in (query, key, value):
        if x.ndim < 2:
            raise ShapeError(f"{name}: query, key and value have shape (..., T, D), not {x.shape}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = f"{query.shape}, {key.shape} and {value.shape}"
        raise ShapeError(f"{name}: query (..., T, D), key (..., S, D), value (..., S, E), not {shapes}")
    scale = (1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0) if scale is None else scale
    scores = matmul(multiply(query, float(scale)), key, transpose_b=True)
    allowed = _causal_mask(query.shape[-2], key.shape[-2], query.device) if is_causal else None
    if attn_mask is not None:
        mask = attn_mask if isinstance(attn_mask, Tensor) else tensor(attn_mask, device=query.device)
        if mask.dtype is not bool_ and not mask.dtype.is_float:
            raise DtypeError(f"{name}: a mask is bool or float32, not {mask.dtype}; convert with astype")
        if mask.dtype.is_float:
            scores, mask = add(scores, mask), greater(mask, -math.inf)
        allowed = mask if allowed is None else where(allowed, mask, False)
    weights = softmax(scores if allowed is None else where(allowed, scores, -math.inf))
    if attn_mask is not None and allowed is not None:  # a row without any allowed position is NaN; here it becomes 0
        weights = where(allowed, weights, 0.0)
    return matmul(dropout(weights, dropout_p), value)


def _causal_mask(T: int, S: int, device: Device) -> Tensor:
    """bool (T, S), true on and below the diagonal. The device keeps the latest few."""
    with device.lock:
        masks: dict[tuple[int, int], Array] = device.constants.setdefault("causal masks", {})
        made = masks.pop((T, S), None)
        if made is None:
            with paused():
                made = persist(array(np.tri(T, S, dtype=np.bool_), device=device), "causal mask")
        masks[T, S] = made
        while len(masks) > KEPT_MASKS:
            del masks[next(iter(masks))]
    return Tensor(made)
