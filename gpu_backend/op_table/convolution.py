"""Rows of convolutions. tests/test_convolution.py has many more combinations of their arguments."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import DtypeError, ShapeError
from .sample import Fault, Row, Sample, integers, normal

# Sums of products round once for each; the largest element of the reference is the measure.
TOLERANCE = 4e-6

Sizes = tuple[int, ...]


def sample(name: str, x: Sizes, weight: Sizes, bias: int = 0, **attributes: Any) -> Sample:
    """A call with normal elements; a bias of so many elements, or none."""
    operands = (normal(*x), normal(*weight, seed=1), *((normal(bias, seed=2),) if bias else ()))
    return Sample(name, operands, attributes)


def conv2d_row() -> Row:
    samples = (
        sample("one", (1, 1, 1, 1), (1, 1, 1, 1)),
        sample("bias", (2, 3, 5, 7), (4, 3, 3, 2), 4, stride=(2, 1), padding=(1, 2)),
        sample("blocks", (3, 9, 11, 13), (17, 9, 3, 3), 17, padding=1),
        sample("groups", (2, 8, 6, 5), (10, 4, 3, 3), 10, groups=2, dilation=2, padding="same"),
        sample("few-rows", (2, 6, 6, 5), (4, 3, 3, 3), 4, groups=2, stride=2),
        sample("depthwise", (2, 5, 9, 6), (10, 1, 3, 3), 10, groups=5, stride=(1, 3), padding=1),
        sample("sides", (1, 4, 6, 6), (5, 4, 4, 4), padding=((0, 3), (2, 1)), dilation=(1, 2)),
        sample("one-tap", (2, 6, 9, 8), (7, 6, 1, 1), 7),
        sample("one-tap-apart", (2, 6, 9, 8), (7, 6, 1, 1), stride=3),
        sample("whole", (2, 6, 4, 3), (5, 6, 4, 3), 5),
        sample("long-sum", (1, 200, 3, 3), (5, 200, 3, 3), padding=1),
        sample("stride-past-the-kernel", (2, 4, 11, 12), (5, 4, 2, 2), stride=(3, 4)),
        sample("empty", (0, 3, 5, 5), (4, 3, 3, 3), 4),
    )
    x, weight = normal(2, 4, 5, 6), normal(6, 4, 3, 3)
    faults = (
        Fault((x, normal(6, 3, 3, 3)), {}, ShapeError, "conv2d: the input has 4 channels"),
        Fault((x, weight), {"groups": 2}, ShapeError, "with 2 groups wants 8"),
        Fault((x, normal(5, 2, 3, 3)), {"groups": 2}, ShapeError, "5 channels of the weight (5, 2, 3, 3) do not"),
        Fault((x, weight), {"groups": 0}, ShapeError, "groups is a number from 1 on, not 0"),
        Fault((x, normal(6, 4, 7, 3)), {}, ShapeError, "a kernel of (7, 3) is larger than the padded input, (5, 6)"),
        Fault((x, weight), {"dilation": 3}, ShapeError, "a kernel of (3, 3) at dilation (3, 3) is larger"),
        Fault((x, weight), {"stride": 0}, ShapeError, "conv2d: stride is positive, not 0"),
        Fault((x, weight), {"stride": (1, 1, 1)}, ShapeError, "stride is a number or 2 of them, not (1, 1, 1)"),
        Fault((x, weight), {"padding": -1}, ShapeError, "padding is 0 or more, not -1"),
        Fault((x, weight), {"padding": "full"}, ShapeError, "padding is numbers, 'same' or 'valid', not 'full'"),
        Fault((x, weight), {"padding": "same", "stride": 2}, ShapeError, "'same' wants a stride of 1, not (2, 2)"),
        Fault((x, weight), {"padding": ((1, 2),)}, ShapeError, "padding has 1 pairs for 2 dimensions"),
        Fault((x[0], weight), {}, ShapeError, "the input has shape (4, 5, 6), not (N, C, H, W)"),
        Fault((x, weight[0]), {}, ShapeError, "has shape (4, 3, 3), not (channels made, channels read, H, W)"),
        Fault((x, normal(6, 4, 0, 3)), {}, ShapeError, "the weight (6, 4, 0, 3) is empty"),
        Fault((x, normal(6, 4, 256, 256)), {}, ShapeError, "more than 16384 taps"),
        Fault((x, weight, normal(5)), {}, ShapeError, "the bias has shape (5,), 6 channels want (6,)"),
        Fault((integers(2, 4, 5, 6), weight), {}, DtypeError, "conv2d: takes float32, not int32"),
        Fault((2.0, weight), {}, ShapeError, "the input is an array, not the number 2.0"),
    )  # fmt: skip
    return Row(ops.conv2d, samples, TOLERANCE, faults=faults)


def conv1d_row() -> Row:
    samples = (
        sample("bias", (2, 3, 11), (4, 3, 3), 4, stride=2, padding=1),
        sample("long-lines", (2, 2, 300), (5, 2, 3), dilation=4, padding="same"),
        sample("sides", (1, 4, 6), (6, 2, 4), groups=2, padding=((3, 0),)),
        sample("depthwise", (3, 4, 9), (4, 1, 2), 4, groups=4),
        sample("one-tap", (2, 5, 90), (3, 5, 1), 3),
    )
    faults = (
        Fault((normal(2, 3, 4, 5), normal(4, 3, 3)), {}, ShapeError, "conv1d: the input has shape (2, 3, 4, 5), not"),
        Fault((normal(2, 3, 4), normal(4, 3, 5)), {}, ShapeError, "kernel of (5,) is larger than the padded"),
    )  # fmt: skip
    return Row(ops.conv1d, samples, TOLERANCE, faults=faults)


def conv3d_row() -> Row:
    samples = (
        sample("bias", (2, 3, 4, 5, 6), (5, 3, 2, 3, 2), 5, stride=(1, 2, 1), padding=(1, 0, 2)),
        sample("groups", (1, 8, 4, 4, 5), (8, 4, 2, 2, 3), groups=2, dilation=(2, 1, 2), padding=1),
        sample("depthwise", (1, 2, 4, 5, 3), (2, 1, 3, 3, 3), 2, groups=2, padding="same"),
    )
    fault = Fault((normal(2, 3, 4, 5), normal(4, 3, 3, 3)), {}, ShapeError, "not (N, C, D, H, W)")
    return Row(ops.conv3d, samples, TOLERANCE, faults=(fault,))


def transposed_rows() -> tuple[Row, ...]:
    lines = (
        sample("bias", (2, 3, 5), (3, 4, 3), 4, stride=2, padding=1, output_padding=1),
        sample("groups", (1, 4, 7), (4, 5, 4), groups=2, dilation=3),
        sample("sides", (1, 4, 7), (4, 5, 4), padding=((2, 0),), stride=3),
    )
    planes = (
        sample("one", (1, 1, 1, 1), (1, 1, 1, 1)),
        sample("bias", (2, 9, 5, 4), (9, 17, 3, 3), 17, stride=(2, 1), padding=1, output_padding=(1, 0)),
        sample("depthwise", (2, 5, 4, 6), (5, 1, 3, 3), 5, groups=5, stride=2),
        sample("groups", (2, 8, 4, 6), (8, 5, 2, 3), 10, groups=2, dilation=2, padding=2),
        sample("one-tap", (2, 6, 9, 8), (6, 7, 1, 1), 7),
        sample("output-padding-past-the-padding", (1, 4, 3, 3), (4, 5, 2, 2), stride=4, output_padding=3),
        sample("empty", (0, 3, 5, 5), (3, 4, 3, 3), 4),
    )
    x, weight = normal(2, 4, 3, 3), normal(4, 6, 3, 3)
    faults = (
        Fault((x, normal(6, 4, 3, 3)), {}, ShapeError, "the input has 4 channels, the weight (6, 4, 3, 3) wants 6"),
        Fault((x, weight), {"groups": 3}, ShapeError, "4 channels do not divide into 3 groups"),
        Fault((x, weight), {"output_padding": 1}, ShapeError, "output padding of 1 must be smaller than the stride 1"),
        Fault((x, weight), {"padding": 3}, ShapeError, "leaves nothing of an input of (3, 3)"),
        Fault((x, weight), {"padding": "same"}, ShapeError, "padding is a number of elements, not 'same'"),
        Fault((x, weight), {"stride": -1}, ShapeError, "stride is positive, not -1"),
        Fault((x, weight, normal(4)), {}, ShapeError, "the bias has shape (4,), 6 channels want (6,)"),
    )  # fmt: skip
    return (
        Row(ops.conv_transpose1d, lines, TOLERANCE),
        Row(ops.conv_transpose2d, planes, TOLERANCE, faults=faults),
    )


ROWS = (conv1d_row(), conv2d_row(), conv3d_row(), *transposed_rows())
