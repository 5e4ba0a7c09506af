"""Rows of activation functions."""

from __future__ import annotations

from .. import ops
from ..errors import DtypeError, ShapeError
from ..op import Op
from .elementwise import points, special, unary
from .sample import Fault, Row, Sample, integers, normal


def gated(op: Op) -> Row:
    """A row of a function that halves an axis."""
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((2,), 0),
        ((3, 8), -1),
        ((4, 5), 0),
        ((3, 70, 2), 1),
        ((0, 4), -1),
        ((2, 0), -1),
    ]
    samples = [Sample(f"{shape}-{axis}", (normal(*shape),), {"axis": axis}) for shape, axis in shapes]
    faults = (
        Fault((normal(2, 3),), {}, ShapeError, "axis -1 of shape (2, 3) is halved, but its extent 3 is odd"),
        Fault((normal(2, 4),), {"axis": 2}, ShapeError, "axis 2 is out of range"),
        Fault((integers(4),), {}, DtypeError, "float32"),
    )
    return Row(op, tuple(samples), faults=faults)


CORNERS = points("corners", 0.0, -0.0, 3.0, -3.0, 6.0, -13.5, 14.0, 20.0, -20.0, 60.0, -60.0, 1e-5, 5.999)

ROWS = (
    unary(ops.relu, normal, special()),
    unary(ops.relu6, normal, CORNERS),
    unary(ops.leaky_relu, normal, CORNERS, points("slope", -2.0, 3.0, negative_slope=0.3)),
    unary(ops.elu, normal, CORNERS, points("alpha", -2.0, 3.0, alpha=0.3)),
    unary(ops.selu, normal, CORNERS),
    unary(
        ops.celu,
        normal,
        CORNERS,
        points("alpha", -2.0, 3.0, alpha=0.3),
        faults=(Fault((normal(3),), {"alpha": 0.0}, ValueError, "celu: alpha is above 0, not 0.0"),),
    ),
    unary(
        ops.softplus,
        normal,
        CORNERS,
        points("beta", -2.0, 3.0, 20.0, -90.0, beta=2.0, threshold=5.0),
        faults=(Fault((normal(3),), {"beta": -1.0}, ValueError, "softplus: beta is above 0, not -1.0"),),
    ),
    unary(ops.logsigmoid, normal, CORNERS),
    unary(ops.softsign, normal, CORNERS),
    unary(
        ops.hardtanh,
        normal,
        CORNERS,
        points("bounds", -2.0, -1.0, 0.0, 2.0, 2.5, min_val=-1.0, max_val=2.0),
        faults=(
            Fault(
                (normal(3),), {"min_val": 2.0, "max_val": 1.0}, ValueError, "hardtanh: min_val 2.0 is above max_val 1.0"
            ),
        ),
    ),
    unary(ops.hardsigmoid, normal, CORNERS),
    unary(ops.hardswish, normal, CORNERS),
    unary(ops.silu, normal, CORNERS),
    unary(ops.mish, normal, CORNERS),
    unary(ops.gelu, normal, CORNERS),
    unary(ops.gelu_tanh, normal, CORNERS),
    gated(ops.glu),
    gated(ops.swiglu),
    gated(ops.geglu),
    gated(ops.reglu),
)
