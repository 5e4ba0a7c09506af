"""Rows of interpolate, unfold and fold. tests/test_resampling.py has more combinations of their arguments."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Array, Fault, Row, Sample, integers, normal


def call(name: str, x: Array, **attributes: Any) -> Sample:
    return Sample(name, (x,), attributes)


def interpolate_row() -> Row:
    x, line = normal(2, 3, 5, 4), normal(2, 3, 7)
    samples = (
        call("one", normal(1, 1, 1, 1), size=1),
        call("nearest-up", x, scale_factor=2),
        call("nearest-size", x, size=(3, 7)),
        call("nearest-line", line, scale_factor=1.5),
        call("linear", line, size=12, mode="linear"),
        call("linear-corners", line, size=4, mode="linear", align_corners=True),
        call("bilinear-up", x, scale_factor=(2, 1.6), mode="bilinear"),
        call("bilinear-down", x, size=(2, 3), mode="bilinear", align_corners=False),
        call("bilinear-corners", x, size=(9, 1), mode="bilinear", align_corners=True),
        call("larger", normal(3, 2, 20, 17), size=(31, 33), mode="bilinear"),
        call("empty", normal(0, 3, 5, 4), scale_factor=2),
    )
    faults = (
        Fault((x,), {}, ShapeError, "either size or scale_factor is given, not neither"),
        Fault((x,), {"size": 3, "scale_factor": 2}, ShapeError, "not both"),
        Fault((x,), {"size": 3, "mode": "cubic"}, ShapeError, "no mode 'cubic'; there are nearest, linear, bilinear"),
        Fault((x,), {"size": 3, "mode": "linear"}, ShapeError, "mode 'linear' takes (N, C, L), the input has shape"),
        Fault((line,), {"size": 3, "mode": "bilinear"}, ShapeError, "mode 'bilinear' takes (N, C, H, W)"),
        Fault((x,), {"size": 0}, ShapeError, "size is positive, not 0"),
        Fault((x,), {"size": (1, 2, 3)}, ShapeError, "size is a number or 2 of them"),
        Fault((x,), {"scale_factor": -1}, ShapeError, "scale_factor is a positive number or 2 of them, not -1"),
        Fault((x,), {"scale_factor": 0.1}, ShapeError, "a scale_factor of 0.1 leaves nothing of (5, 4)"),
        Fault((x,), {"size": 3, "align_corners": False}, ShapeError, "align_corners is for linear and bilinear"),
        Fault((x[:, :, :0],), {"size": 3}, ShapeError, "there is nothing in planes of (0, 4)"),
        Fault((integers(2, 3, 5, 4),), {"size": 3}, DtypeError, "takes float32, not int32"),
    )
    return Row(ops.interpolate, samples, faults=faults)


UNFOLDED = {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (2, 1), "stride": (2, 1)}


def unfold_row() -> Row:
    x = normal(2, 3, 6, 5)
    samples = (
        call("one", normal(1, 1, 1, 1), kernel_size=1),
        call("overlapping", x, kernel_size=3, padding=1),
        call("mixed", x, **UNFOLDED),
        call("larger", normal(2, 2, 17, 19), kernel_size=2),
        call("empty", normal(0, 3, 6, 5), kernel_size=2),
    )
    faults = (
        Fault((x,), {"kernel_size": 7}, ShapeError, "a kernel of (7, 7) is larger than the padded input, (6, 5)"),
        Fault((x,), {"kernel_size": 2, "stride": 0}, ShapeError, "unfold: stride is positive, not 0"),
        Fault((x[0],), {"kernel_size": 2}, ShapeError, "the input has shape (3, 6, 5), not (N, C, H, W)"),
    )
    return Row(ops.unfold, samples, faults=faults)


def fold_row() -> Row:
    six = {"output_size": (6, 5)}
    x = normal(2, 3 * 9, 30)
    samples = (
        call("one", normal(1, 1, 1), output_size=1, kernel_size=1),
        call("overlapping", x, **six, kernel_size=3, padding=1),
        call("mixed", normal(2, 3 * 6, 20), **six, **UNFOLDED),
        call("gaps", normal(1, 2 * 4, 4), output_size=(7, 6), kernel_size=2, stride=4),
        call("empty", normal(0, 3 * 9, 30), **six, kernel_size=3, padding=1),
    )
    faults = (
        Fault((x,), {**six, "kernel_size": 2}, ShapeError, "27 rows do not divide by the 4 taps of a kernel of (2, 2)"),
        Fault((x,), {**six, "kernel_size": 3}, ShapeError, "30 positions, where an output of (6, 5) has 12, (4, 3)"),
        Fault((x,), {"output_size": 0, "kernel_size": 3}, ShapeError, "output_size is positive, not 0"),
        Fault((x[0],), {**six, "kernel_size": 3}, ShapeError, "has shape (27, 30), not (N, C taps, positions)"),
    )
    return Row(ops.fold, samples, faults=faults)


ROWS = (interpolate_row(), unfold_row(), fold_row())
