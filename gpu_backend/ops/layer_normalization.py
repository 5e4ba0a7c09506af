"""layer_norm: rows brought to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, as_shape, float32, size_of
from .broadcast import label
from .reduction import reduce_axes, sum_to_host

__all__ = ["layer_norm"]

CHUNK = 64  # rows whose products one invocation adds up for the gradient of the weight


def layer_norm_spec(
    x: HasSpec,
    weight: HasSpec | None = None,
    bias: HasSpec | None = None,
    normalized_shape: int | Sequence[int] = (),
    eps: float = 1e-5,
) -> Spec:
    """y = xhat weight + bias, xhat = (x - m) / sqrt(v + eps), with mean m and variance v over the last dimensions.

    Those are of ``normalized_shape``, as are weight and bias, either of which may be None. v is divided by the number
    n of elements. Ba, Kiros and Hinton, Layer normalization, 2016. With g = dy weight: dx = (g - mean(g) -
    xhat mean(g xhat)) / sqrt(v + eps), dweight = dy xhat and dbias = dy, both summed over the other dimensions.
    Equal elements give bias, exactly. ShapeError if shapes do not end in ``normalized_shape``.
    """
    require_float("layer_norm", x, weight, bias)
    normalized = as_shape("layer_norm", normalized_shape)
    if not normalized or x.shape[-len(normalized) :] != normalized:
        raise ShapeError(f"layer_norm: the input has shape {x.shape}, which does not end in {normalized}")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != normalized:
            raise ShapeError(f"layer_norm: the {name} has shape {given.shape}, not {normalized}")
    if not eps >= 0:
        raise ValueError(f"layer_norm: eps is 0 or more, not {eps}")
    return Spec(x.shape, float32)


def _rows(shape: Shape, normalized: Shape) -> tuple[int, int]:
    cols = size_of(normalized)
    return (size_of(shape) // cols if cols else 0), cols


def layer_norm_host_forward(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    normalized_shape: Any = (),
    eps: float = 1e-5,
) -> tuple[HostArray, Saved]:
    normalized = as_shape("layer_norm", normalized_shape)
    count, cols = _rows(x.shape, normalized)
    rows = x.reshape(count, cols)
    n = x.dtype.type(cols or 1)
    mean = rows.sum(axis=1, keepdims=True) / n
    rest = (rows - mean).sum(axis=1, keepdims=True) / n
    left = (rows - mean) - rest
    factor = 1 / np.sqrt(np.square(left).sum(axis=1, keepdims=True) / n + x.dtype.type(eps))
    y = (left * factor).reshape(x.shape)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y, (x, weight, np.concatenate([mean, rest, factor], axis=1), normalized)


def layer_norm_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    x, weight, statistics, normalized = saved
    count, cols = _rows(x.shape, normalized)
    mean, rest, factor = statistics.reshape(count, 3, 1).swapaxes(0, 1)
    xhat = ((x.reshape(count, cols) - mean) - rest) * factor
    rows = dy.reshape(count, cols)
    n = x.dtype.type(cols or 1)
    dx = dweight = dbias = None
    if needs[0]:
        g = rows if weight is None else rows * weight.reshape(cols)
        slope = (g * xhat).sum(axis=1, keepdims=True) / n
        dx = ((g - g.sum(axis=1, keepdims=True) / n - xhat * slope) * factor).reshape(x.shape)
    if needs[1]:
        dweight = sum_to_host(rows * xhat, (cols,)).reshape(normalized)
    if needs[2]:
        dbias = np.array(sum_to_host(rows, (cols,)).reshape(normalized))
    return dx, dweight, dbias


@lru_cache(maxsize=16)
def _prelude(has_weight: bool, has_bias: bool) -> str:
    return (
        f"fn weight_at(c: u32) -> f32 {{ return {'weight[c]' if has_weight else '1.0'}; }}\n"
        f"fn bias_at(c: u32) -> f32 {{ return {'bias[c]' if has_bias else '0.0'}; }}\n"
    )


def layer_norm_forward(
    out: Spec,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    normalized_shape: Any = (),
    eps: float = 1e-5,
) -> tuple[Array, Saved]:
    normalized = as_shape("layer_norm", normalized_shape)
    rows, cols = _rows(x.shape, normalized)
    device = x.device
    y = allocate(x.shape, float32, device, "layer_norm")
    statistics = allocate((rows, 3), float32, device, "layer_norm")
    arrays = {"x": x, "y": y, "statistics": statistics}
    arrays |= {"weight": weight} if weight is not None else {}
    arrays |= {"bias": bias} if bias is not None else {}
    prelude = _prelude(weight is not None, bias is not None)
    kernel = device.kernel("layer_norm", "forward", prelude, (), label("layer_norm", "forward", float32))
    device.recorder.record(kernel, rows, rows=rows, cols=cols, chunk=CHUNK, eps=float(eps), **arrays)
    return y, (x, weight, statistics, normalized)


def layer_norm_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    x, weight, statistics, normalized = saved
    rows, cols = _rows(x.shape, normalized)
    device, recorder = x.device, x.device.recorder
    arrays = {"x": x, "dy": dy, "saved_statistics": statistics}
    params = {"rows": rows, "cols": cols, "chunk": CHUNK, "eps": 0.0}
    dx = dweight = dbias = None
    if needs[0]:
        dx = allocate(x.shape, float32, device, "layer_norm")
        given = {"weight": weight} if weight is not None else {}
        prelude = _prelude(weight is not None, False)
        kernel = device.kernel("layer_norm", "backward", prelude, (), label("layer_norm", "backward", float32))
        recorder.record(kernel, rows, dx=dx, **arrays, **given, **params)
    if needs[1]:
        parts = allocate((-(-rows // CHUNK), cols), float32, device, "layer_norm")
        called = label("layer_norm", "weight_backward", float32)
        kernel = device.kernel("layer_norm", "weight_backward", _prelude(False, False), (), called)
        recorder.record_over(kernel, parts.size, dweight_parts=parts, **arrays, **params)
        dweight = reduce_axes("layer_norm", "sum", parts, (0,), normalized)
    if needs[2]:
        dbias = reduce_axes("layer_norm", "sum", dy.reshape(rows, cols), (0,), normalized)
    return dx, dweight, dbias


layer_norm = Op(
    "layer_norm",
    layer_norm_spec,
    layer_norm_host_forward,
    layer_norm_forward,
    layer_norm_host_backward,
    layer_norm_backward,
)
