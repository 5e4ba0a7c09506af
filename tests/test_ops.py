"""Every op of the catalogue, by the table: forward and backward, kernels and twins, against float64."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gradient_check import check_twin

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, Op, ops
from gpu_backend.array import Array
from gpu_backend.device import GPUDevice
from gpu_backend.op_table import TABLE, Fault, Row, Sample, on
from gpu_backend.op_table.run import check
from gpu_backend.spec import uint32

SAMPLES = [pytest.param(row, sample, id=f"{row.op.name}-{sample.id}") for row in TABLE for sample in row.samples]
FAULTS = [pytest.param(row.op, fault, id=f"{row.op.name}-{n}") for row in TABLE for n, fault in enumerate(row.faults)]


def check_tail(x: Array) -> None:
    """Nothing was stored past the last element: the buffer's tail still holds the poison it was taken with."""
    if not x.device.is_host and x.device.pool.on_take is not None:
        words = Array(x.storage, (x.storage.buffer.nbytes // 4,), uint32, x.device).numpy()
        assert (words[x.nbytes // 4 :] == 0x7FC00000).all(), f"written past the end of shape {x.shape}"


@pytest.mark.parametrize(("row", "sample"), SAMPLES)
def test_op_agrees_with_float64(row: Row, sample: Sample, device: Device) -> None:
    """Values and gradients; a gradient has the shape of its input (T6)."""
    check(row, sample, device, check_tail)


def is_smooth(row: Row, sample: Sample) -> bool:
    """Whether finite differences apply: a float result with elements, finite, from float inputs at a moderate scale."""
    if row.op.host_backward is None or row.op is ops.astype or sample.has_corners:
        return False
    with np.errstate(all="ignore"):
        y, _ = row.op.host_forward(*sample.inputs, **sample.attributes)
    floats = [x for x in sample.inputs if isinstance(x, np.ndarray) and x.dtype == np.float32]
    return bool(
        floats
        and y.dtype.kind == "f"
        and y.size
        and np.isfinite(y).all()
        and all(x.size and np.abs(x).max() < 10 for x in floats)
    )


SMOOTH = [
    pytest.param(row, sample, id=f"{row.op.name}-{sample.id}")
    for row in TABLE
    for sample in row.samples
    if is_smooth(row, sample)
]


@pytest.mark.parametrize(("row", "sample"), SMOOTH)
def test_twin_gradient_agrees_with_finite_differences(row: Row, sample: Sample) -> None:
    """T3: the gradient of every differentiable op exists and is right."""
    check_twin(row.op, sample.inputs, sample.attributes)


def test_every_op_with_a_gradient_is_checked_by_finite_differences() -> None:
    checked = {param.values[0].op for param in SMOOTH}  # type: ignore[union-attr]
    assert checked == {op for op in ops.OPS if op.backward is not None} - {ops.astype}


@pytest.mark.parametrize(("op", "fault"), FAULTS)
def test_wrong_input_raises_before_anything_is_recorded(op: Op, fault: Fault, device: Device) -> None:
    inputs = on(device, fault.inputs)
    before = device.recorder.dispatches
    with pytest.raises(fault.error) as raised:
        op.run(inputs, fault.attributes)
    assert fault.text in str(raised.value)
    assert str(raised.value).startswith(op.name) or "element type" in str(raised.value)
    assert device.recorder.dispatches == before


def test_catalogue_and_table_are_the_same() -> None:
    assert len(TABLE) == len(ops.OPS)
    assert {row.op for row in TABLE} == set(ops.OPS)
    assert len({op.name for op in ops.OPS}) == len(ops.OPS)
    for op in ops.OPS:
        assert getattr(gb, op.name) is op
        assert op.__doc__
        assert op.backward is None or re.search(r"d\w+'? ?=|d\w+_nc =", op.__doc__), (
            f"{op.name}: no formula of the gradient"
        )


@pytest.fixture
def folded(adapter: GPUDevice) -> Iterator[GPUDevice]:
    """The adapter with a grid of at most 61 workgroups on an axis."""
    adapter.recorder.max_groups_per_axis = 61
    yield adapter
    adapter.recorder.max_groups_per_axis = 65535


FOLDED = [
    Sample("unary", (np.linspace(-2, 2, 16001, dtype=np.float32),)),
    Sample("pair", (np.ones((130, 123), np.float32), np.arange(123, dtype=np.float32))),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        (ops.tanh, FOLDED[0].inputs, {}),
        (ops.multiply, FOLDED[1].inputs, {}),
        (ops.where, (FOLDED[1].inputs[1] > 50, *FOLDED[1].inputs), {}),
        (ops.astype, FOLDED[0].inputs, {"dtype": "int32"}),
        (ops.permute_dims, (np.arange(16000, dtype=np.float32).reshape(100, 160),), {"axes": (1, 0)}),
        (ops.roll, (np.arange(16001, dtype=np.float32),), {"shift": 777}),
        (ops.concat, (np.arange(9001, dtype=np.float32), np.ones(4001, np.float32)), {"axis": 0}),
        (ops.pad, (np.arange(9001, dtype=np.float32),), {"pad_width": ((999, 1001),), "mode": "reflect"}),
        (ops.tril, (np.ones((110, 90), np.float32),), {"k": 3}),
        (ops.swiglu, (np.linspace(-1, 1, 16000, dtype=np.float32),), {}),
        (ops.lerp, (np.ones((130, 123), np.float32), np.arange(123, dtype=np.float32), 0.25), {}),
        (ops.sum, (np.ones((130, 150), np.float32),), {"axis": 1}),
        (ops.sum, (np.ones((9, 17000), np.float32),), {"axis": 0}),
        (ops.max, (np.linspace(-1, 1, 130 * 150, dtype=np.float32).reshape(130, 150),), {"axis": 1}),
        (ops.min, (np.linspace(-1, 1, 16001, dtype=np.float32).reshape(1, 16001, 1),), {"axis": 0}),
        (ops.any, (np.eye(140, 200, dtype=np.float32),), {"axis": 1}),
        (ops.argmax, (np.linspace(-1, 1, 130 * 150, dtype=np.float32).reshape(130, 150),), {"axis": 1}),
        (ops.argmin, (np.linspace(-1, 1, 3 * 8000, dtype=np.float32).reshape(3, 8000),), {"axis": 0}),
        (ops.cumsum, (np.linspace(-1, 1, 130 * 150, dtype=np.float32).reshape(130, 150),), {"axis": 1}),
        (ops.cumsum, (np.ones((9, 17000), np.float32),), {"axis": 0}),
        (ops.cumprod, (np.linspace(0.99, 1.01, 40 * 8000, dtype=np.float32).reshape(40, 8000),), {"axis": 0}),
        (ops.prod, (np.linspace(0.99, 1.01, 130 * 150, dtype=np.float32).reshape(130, 150),), {"axis": 1}),
        (ops.norm, (np.linspace(-1, 1, 130 * 150, dtype=np.float32).reshape(130, 150),), {"ord": 3, "axis": 1}),
        (ops.softmax, (np.linspace(-1, 1, 140 * 6, dtype=np.float32).reshape(140, 6),), {"axis": 1}),
        (ops.log_softmax, (np.linspace(-1, 1, 140 * 6, dtype=np.float32).reshape(140, 6),), {"axis": 1}),
        (
            ops.layer_norm,
            (np.linspace(-2, 2, 130 * 4000, dtype=np.float32).reshape(130, 4000), *np.ones((2, 4000), np.float32)),
            {"normalized_shape": 4000},
        ),
        (
            ops.embedding,
            (np.maximum(np.arange(40_000, dtype=np.int32) * 7919 % 8200 - 4100, 7), np.ones((4100, 2), np.float32)),
            {},
        ),
        (
            ops.rotary_embedding,
            (np.linspace(-2, 2, 20_000, dtype=np.float32).reshape(10, 40, 50), *np.ones((2, 40, 25), np.float32)),
            {},
        ),
        (ops.cross_entropy, (np.eye(140, 7, dtype=np.float32), np.arange(140, dtype=np.int32) % 7), {}),
        (ops.matmul, (np.ones((140, 2, 3), np.float32), np.ones((140, 3, 2), np.float32)), {}),
        (ops.matmul, (np.ones((700, 5), np.float32), np.ones((5, 600), np.float32)), {}),
        (ops.conv2d, (np.ones((70, 2, 30, 31), np.float32), np.ones((9, 2, 1, 3), np.float32)), {}),
        (
            ops.conv2d,
            (np.linspace(-1, 1, 70 * 48, dtype=np.float32).reshape(70, 3, 4, 4), np.ones((70, 3, 2, 2), np.float32)),
            {"padding": 1},
        ),
        (ops.conv1d, (np.ones((2, 90, 70), np.float32), np.ones((90, 1, 2), np.float32), np.ones(90)), {"groups": 90}),
        (ops.max_pool2d, (np.linspace(-1, 1, 16_000, dtype=np.float32).reshape(40, 2, 20, 10),), {"kernel_size": 1}),
        (ops.avg_pool2d, (np.linspace(-1, 1, 16_000, dtype=np.float32).reshape(40, 2, 20, 10),), {"kernel_size": 1}),
        (ops.interpolate, (np.linspace(-1, 1, 9000, dtype=np.float32).reshape(90, 2, 50),), {"scale_factor": 2}),
        (ops.unfold, (np.linspace(-1, 1, 70 * 90, dtype=np.float32).reshape(70, 3, 5, 6),), {"kernel_size": 2}),
        (ops.fold, (np.ones((70, 12, 20), np.float32),), {"output_size": (5, 6), "kernel_size": 2}),
        (ops.batch_norm, (np.linspace(-2, 2, 9000, dtype=np.float32).reshape(2, 150, 30), None, None, None), {}),
        (ops.linear, (np.ones((4200, 3), np.float32), np.ones((2, 3), np.float32), np.ones(2, np.float32)), {}),
    ],
)
def test_every_kernel_folds_its_grid(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], folded: GPUDevice
) -> None:
    """K2: forward and backward past the groups of one axis; the tail of the last row writes nothing."""
    check(next(row for row in TABLE if row.op is op), Sample("folded", inputs, attributes), folded)


@pytest.mark.parametrize(
    "op", [ops.add, ops.subtract, ops.multiply, ops.divide, ops.equal, ops.less], ids=lambda op: op.name
)
def test_both_operands_may_be_one_array(op: Op, device: Device) -> None:
    """P-LM10: one buffer bound twice for reading."""
    x = np.array([[1.0, -2.0], [0.5, 4.0]], np.float32)
    a = gb.array(x)
    np.testing.assert_array_equal(op(a, a).numpy(), op.host_forward(x, x)[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t + t,
        lambda t: t - t * 1.0,
        lambda t: t * t,
        lambda t: t / t * t,
        lambda t: t @ t,
        lambda t: F.matmul(t, t, transpose_a=True),
        lambda t: F.matmul(t, t, transpose_b=True),
        lambda t: F.linear(t, t),
        lambda t: F.where(t > 1.0, t, t),
        lambda t: F.mse(t, t * 2.0),
    ],
)
def test_gradients_where_all_arguments_are_one_tensor(function: Any, device: Device) -> None:
    """P-LM10 and the backward: each use adds its share."""
    t = ad.tensor(np.random.default_rng(0).uniform(0.5, 2, (4, 4)), requires_grad=True)
    ad.gradient_check(function, t)


def test_all_arguments_may_be_one_array(device: Device) -> None:
    """P-LM10: matmul(x, x^T), where(c, x, x), linear(x, x, x's row)."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    a = gb.array(x)
    np.testing.assert_array_equal(gb.matmul(a, a, transpose_b=True).numpy(), x @ x.T)
    np.testing.assert_array_equal(gb.linear(a, a).numpy(), x @ x.T)
    condition = gb.greater(a, 3.0)
    np.testing.assert_array_equal(gb.where(condition, a, a).numpy(), x)
    np.testing.assert_array_equal(gb.where(condition, condition, condition).numpy(), x > 3)
