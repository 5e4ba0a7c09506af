"""Where the largest and smallest elements are: argmax, argmin."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..array import Array, allocate
from ..errors import ShapeError
from ..op import HostArray, Op, Saved
from ..spec import HasSpec, Spec, int32, normalize_axis, reduced_shape, size_of
from .broadcast import label
from .reduction import COLUMN_CHUNK, ROW_CHUNK, SHORT_AXIS

__all__ = ["argmax", "argmin"]


@lru_cache(maxsize=8)
def _prelude(sign: str, elem: str) -> str:
    test = f"!is_nan(q) && (is_nan(p) || p {sign} q)" if elem == "f32" else f"p {sign} q"
    return f"alias elem = {elem};\nfn is_better(p: elem, q: elem) -> bool {{ return {test}; }}\n"


def _argument(name: str, word: str, sign: str) -> Op:
    """The place of the element that is ``word``, where ``sign`` holds between it and any other."""

    def spec(x: HasSpec, axis: int | None = None, keepdims: bool = False) -> Spec:
        axes = tuple(range(len(x.shape))) if axis is None else (normalize_axis(name, axis, len(x.shape)),)
        shape = reduced_shape(x.shape, axes, keepdims)
        if size_of(shape) and not size_of(x.shape):
            raise ShapeError(f"{name}: nothing to choose from in axes {axes} of shape {x.shape}")
        return Spec(shape, int32)

    spec.__doc__ = f"""y = the place of the {word} x along ``axis``, as int32; of several, the first. No gradient.

    Without an axis, among all elements in row-major order. A NaN comes before any number, as in numpy. ShapeError over
    nothing.
    """

    def host_forward(x: HostArray, axis: int | None = None, keepdims: bool = False) -> tuple[HostArray, Saved]:
        if not x.size:
            return np.empty(spec(Spec(x.shape, int32), axis, keepdims).shape, np.int32), ()
        choose = np.argmax if sign == ">" else np.argmin
        return np.array(choose(x, axis=axis, keepdims=keepdims), np.int32), ()

    def forward(out: Spec, x: Array, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Saved]:
        place = None if axis is None else normalize_axis(name, axis, x.ndim)
        outer, length, inner = 1, x.size, 1
        if place is not None:
            outer, length, inner = size_of(x.shape[:place]), x.shape[place], size_of(x.shape[place + 1 :])
        prelude = _prelude(sign, x.dtype.wgsl)
        y, left = x, length
        while y is x or left > 1:
            entry = "rows" if inner == 1 and left > SHORT_AXIS else "columns"
            chunk = ROW_CHUNK if entry == "rows" else COLUMN_CHUNK
            chunks = -(-left // chunk)
            count = outer * chunks * inner
            candidates, y = y, allocate(out.shape if chunks <= 1 else (count,), int32, x.device, name)
            kernel = x.device.kernel("argument", entry, prelude, (), label(name, entry, x.dtype))
            x.device.recorder.record(
                kernel,
                count if entry == "rows" else -(-count // kernel.invocations),
                x=x,
                candidates=candidates,
                y=y,
                count=count,
                length=length,
                inner=inner,
                chunk=chunk,
                chunks=chunks,
                candidates_length=left,
                is_first=candidates is x,
            )
            left = chunks
        return y, ()

    return Op(name, spec, host_forward, forward)


argmax = _argument("argmax", "largest", ">")
argmin = _argument("argmin", "smallest", "<")
