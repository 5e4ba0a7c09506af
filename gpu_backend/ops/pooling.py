"""Pools: the largest or the mean of each window of a plane.

Windows are a stride apart (max_pool1d, avg_pool2d ...), or as many as are wanted (adaptive_max_pool1d ...). The places
of the largest elements come from ops of their own (max_pool2d_indices ...), which have no gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import HasSpec, Spec, float32, int32, size_of
from .argument import argmax
from .broadcast import label
from .convolution_geometry import Extents, hashable
from .pool_windows import Windows, even_windows, regular_windows
from .reduction import max, reduce_axes

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_indices",
    "avg_pool1d",
    "avg_pool2d",
    "max_pool1d",
    "max_pool1d_indices",
    "max_pool2d",
    "max_pool2d_indices",
]

Size = int | None | Sequence[int | None]
NOWHERE = -1  # the place of the largest element of a window that is all padding

MAX_TEXT = """The largest x is the first of several; a NaN comes before any number; padding never wins, and a
    window that is all padding, which dilation can make, has -inf. dx_q = sum of dy over the windows whose largest is
    x_q.
    """


def _even(name: str, dims: int) -> tuple[Callable[..., Spec], Callable[..., Windows]]:
    """The spec of an op on evenly divided planes, and what makes its windows."""

    def spec(x: HasSpec, output_size: Size) -> Spec:
        _check(name, x)
        return Spec(windows(x, output_size).out, float32)

    def windows(x: Any, output_size: Any) -> Windows:
        return even_windows(name, dims, x.shape, hashable(output_size))

    return spec, windows


def _regular(name: str, dims: int) -> tuple[Callable[..., Spec], Callable[..., Windows]]:
    """The spec of a max pool on windows a stride apart, and what makes its windows."""

    def spec(
        x: HasSpec,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
    ) -> Spec:
        _check(name, x)
        return Spec(windows(x, kernel_size, stride, padding, dilation, ceil_mode).out, float32)

    def windows(
        x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Windows:
        given = (hashable(kernel_size), hashable(stride), hashable(padding), hashable(dilation), ceil_mode)
        return regular_windows(name, dims, x.shape, *given)

    return spec, windows


def _check(name: str, x: HasSpec) -> None:
    if isinstance(x, int | float):
        raise ShapeError(f"{name}: the input is an array, not the number {x}")
    require_float(name, x)


def _layout(dims: int) -> str:
    return "(N, C, L)" if dims == 1 else "(N, C, H, W)"


def record(
    name: str, entry: str, w: Windows, items: int, divisor: int = 0, counts: bool = True, **arrays: Array
) -> None:
    """Note one dispatch of an entry point of wgsl/pool.wgsl."""
    device = next(iter(arrays.values())).device
    kernel = device.kernel("pool", entry, "", (("adaptive", w.adaptive),), label(name, entry, float32))
    fields = ("source", "made", "taps", "stride", "pad", "dilation")
    params = {field: (*getattr(w, field)[::-1], 0, 0) for field in fields}
    device.recorder.record_over(
        kernel, items, items=items, divisor=divisor, counts_padding=int(counts), **arrays, **params
    )


def quads(w: Windows) -> int:
    """The invocations that make dx, four neighbours in W each."""
    return size_of(w.shape[:2]) * w.source[0] * -(-w.source[1] // 4)


def largest(name: str, x: Array, w: Windows) -> tuple[Array, Array]:
    """The largest element of each window, and its place in the plane."""
    if w.is_whole and x.size:  # by many invocations
        planes = x.reshape(*x.shape[:2], size_of(w.source))
        return max(planes, axis=2).reshape(w.out), argmax(planes, axis=2).reshape(w.out)
    y, places = allocate(w.out, float32, x.device, name), allocate(w.out, int32, x.device, name)
    record(name, "max_forward", w, y.size, x=x, y=y, places=places)
    return y, places


def host_largest(x: HostArray, w: Windows) -> tuple[HostArray, HostArray]:
    """The twin of ``largest``."""
    (rows, has_row), (cols, has_col) = w.members(0), w.members(1)
    seen = x.reshape(-1, *w.source)[:, rows[:, None, :, None], cols[None, :, None, :]]
    there = (has_row[:, None, :, None] & has_col[None, :, None, :]).reshape(*w.made, -1)
    place = (rows[:, None, :, None] * w.source[1] + cols[None, :, None, :]).reshape(*w.made, -1)
    # (planes, H, W, elements of a window)
    seen = np.where(there, seen.reshape(*seen.shape[:3], there.shape[-1]), -np.inf)
    is_nan = np.isnan(seen)
    best = np.where(is_nan.any(axis=-1, keepdims=True), is_nan, np.equal(seen, seen.max(axis=-1, keepdims=True)))
    choice = (best & there).argmax(axis=-1)[..., None]  # the first that is there: a -inf of x before one of padding
    y = np.take_along_axis(seen, choice, axis=-1)
    places = np.take_along_axis(np.broadcast_to(place, seen.shape), choice, axis=-1)
    places = np.where(np.any(there, axis=-1, keepdims=True), places, NOWHERE)
    return y.astype(x.dtype).reshape(w.out), places.astype(np.int32).reshape(w.out)


def _max_pool(name: str, dims: int, make: Callable[..., Any], text: str) -> tuple[Op, Op]:
    """The op that gives the largest of each window, and the one that gives its place in the plane."""
    spec, windows = make(name, dims)

    def host_forward(x: HostArray, *given: Any, **attributes: Any) -> tuple[HostArray, Saved]:
        w = windows(x, *given, **attributes)
        y, places = host_largest(x, w)
        return y, (places, w)

    def host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        places, w = saved
        planes, volume = size_of(w.shape[:2]), size_of(w.source)
        known = places != NOWHERE
        at = places + volume * np.arange(planes).reshape(*w.shape[:2], *(1,) * dims)
        dx = np.bincount(at[known], dy[known], minlength=planes * volume)
        return (dx.astype(dy.dtype).reshape(w.shape),)

    def forward(out: Spec, x: Array, *given: Any, **attributes: Any) -> tuple[Array, Saved]:
        w = windows(x, *given, **attributes)
        y, places = largest(name, x, w)
        return y, (places, w)

    def backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
        places, w = saved
        dx = allocate(w.shape, float32, dy.device, name)
        record(name, "max_backward", w, quads(w), dy=dy, saved_places=places, dx=dx)
        return (dx,)

    places_name = f"{name}_indices"
    places_spec, places_windows = make(places_name, dims)

    def indices_spec(*given: Any, **attributes: Any) -> Spec:
        return Spec(places_spec(*given, **attributes).shape, int32)

    indices_spec.__signature__ = inspect.signature(places_spec)  # type: ignore[attr-defined]

    def indices_host_forward(x: HostArray, *given: Any, **attributes: Any) -> tuple[HostArray, Saved]:
        return host_largest(x, places_windows(x, *given, **attributes))[1], ()

    def indices_forward(out: Spec, x: Array, *given: Any, **attributes: Any) -> tuple[Array, Saved]:
        return largest(places_name, x, places_windows(x, *given, **attributes))[1], ()

    spec.__doc__ = f"""y = the largest x of each window {text} of x
    {_layout(dims)}, float32.

    {MAX_TEXT}"""
    indices_spec.__doc__ = f"""Where the results of {name} are: places in their planes, as int32. No gradient.

    A window that is all padding has -1.
    """
    return (
        Op(name, spec, host_forward, forward, host_backward, backward),
        Op(places_name, indices_spec, indices_host_forward, indices_forward),
    )


APART = "``stride`` (else ``kernel_size``) apart, whose elements are ``dilation`` apart,"
WANTED = "of the ``output_size`` that divide a plane evenly, floor(i e / n) to ceil((i + 1) e / n),"

max_pool1d, max_pool1d_indices = _max_pool("max_pool1d", 1, _regular, APART)
max_pool2d, max_pool2d_indices = _max_pool("max_pool2d", 2, _regular, APART)
adaptive_max_pool1d, adaptive_max_pool1d_indices = _max_pool("adaptive_max_pool1d", 1, _even, WANTED)
adaptive_max_pool2d, adaptive_max_pool2d_indices = _max_pool("adaptive_max_pool2d", 2, _even, WANTED)


def means(name: str, x: Array, w: Windows, counts: bool, divisor: int) -> Array:
    """The sum over each window, divided."""
    if w.is_whole and x.size:  # by many invocations
        by = divisor or size_of(w.source)
        return reduce_axes(name, "sum", x, tuple(range(2, x.ndim)), w.out, divisor=float(by))
    y = allocate(w.out, float32, x.device, name)
    record(name, "average_forward", w, y.size, divisor, counts, x=x, y=y)
    return y


def means_gradient(name: str, dy: Array, w: Windows, counts: bool, divisor: int) -> Array:
    """dx of ``means``."""
    dx = allocate(w.shape, float32, dy.device, name)
    record(name, "average_backward", w, quads(w), divisor, counts, dy=dy, dx=dx)
    return dx


def host_means(x: HostArray, w: Windows, counts: bool, divisor: int) -> HostArray:
    """The twin of ``means``."""
    sums = _sums_over(x.reshape(size_of(w.shape[:2]), *w.source), w.holds(0), w.holds(1))
    return np.asarray(sums / (divisor or w.sizes(counts)), x.dtype).reshape(w.out)


def host_means_gradient(dy: HostArray, w: Windows, counts: bool, divisor: int) -> HostArray:
    """The twin of ``means_gradient``."""
    shares = dy.reshape(size_of(w.shape[:2]), *w.made) / (divisor or w.sizes(counts))
    return np.asarray(_sums_over(shares, w.holds(0).T, w.holds(1).T), dy.dtype).reshape(w.shape)


def _sums_over(planes: HostArray, rows: HostArray, cols: HostArray) -> HostArray:
    """Sums of (planes, H, W) over the rows and columns that two matrices of bools choose for each element made.

    Not a product of matrices: NaN and infinity stay in their windows.
    """
    (h, has_row), (w, has_col) = _chosen(rows), _chosen(cols)
    seen = planes[:, h[:, None, :, None], w[None, :, None, :]]
    return np.asarray(np.where(has_row[:, None, :, None] & has_col[None, :, None, :], seen, 0).sum(axis=(3, 4)))


def _chosen(choice: HostArray) -> tuple[HostArray, HostArray]:
    """The columns that each row of a matrix of bools chooses, as (rows, most), and which of them are there."""
    most = int(choice.sum(axis=1).max(initial=1))
    at = np.argsort(~choice, axis=1, kind="stable")[:, :most]
    return at, np.take_along_axis(choice, at, axis=1)


def _avg_pool(name: str, dims: int) -> Op:
    """The op of the mean of windows a stride apart."""

    def spec(
        x: HasSpec,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Spec:
        _check(name, x)
        if divisor_override is not None and divisor_override < 1:
            raise ValueError(f"{name}: divisor_override is a positive number or None, not {divisor_override}")
        return Spec(windows(x, kernel_size, stride, padding, ceil_mode)[0].out, float32)

    def windows(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> tuple[Windows, bool, int]:
        given = (hashable(kernel_size), hashable(stride), hashable(padding), 1, ceil_mode)
        return regular_windows(name, dims, x.shape, *given), count_include_pad, divisor_override or 0

    spec.__doc__ = f"""y = the sum of x over each window ``stride`` (else ``kernel_size``) apart, divided.

    x is {_layout(dims)} of float32.

    The divisor is ``divisor_override``, or the number of elements of the window, those of padding included if
    ``count_include_pad``. With ``ceil_mode`` a last window may reach past the padding, where nothing counts, unless it
    would start there. dx_q = sum of dy / divisor over the windows that hold x_q.
    """
    return _means_op(name, spec, windows)


def _adaptive_avg_pool(name: str, dims: int) -> Op:
    """The op of the mean of windows that divide a plane evenly."""
    spec, even = _even(name, dims)
    spec.__doc__ = f"""y = the mean of each window {WANTED} of x
    {_layout(dims)}, float32.

    dx_q = sum of dy / size over the windows that hold x_q.
    """
    return _means_op(name, spec, lambda x, output_size: (even(x, output_size), True, 0))


def _means_op(name: str, spec: Callable[..., Spec], windows: Callable[..., tuple[Windows, bool, int]]) -> Op:
    def host_forward(x: HostArray, *given: Any, **attributes: Any) -> tuple[HostArray, Saved]:
        saved = windows(x, *given, **attributes)
        return host_means(x, *saved), saved

    def forward(out: Spec, x: Array, *given: Any, **attributes: Any) -> tuple[Array, Saved]:
        saved = windows(x, *given, **attributes)
        return means(name, x, *saved), saved

    return Op(
        name,
        spec,
        host_forward,
        forward,
        lambda dy, saved, needs: (host_means_gradient(dy, *saved),),
        lambda dy, saved, needs: (means_gradient(name, dy, *saved),),
    )


avg_pool1d, avg_pool2d = _avg_pool("avg_pool1d", 1), _avg_pool("avg_pool2d", 2)
adaptive_avg_pool1d = _adaptive_avg_pool("adaptive_avg_pool1d", 1)
adaptive_avg_pool2d = _adaptive_avg_pool("adaptive_avg_pool2d", 2)
