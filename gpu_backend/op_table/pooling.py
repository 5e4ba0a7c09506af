"""Rows of pools. tests/test_pooling.py has many more combinations of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Array, Fault, Row, Sample, integers, normal


def ties(*shape: int) -> Array:
    """Few different numbers, some -inf and a NaN."""
    x = integers(*shape, low=0, high=2).astype(np.float32)
    x.reshape(-1)[:: x.size // 5 + 1] = -np.inf
    x.reshape(-1)[x.size // 2] = np.nan
    return x


def call(name: str, x: Array, has_corners: bool = False, **attributes: Any) -> Sample:
    return Sample(name, (x,), attributes, has_corners)


def max_samples() -> tuple[Sample, ...]:
    """Planes, of which rows of one dimension are made too."""
    return (
        call("one", normal(1, 1, 1, 1), kernel_size=1),
        call("apart", normal(2, 3, 7, 6), kernel_size=2),
        call("overlapping", normal(2, 3, 9, 7), kernel_size=(3, 4), stride=(1, 2), padding=(1, 2)),
        call("dilated", normal(2, 2, 9, 11), kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True),
        call("ties", ties(2, 3, 6, 7), True, kernel_size=3, stride=1, padding=1),
        call("all-padding", normal(1, 2, 3, 3), True, kernel_size=2, padding=1, dilation=4),
        call("ceil", normal(1, 2, 8, 5), kernel_size=3, stride=2, padding=1, ceil_mode=True),
        call("empty", normal(0, 3, 5, 5), kernel_size=2),
    )


def in_one_dimension(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The same calls on the rows of the planes, with what was said of W."""

    def last(value: Any) -> Any:
        return value[-1] if isinstance(value, tuple) else value

    return tuple(
        Sample(s.id, (s.inputs[0][:, :, 0],), {k: last(v) for k, v in s.attributes.items()}, s.has_corners)
        for s in samples
    )


def faults(dims: int, **wanted: Any) -> tuple[Fault, ...]:
    """Bad calls of any pool whose windows are a stride apart."""
    x = normal(2, 3, 5) if dims == 1 else normal(2, 3, 5, 4)
    one = "1" if dims == 1 else "2"
    return (
        Fault((x,), {"kernel_size": 6}, ShapeError, f"is larger than the padded input, {x.shape[2:]}"),
        Fault((x,), {"kernel_size": 0}, ShapeError, "kernel_size is positive, not 0"),
        Fault((x,), {"kernel_size": 2, "stride": 0}, ShapeError, "stride is positive, not 0"),
        Fault((x,), {"kernel_size": 2, "stride": (1, 2, 3)}, ShapeError, f"stride is a number or {one} of them"),
        Fault((x,), {"kernel_size": 2, "padding": 2}, ShapeError, "a padding of 2 is more than half of what a kernel"),
        Fault((x[0],), {"kernel_size": 2}, ShapeError, f"the input has shape {x.shape[1:]}, not (N, C, "),
        Fault((x.astype(np.int32),), {"kernel_size": 2}, DtypeError, "takes float32, not int32"),
        *(Fault((x,), {"kernel_size": 2, key: value}, error, text) for key, (value, error, text) in wanted.items()),
    )  # fmt: skip


def avg_samples() -> tuple[Sample, ...]:
    padded: dict[str, Any] = {"kernel_size": (3, 4), "stride": (2, 3), "padding": (1, 2)}
    return (
        call("one", normal(1, 1, 1, 1), kernel_size=1),
        call("apart", normal(2, 3, 7, 6), kernel_size=2),
        call("padding-counts", normal(2, 3, 9, 8), **padded),
        call("padding-does-not", normal(2, 3, 9, 8), **padded, count_include_pad=False),
        call("ceil", normal(1, 2, 8, 7), kernel_size=3, stride=2, padding=1, ceil_mode=True),
        call("overlapping", normal(1, 2, 6, 7), kernel_size=4, stride=1),
        call("divisor", normal(1, 2, 6, 7), kernel_size=3, divisor_override=2),
        call("empty", normal(0, 3, 5, 5), kernel_size=2),
    )


def even_samples() -> tuple[Sample, ...]:
    return (
        call("uneven", normal(2, 3, 7, 5), output_size=(3, 4)),
        call("more", normal(1, 2, 3, 2), output_size=5),
        call("kept", normal(1, 2, 5, 4), output_size=(None, 2)),
        call("whole", normal(2, 3, 9, 8), output_size=1),
        call("ties", ties(2, 3, 6, 7), True, output_size=3),
        call("empty", normal(0, 3, 5, 5), output_size=2),
    )


def even_faults(dims: int) -> tuple[Fault, ...]:
    x = normal(2, 3, 5) if dims == 1 else normal(2, 3, 5, 4)
    return (
        Fault((x,), {"output_size": 0}, ShapeError, "output_size is positive, not"),
        Fault((x,), {"output_size": (1, 2, 3)}, ShapeError, "output_size is a number, None, or"),
        Fault((x[:, :, :0],), {"output_size": 2}, ShapeError, "there is nothing in planes of"),
        Fault((x[0],), {"output_size": 2}, ShapeError, "not (N, C, "),
    )


def places(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    return samples[1:6]


DILATION = {"dilation": (0, ShapeError, "dilation is positive, not 0")}
DIVISOR = {"divisor_override": (0, ValueError, "divisor_override is a positive number or None, not 0")}
PLANES, LINES = max_samples(), in_one_dimension(max_samples())
EVEN, EVEN_LINES = even_samples(), in_one_dimension(even_samples())
AVERAGES = avg_samples()

ROWS = (
    Row(ops.max_pool1d, LINES, faults=faults(1, **DILATION)),
    Row(ops.max_pool2d, PLANES, faults=faults(2, **DILATION)),
    Row(ops.max_pool1d_indices, places(LINES), faults=faults(1)),
    Row(ops.max_pool2d_indices, places(PLANES), faults=faults(2)),
    Row(ops.avg_pool1d, in_one_dimension(AVERAGES), faults=faults(1, **DIVISOR)),
    Row(ops.avg_pool2d, AVERAGES, faults=faults(2, **DIVISOR)),
    Row(ops.adaptive_max_pool1d, EVEN_LINES, faults=even_faults(1)),
    Row(ops.adaptive_max_pool2d, EVEN, faults=even_faults(2)),
    Row(ops.adaptive_max_pool1d_indices, places(EVEN_LINES), faults=even_faults(1)),
    Row(ops.adaptive_max_pool2d_indices, places(EVEN), faults=even_faults(2)),
    Row(ops.adaptive_avg_pool1d, EVEN_LINES, faults=even_faults(1)),
    Row(ops.adaptive_avg_pool2d, EVEN, faults=even_faults(2)),
)
