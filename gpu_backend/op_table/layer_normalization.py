"""Rows of layer_norm."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal


def layer_norm_row() -> Row:
    samples = []
    for shape, rank in (((1,), 1), ((5, 7), 1), ((2, 3, 6), 2), ((70, 130), 1), ((200, 3), 1), ((2, 300), 1)):
        normalized = shape[-rank:]
        parts = normal(*shape), normal(*normalized, seed=1), normal(*normalized, seed=2)
        samples.append(Sample(f"{shape}-{rank}", parts, {"normalized_shape": normalized}))
    x, weight, bias = normal(4, 9), normal(9, seed=1), normal(9, seed=2)
    nine = {"normalized_shape": (9,)}
    samples += [
        Sample("plain", (x, None, None), nine),
        Sample("weight", (x, weight, None), nine),
        Sample("bias", (x, None, bias), {**nine, "eps": 0.5}),
        Sample("far from 0", (1000 + x, weight, bias), nine),
        Sample("equal", (np.full((3, 9), 0.1, np.float32), weight, bias), nine),
        Sample("empty", (normal(0, 9), weight, bias), nine),
        Sample("no-cols", (normal(3, 0), normal(0), normal(0)), {"normalized_shape": (0,)}),
    ]
    faults = (
        Fault((x, None, None), {"normalized_shape": (4,)}, ShapeError, "(4, 9), which does not end in (4,)"),
        Fault((x, None, None), {"normalized_shape": ()}, ShapeError, "does not end in ()"),
        Fault((x, normal(4), None), nine, ShapeError, "the weight has shape (4,), not (9,)"),
        Fault((x, None, normal(4)), nine, ShapeError, "the bias has shape (4,), not (9,)"),
        Fault((integers(4, 9), None, None), nine, DtypeError, "float32"),
        Fault((x, None, None), {**nine, "eps": -1.0}, ValueError, "eps is 0 or more, not -1.0"),
    )
    return Row(ops.layer_norm, tuple(samples), faults=faults)


ROWS = (layer_norm_row(),)
