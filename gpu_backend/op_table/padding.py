"""The row of pad."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal, truths

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1,), {"pad_width": 2}),
    ((3, 4), {"pad_width": ((1, 2), (0, 3)), "value": -1.5}),
    ((3, 4), {"pad_width": ((0, 0), (0, 0))}),
    ((0, 3), {"pad_width": ((2, 1), (1, 1))}),
    ((5,), {"pad_width": ((3, 4),), "mode": "reflect"}),
    ((3, 4), {"pad_width": ((2, 1), (0, 3)), "mode": "reflect"}),
    ((2, 3, 4), {"pad_width": ((0, 0), (1, 2), (3, 3)), "mode": "reflect"}),
    ((1,), {"pad_width": ((2, 3),), "mode": "replicate"}),
    ((3, 4), {"pad_width": ((2, 1), (0, 7)), "mode": "replicate"}),
    ((3, 4), {"pad_width": 0, "mode": "replicate"}),
    ((2, 0), {"pad_width": ((1, 1), (0, 0)), "mode": "replicate"}),
    ((), {"pad_width": ()}),
    ((70, 30), {"pad_width": ((3, 5), (7, 2)), "mode": "reflect"}),
]

FAULTS = (
    Fault((normal(3),), {"pad_width": ((3, 0),), "mode": "reflect"}, ShapeError, "more than the 3 elements of axis 0"),
    Fault((normal(3),), {"pad_width": ((-1, 0),)}, ShapeError, "pad: a width is not negative, as (-1, 0) of axis 0"),
    Fault(
        (normal(3, 2),), {"pad_width": ((1, 0),) * 3}, ShapeError, "is not a pair (before, after) for each dimension"
    ),
    Fault((normal(3),), {"pad_width": 1, "mode": "wrap"}, ValueError, "no mode 'wrap'; there are constant, reflect"),
    Fault((normal(0),), {"pad_width": 1, "mode": "replicate"}, ShapeError, "nothing to replicate in axis 0"),
    Fault((integers(3),), {"pad_width": 1, "value": 0.5}, DtypeError, "0.5 does not fit int32"),
)

ROWS = (
    Row(
        ops.pad,
        (
            *(Sample(f"{shape}-{attributes}", (normal(*shape),), attributes) for shape, attributes in CASES),
            Sample("int32", (integers(3, 4),), {"pad_width": 1, "value": 7}),
            Sample("bool", (truths(3, 4),), {"pad_width": 1, "mode": "reflect"}),
        ),
        faults=FAULTS,
    ),
)
