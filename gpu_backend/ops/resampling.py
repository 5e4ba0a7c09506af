"""Images of another size or form: interpolate; unfold and fold, windows as columns and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..array import Array, allocate, array
from ..capture import paused
from ..device import Device
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Shape, Spec, float32, size_of
from .broadcast import label
from .conv_kernels import extents_of
from .convolution_geometry import Extents, Geometry, convolution_geometry, hashable, numbers
from .update import persist

__all__ = ["fold", "interpolate", "unfold"]

MODES = {"nearest": (1, 2), "linear": (1,), "bilinear": (2,)}  # and of how many dimensions
KEPT_AXES = 32
# An invocation of the backward looks at all of them, and Mesa 22.3.6 leaves its loops after 65,535 rounds.
MOST_READERS = 32_768


@dataclass(frozen=True)
class Axis:
    """How ``made`` places along an axis read its ``extent`` elements: by the integer, or, smooth, between two.

    Place i reads at i / scale, or smooth at (i + 0.5) / scale - 0.5, kept within the axis, or with ``corners`` at
    i (extent - 1) / (made - 1).
    """

    extent: int
    made: int
    scale: float | None
    smooth: bool
    corners: bool

    def taps(self) -> tuple[HostArray, HostArray]:
        """Which two elements each place reads, and with which weights; float64."""
        i = np.arange(self.made)
        if not self.smooth:
            at = i * self.extent // self.made if self.scale is None else (i / self.scale).astype(np.int64)
            first = np.minimum(at, self.extent - 1)
            return np.stack([first, first], axis=1), np.tile([1.0, 0.0], (self.made, 1))
        if self.corners:
            where = i * ((self.extent - 1) / (self.made - 1)) if self.made > 1 else np.zeros(1)
        else:
            ratio = self.extent / self.made if self.scale is None else 1 / self.scale
            where = np.maximum((i + 0.5) * ratio - 0.5, 0)
        first = np.minimum(where.astype(np.int64), self.extent - 1)
        part = np.where(first < self.extent - 1, where - first, 0.0)
        return np.stack([first, np.minimum(first + 1, self.extent - 1)], axis=1), np.stack([1 - part, part], axis=1)

    def matrix(self, dtype: npt.DTypeLike) -> HostArray:
        """(made, extent): with which weight each place reads each element."""
        taps, weights = self.taps()
        made = np.zeros((self.made, self.extent))
        for side in (0, 1):
            np.add.at(made, (np.arange(self.made), taps[:, side]), weights[:, side])
        return made.astype(dtype)

    def spans(self) -> HostArray:
        """For each element the places first .. end - 1 between which all lie that read it, (extent, 2)."""
        taps, weights = self.taps()
        last = np.where(weights[:, 1] > 0, taps[:, 1], taps[:, 0])
        elements = np.arange(self.extent)
        return np.stack(
            [np.searchsorted(last, elements, "left"), np.searchsorted(taps[:, 0], elements, "right")], axis=1
        )


@lru_cache(maxsize=1024)
def _axes(shape: Shape, size: Any, scale_factor: Any, mode: str, align_corners: bool | None) -> tuple[Axis, ...]:
    name, dims = "interpolate", len(shape) - 2
    if mode not in MODES:
        raise ShapeError(f"{name}: no mode {mode!r}; there are {', '.join(MODES)}")
    if dims not in MODES[mode]:
        wanted = " or ".join("(N, C, L)" if n == 1 else "(N, C, H, W)" for n in MODES[mode])
        raise ShapeError(f"{name}: mode {mode!r} takes {wanted}, the input has shape {shape}")
    if (size is None) == (scale_factor is None):
        raise ShapeError(f"{name}: either size or scale_factor is given, not {'neither' if size is None else 'both'}")
    if mode == "nearest" and align_corners is not None:
        raise ShapeError(f"{name}: align_corners is for linear and bilinear, not for nearest")
    scales: Sequence[float | None] = (None,) * dims
    if size is not None:
        made = numbers(name, "size", size, dims)
    else:
        given = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * dims
        if len(given) != dims or not all(isinstance(s, int | float) and 0 < s < math.inf for s in given):
            raise ShapeError(f"{name}: scale_factor is a positive number or {dims} of them, not {scale_factor!r}")
        scales = [float(s) for s in given]
        made = tuple(int(extent * s) for extent, s in zip(shape[2:], given, strict=True))
        if min(made) < 1:
            raise ShapeError(f"{name}: a scale_factor of {scale_factor} leaves nothing of {shape[2:]}")
    if 0 in shape[2:]:
        raise ShapeError(f"{name}: there is nothing in planes of {shape[2:]}")
    readers = size_of(tuple(-(-count // extent) + 2 for count, extent in zip(made, shape[2:], strict=True)))
    if readers > MOST_READERS:
        raise ShapeError(f"{name}: {made} from {shape[2:]}: more than {MOST_READERS} places would read one element")
    smooth = mode != "nearest"
    rest = zip(shape[2:], made, scales, strict=True)
    return tuple(Axis(extent, count, scale, smooth, bool(align_corners)) for extent, count, scale in rest)


def interpolate_spec(
    x: HasSpec,
    size: Extents | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Spec:
    """y = x (N, C, L) or (N, C, H, W) with another number of places along L, or H and W, float32.

    Either ``size`` says how many, or ``scale_factor`` how many times as many, rounded down. "nearest": place i of n
    reads element floor(i e / n) of e, with a factor s floor(i / s). "linear" of L, "bilinear" of H and W: between the
    two elements around (i + 0.5) e / n - 0.5, or / s, kept within the axis, or, with ``align_corners``, around
    i (e - 1) / (n - 1). Places are worked out in float64. dx = for each element the sum of weight dy over the places
    that read it. ShapeError for a mode that does not fit the dimensions, or if nothing is left.
    """
    if isinstance(x, int | float):
        raise ShapeError(f"interpolate: the input is an array, not the number {x}")
    require_float("interpolate", x)
    axes = _axes(x.shape, hashable(size), hashable(scale_factor), mode, align_corners)
    return Spec((*x.shape[:2], *(axis.made for axis in axes)), float32)


def _two_axes(axes: tuple[Axis, ...]) -> tuple[Axis, Axis]:
    return (axes[0], axes[1]) if len(axes) == 2 else (Axis(1, 1, None, False, False), axes[0])


def _host_sums(planes: HostArray, rows: HostArray, cols: HostArray) -> HostArray:
    return np.asarray(rows @ planes @ cols.T)


def interpolate_host_forward(
    x: HostArray, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> tuple[HostArray, Saved]:
    axes = _axes(x.shape, hashable(size), hashable(scale_factor), mode, align_corners)
    rows, cols = _two_axes(axes)
    planes = x.reshape(size_of(x.shape[:2]), rows.extent, cols.extent)
    y = planes
    for axis, place in ((rows, 1), (cols, 2)):
        taps, weights = axis.taps()
        wide = weights.astype(x.dtype).reshape(-1, 2, *(1,) * (2 - place))
        first, second = (np.take(y, taps[:, side], axis=place) for side in (0, 1))
        blended = first * wide[:, 0] + second * wide[:, 1]
        y = np.where(wide[:, 1] == 0, first, blended)  # a weight of 0 takes nothing, be it infinite
    return y.reshape(*x.shape[:2], *(axis.made for axis in axes)), (axes, x.shape)


def interpolate_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    axes, shape = saved
    rows, cols = _two_axes(axes)
    planes = dy.reshape(size_of(shape[:2]), rows.made, cols.made)
    dx = rows.matrix(dy.dtype).T @ planes @ cols.matrix(dy.dtype)
    return (np.ascontiguousarray(dx).reshape(shape),)


def _tables(device: Device, axis: Axis) -> tuple[Array, Array, Array]:
    """Taps, weights and spans of an axis. The device keeps those of the latest few."""
    with device.lock:
        kept: dict[Axis, tuple[Array, Array, Array]] = device.constants.setdefault("axes of interpolate", {})
        made = kept.pop(axis, None)
        if made is None:
            taps, weights = axis.taps()
            tables = (taps.astype(np.uint32), weights.astype(np.float32), axis.spans().astype(np.uint32))
            with paused():
                taps_, weights_, spans_ = (persist(array(t, device=device), "interpolate") for t in tables)
            made = (taps_, weights_, spans_)
        kept[axis] = made
        while len(kept) > KEPT_AXES:
            del kept[next(iter(kept))]
    return made


def interpolate_forward(
    out: Spec,
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> tuple[Array, Saved]:
    axes = _axes(x.shape, hashable(size), hashable(scale_factor), mode, align_corners)
    y = allocate(out.shape, float32, x.device, "interpolate")
    _record_interpolate("forward", axes, y.size, x=x, y=y)
    return y, (axes, x.shape)


def interpolate_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    axes, shape = saved
    dx = allocate(shape, float32, dy.device, "interpolate")
    _record_interpolate("backward", axes, dx.size, dy=dy, dx=dx)
    return (dx,)


def _record_interpolate(entry: str, axes: tuple[Axis, ...], items: int, **arrays: Array) -> None:
    device = next(iter(arrays.values())).device
    rows, cols = _two_axes(axes)
    row_tables, col_tables = _tables(device, rows), _tables(device, cols)
    for name, row, col in zip(("taps", "weights", "spans"), row_tables, col_tables, strict=True):
        if entry == "backward" or name != "spans":
            arrays |= {f"row_{name}": row, f"col_{name}": col}
    made, source = (rows.made, cols.made), (rows.extent, cols.extent)
    (H, W), (other_H, other_W) = (source, made) if entry == "backward" else (made, source)
    kernel = device.kernel("interpolate", entry, label=label("interpolate", entry, float32))
    device.recorder.record_over(kernel, items, items=items, H=H, W=W, other_H=other_H, other_W=other_W, **arrays)


interpolate = Op(
    "interpolate",
    interpolate_spec,
    interpolate_host_forward,
    interpolate_forward,
    interpolate_host_backward,
    interpolate_backward,
)


def _unfold_geometry(name: str, shape: Shape, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Geometry:
    """Each channel of each image as an image of its own, convolved by one kernel."""
    if len(shape) != 4:
        raise ShapeError(f"{name}: the input has shape {shape}, not (N, C, H, W)")
    taps = numbers(name, "kernel_size", hashable(kernel_size), 2)
    given = (hashable(stride), hashable(padding), hashable(dilation))
    return convolution_geometry(name, 2, (shape[0] * shape[1], 1, *shape[2:]), (1, 1, *taps), *given, 1)


def unfold_spec(
    x: HasSpec, kernel_size: Extents, dilation: Extents = 1, padding: Extents = 0, stride: Extents = 1
) -> Spec:
    """y = the windows of x (N, C, H, W) as columns: (N, C taps, positions), float32; 0 outside of x.

    Row c taps + t has what tap t meets in channel c. dx = fold(dy): each element gets the sum of dy wherever it stands.
    ShapeError if a window is larger than the padded input.
    """
    require_float("unfold", x)
    g = _unfold_geometry("unfold", x.shape, kernel_size, dilation, padding, stride)
    return Spec((x.shape[0], x.shape[1] * size_of(g.taps), size_of(g.made)), float32)


def _host_unfold(x: HostArray, g: Geometry) -> HostArray:
    """(images, taps, positions)."""
    sides = list(zip(g.pad, g.pad_after, strict=True))
    padded = np.pad(x.reshape(g.batch, *g.source), [(0, 0), *sides])
    reach = tuple(spacing * (taps - 1) + 1 for spacing, taps in zip(g.dilation, g.taps, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2, 3))
    (a, b, c), (i, j, k) = g.stride, g.dilation
    columns = np.moveaxis(view[:, ::a, ::b, ::c, ::i, ::j, ::k], (1, 2, 3), (4, 5, 6))
    return columns.reshape(g.batch, size_of(g.taps), size_of(g.made))


def _host_fold(columns: HostArray, g: Geometry) -> HostArray:
    """(images, D, H, W): one addition for each tap, of all positions at once."""
    wide = [extent + low + high for extent, low, high in zip(g.source, g.pad, g.pad_after, strict=True)]
    padded = np.zeros((g.batch, *wide), columns.dtype)
    of_taps = columns.reshape(g.batch, size_of(g.taps), *g.made)
    for number, tap in enumerate(np.ndindex(*g.taps)):
        sizes = zip(tap, g.dilation, g.made, g.stride, strict=True)
        d, h, w = (slice(t * gap, t * gap + (count - 1) * step + 1, step) for t, gap, count, step in sizes)
        padded[:, d, h, w] += of_taps[:, number]
    d, h, w = (slice(low, low + extent) for low, extent in zip(g.pad, g.source, strict=True))
    return np.ascontiguousarray(padded[:, d, h, w])


def _record_unfold(name: str, entry: str, g: Geometry, rows: int, length: int, **arrays: Array) -> None:
    """Note one dispatch of wgsl/unfold.wgsl that makes ``rows`` rows of ``length`` elements."""
    device = next(iter(arrays.values())).device
    quads = -(-length // 4)
    kernel = device.kernel("unfold", entry, label=label(name, entry, float32))
    device.recorder.record_over(
        kernel, rows * quads, items=rows * quads, quads=quads, volume=size_of(g.source), positions=size_of(g.made),
        **arrays, **extents_of(g, g.source, g.made),
    )  # fmt: skip


def _unfolded(name: str, x: Array, g: Geometry, shape: Shape) -> Array:
    y = allocate(shape, float32, x.device, name)
    _record_unfold(name, "forward", g, g.batch * size_of(g.taps), size_of(g.made), x=x, y=y)
    return y


def _folded(name: str, columns: Array, g: Geometry, shape: Shape) -> Array:
    made = allocate(shape, float32, columns.device, name)
    _record_unfold(name, "backward", g, g.batch, size_of(g.source), dy=columns, dx=made)
    return made


def unfold_host_forward(
    x: HostArray, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> tuple[HostArray, Saved]:
    g = _unfold_geometry("unfold", x.shape, kernel_size, dilation, padding, stride)
    y = _host_unfold(x, g).reshape(x.shape[0], x.shape[1] * size_of(g.taps), size_of(g.made))
    return y, (g, x.shape)


def unfold_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    g, shape = saved
    return (_host_fold(dy, g).reshape(shape),)


def unfold_forward(
    out: Spec, x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> tuple[Array, Saved]:
    g = _unfold_geometry("unfold", x.shape, kernel_size, dilation, padding, stride)
    return _unfolded("unfold", x, g, out.shape), (g, x.shape)


def unfold_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    g, shape = saved
    return (_folded("unfold", dy, g, shape),)


unfold = Op("unfold", unfold_spec, unfold_host_forward, unfold_forward, unfold_host_backward, unfold_backward)


def _fold_geometry(
    shape: Shape, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Geometry, Shape]:
    if len(shape) != 3:
        raise ShapeError(f"fold: the input has shape {shape}, not (N, C taps, positions)")
    made = numbers("fold", "output_size", hashable(output_size), 2)
    taps = numbers("fold", "kernel_size", hashable(kernel_size), 2)
    if shape[1] % size_of(taps):
        raise ShapeError(f"fold: {shape[1]} rows do not divide by the {size_of(taps)} taps of a kernel of {taps}")
    image = (shape[0], shape[1] // size_of(taps), *made)
    g = _unfold_geometry("fold", image, taps, dilation, padding, stride)
    if shape[2] != size_of(g.made):
        raise ShapeError(
            f"fold: {shape[2]} positions, where an output of {made} has {size_of(g.made)}, {g.made[1:]}, of them"
        )
    return g, image


def fold_spec(
    x: HasSpec,
    output_size: Extents,
    kernel_size: Extents,
    dilation: Extents = 1,
    padding: Extents = 0,
    stride: Extents = 1,
) -> Spec:
    """y = the columns of x (N, C taps, positions) added up where their windows lie: (N, C, *output_size), float32.

    It is the backward of unfold, and dx = unfold(dy). ShapeError if the rows do not divide by the taps, or there are
    not as many positions as windows in ``output_size``.
    """
    require_float("fold", x)
    return Spec(_fold_geometry(x.shape, output_size, kernel_size, dilation, padding, stride)[1], float32)


def fold_host_forward(
    x: HostArray, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> tuple[HostArray, Saved]:
    g, image = _fold_geometry(x.shape, output_size, kernel_size, dilation, padding, stride)
    return _host_fold(x, g).reshape(image), (g, x.shape)


def fold_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    g, shape = saved
    return (_host_unfold(dy, g).reshape(shape),)


def fold_forward(
    out: Spec, x: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> tuple[Array, Saved]:
    g, image = _fold_geometry(x.shape, output_size, kernel_size, dilation, padding, stride)
    return _folded("fold", x, g, image), (g, x.shape)


def fold_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    g, shape = saved
    return (_unfolded("fold", dy, g, shape),)


fold = Op("fold", fold_spec, fold_host_forward, fold_forward, fold_host_backward, fold_backward)
