"""Convolution and its gradients by the kernel that suits their sizes.

In groups that make fewer than ROWS_WORTH_A_BLOCK channels, depthwise ones above all, by wgsl/depthwise.wgsl; with a
kernel of one tap by matmul; else by wgsl/conv.wgsl and wgsl/conv_weight.wgsl, as a matrix product whose right operand
is read from where it lies. The gradient of a bias is made by wgsl/conv_bias.wgsl.
"""

from __future__ import annotations

from typing import Any

from ..array import Array, allocate
from ..spec import Shape, Spec, contiguous_strides, float32, size_of
from .broadcast import gather, label, record_pair
from .convolution_geometry import Geometry
from .creation import zeros
from .matmul_kernels import LONGEST_K, product
from .reduction import reduce_axes

SIDE = 8  # rows, and columns, of what one invocation makes
SEGMENT = 64  # positions of a line that conv_weight.wgsl reads at a time
ROWS_WORTH_A_BLOCK = 4
POSITIONS_WORTH_A_MATMUL = 64  # fewer leave most of its block empty
# The gradient of a weight is small and its sums are long: they are cut into parts, for so many invocations.
INVOCATIONS = {"software": 512, "hardware": 16384}
SHORTEST_PART = 8  # segments
BIAS_PART = 4096  # positions
LONGEST_PART = 16384  # positions, of which depthwise.wgsl sums one in 64 in a row


def convolve(name: str, g: Geometry, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """y of shape ``g.made_shape``."""
    if not x.size:
        return zeros(g.made_shape, device=x.device)
    if _by_matmul(g):
        rows = product(name, weight.reshape(g.rows, g.terms), x.reshape(g.batch, g.terms, size_of(g.source)))
        return add_bias(name, rows.reshape(g.made_shape), bias)
    return _product(name, g, x, weight, bias, backward=False)


def input_gradient(name: str, g: Geometry, dy: Array, weight: Array) -> Array:
    """dx of shape ``g.source_shape``."""
    if not dy.size:
        return zeros(g.source_shape, device=dy.device)
    if _by_matmul(g):
        rows = dy.reshape(g.batch, g.rows, size_of(g.made))
        return product(name, weight.reshape(g.rows, g.terms), rows, a_transposed=True).reshape(g.source_shape)
    return _product(name, g, dy, weight, None, backward=True)


def weight_gradient(name: str, g: Geometry, x: Array, dy: Array) -> Array:
    """dweight of shape ``g.weight_shape``."""
    if not dy.size or not x.size:
        return zeros(g.weight_shape, device=dy.device)
    device = x.device
    target = INVOCATIONS["software" if device.kind == "software" else "hardware"]
    common: dict[str, Any] = {"x": x, "dy": dy, **extents_of(g, g.source, g.made)}
    if g.rows < ROWS_WORTH_A_BLOCK:
        positions = g.batch * size_of(g.made)
        quads = g.groups * g.rows * g.terms * -(-size_of(g.taps) // 4)  # of taps
        chunk = min(LONGEST_PART, -(-positions * quads // target))
        parts = -(-positions // chunk)
        made = allocate((parts, *g.weight_shape), float32, device, name)
        kernel = device.kernel("depthwise", "weight_backward", label=label(name, "weight_backward", float32))
        common["source"] = common.pop("x")
        device.recorder.record_parts(
            kernel, parts * quads, g.work, dweight_parts=made, rows=g.rows, terms=g.terms, channels=g.groups * g.rows,
            quads=0, items=0, positions=positions, chunk=chunk, parts=parts, groups=g.groups, row_stride=0,
            term_stride=0, source_volume=size_of(g.source), result_volume=size_of(g.made), **common,
        )  # fmt: skip
    else:
        line_segments = -(-g.made[2] // SEGMENT)
        segments = g.batch * g.made[0] * g.made[1] * line_segments
        columns = g.terms * size_of(g.taps)
        blocks = g.groups * -(-g.rows // SIDE) * -(-columns // SIDE)
        chunk = max(-(-segments * blocks // target), SHORTEST_PART)
        chunk = min(chunk, max(LONGEST_PART // min(SEGMENT, g.made[2]), 1))
        parts = -(-segments // chunk)
        made = allocate((parts, *g.weight_shape), float32, device, name)
        kernel = device.kernel("conv_weight", "weight_backward", label=label(name, "weight_backward", float32))
        device.recorder.record_parts(
            kernel, -(-parts * blocks // kernel.invocations), g.work, dweight_parts=made, rows=g.rows, terms=g.terms,
            columns=columns, groups=g.groups, row_blocks=-(-g.rows // SIDE), column_blocks=-(-columns // SIDE),
            segments=segments, line_segments=line_segments, chunk=chunk, parts=parts, source_volume=size_of(g.source),
            **common,
        )  # fmt: skip
    return made.reshape(g.weight_shape) if parts == 1 else reduce_axes(name, "sum", made, (0,), g.weight_shape)


def bias_gradient(name: str, dy: Array) -> Array:
    """dy summed over images and positions: (channels,)."""
    batch, channels = dy.shape[:2]
    volume = size_of(dy.shape[2:])
    if not dy.size:
        return zeros((channels,), device=dy.device)
    if volume > LONGEST_PART:  # planes that want several workgroups each
        sums = reduce_axes(name, "sum", dy.reshape(batch * channels, volume), (1,), (batch, channels))
        return reduce_axes(name, "sum", sums, (0,), (channels,))
    images = max(BIAS_PART // volume, 1)
    parts = -(-batch // images)
    made = allocate((parts, channels), float32, dy.device, name)
    kernel = dy.device.kernel("conv_bias", "bias_backward", label=label(name, "bias_backward", float32))
    sizes = {"batch": batch, "channels": channels, "volume": volume, "images": images, "parts": parts}
    dy.device.recorder.record(kernel, parts * channels, dy=dy, dbias_parts=made, **sizes)
    return made.reshape(channels) if parts == 1 else reduce_axes(name, "sum", made, (0,), (channels,))


def add_bias(name: str, y: Array, bias: Array | None) -> Array:
    """y + bias, one element for each channel."""
    if bias is None or not y.size:
        return y
    wide = bias.reshape(1, bias.size, *(1,) * (y.ndim - 2))
    return record_pair("add", "forward", Spec(y.shape, float32), y, wide)


def _by_matmul(g: Geometry) -> bool:
    return g.is_matmul and size_of(g.made) >= POSITIONS_WORTH_A_MATMUL


def _vector(extents: Shape, last: int = 0) -> Shape:
    """W, H, D and a fourth number, as kernels have them."""
    return (*reversed(extents), last)


def extents_of(g: Geometry, source: Shape, made: Shape) -> dict[str, Shape]:
    """The Params that kernels which read through windows have in common."""
    return {
        "taps": _vector(g.taps, size_of(g.taps)),
        "source_extents": _vector(source),
        "result_extents": _vector(made),
        "stride": _vector(g.stride),
        "pad": _vector(g.pad),
        "dilation": _vector(g.dilation),
    }


def _turned(g: Geometry, backward: bool) -> tuple[int, int, Shape, Shape]:
    """Rows, terms, and the extents of what is read and of what is made, in either direction."""
    return (g.terms, g.rows, g.made, g.source) if backward else (g.rows, g.terms, g.source, g.made)


def _product(name: str, g: Geometry, source: Array, weight: Array, bias: Array | None, *, backward: bool) -> Array:
    """y of the convolution, or ``backward`` dx, by a kernel that reads through windows."""
    rows, terms = _turned(g, backward)[:2]
    if rows < ROWS_WORTH_A_BLOCK and terms * size_of(g.taps) <= LONGEST_K:
        return _few_rows(name, g, source, weight, bias, backward=backward)
    return _blocks(name, g, source, weight, bias, backward=backward)


def _few_rows(name: str, g: Geometry, source: Array, weight: Array, bias: Array | None, *, backward: bool) -> Array:
    rows, terms, read, made = _turned(g, backward)
    result = allocate(g.source_shape if backward else g.made_shape, float32, source.device, name)
    quads = -(-size_of(made) // 4)
    items = g.batch * g.groups * rows * quads
    entry = _entry(bias, backward)
    kernel = source.device.kernel("depthwise", entry, label=label(name, entry, float32))
    source.device.recorder.record_parts(
        kernel, -(-items // kernel.invocations), g.work, source=source, weight=weight, result=result,
        **({} if bias is None else {"bias": bias}), rows=rows, terms=terms, channels=g.groups * rows, quads=quads,
        items=items, positions=0, chunk=0, parts=0, groups=g.groups, row_stride=1 if backward else terms,
        term_stride=rows if backward else 1, source_volume=size_of(read), result_volume=size_of(made),
        **extents_of(g, read, made),
    )  # fmt: skip
    return result


def _blocks(name: str, g: Geometry, source: Array, weight: Array, bias: Array | None, *, backward: bool) -> Array:
    rows, terms, read, made = _turned(g, backward)
    shape = g.source_shape if backward else g.made_shape
    chunk = max(LONGEST_K // size_of(g.taps), 1)
    parts = -(-terms // chunk)
    result = allocate(shape if parts == 1 else (parts, *shape), float32, source.device, name)
    padded_rows = -(-rows // SIDE) * SIDE
    columns = g.batch * size_of(made)
    given = {} if bias is None or parts > 1 else {"bias": bias}
    entry = _entry(given.get("bias"), backward)
    kernel = source.device.kernel("conv", entry, label=label(name, entry, float32))
    row_groups, column_groups = padded_rows // SIDE, -(-columns // (kernel.invocations * SIDE))
    source.device.recorder.record_parts(
        kernel, parts * g.groups * row_groups * column_groups, g.work, source=source,
        arranged=_arranged(name, g, weight, padded_rows, backward), result=result, **given, rows=rows, terms=terms,
        padded_rows=padded_rows, columns=columns, groups=g.groups, row_groups=row_groups, column_groups=column_groups,
        batch=g.batch, parts=parts, chunk=chunk, source_volume=size_of(read), result_volume=size_of(made),
        **extents_of(g, read, made),
    )  # fmt: skip
    return result if parts == 1 else add_bias(name, reduce_axes(name, "sum", result, (0,), shape), bias)


def _entry(bias: Array | None, backward: bool) -> str:
    return "input_backward" if backward else "forward" if bias is None else "bias_forward"


def _arranged(name: str, g: Geometry, weight: Array, padded_rows: int, backward: bool) -> Array:
    """The weight as wgsl/conv.wgsl reads it. What stands in the rows that are only padding enters nothing."""
    terms = g.rows if backward else g.terms
    made, read, tap = contiguous_strides((g.rows, g.terms, size_of(g.taps)))
    row, term = (read, made) if backward else (made, read)
    shape = (g.groups, size_of(g.taps), terms, padded_rows)
    return gather(name, weight, shape, (g.rows * made, tap, term, row))
