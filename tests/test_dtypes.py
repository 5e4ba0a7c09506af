"""Element types: float16 as storage, promotion, integers past 2^24, bool; and the operators of arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, DtypeError, ops
from gpu_backend.device import HostDevice
from gpu_backend.op_table import TABLE, Row, Sample

ORACLE = HostDevice(np.float64)


def half(x: Any) -> Any:
    return np.asarray(x, np.float16)


def takes_floats(sample: Sample) -> bool:
    return any(isinstance(x, np.ndarray) and x.dtype == np.float32 and x.size for x in sample.inputs)


HALF_ROWS = [
    pytest.param(row, sample, id=f"{row.op.name}-{sample.id}")
    for row in TABLE
    for sample in [s for s in row.samples if takes_floats(s) and s.id not in ("special", "large", "grid")][1:3]
    if row.op is not ops.astype
]


@pytest.mark.parametrize(("row", "sample"), HALF_ROWS)
def test_every_op_takes_float16(row: Row, sample: Sample, device: Device) -> None:
    """It computes in float32 and gives float16, and gradients in float16 (T6)."""
    inputs = [half(x) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x for x in sample.inputs]
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x for x in inputs]
        expected, known = row.op.host_forward(*wide, **sample.attributes)
    arrays = [gb.array(x, device=device) if isinstance(x, np.ndarray) else x for x in inputs]
    y, saved = row.op.run(arrays, sample.attributes)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(y.numpy(), expected)
        return
    assert y.dtype is gb.float16
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-3, atol=1e-3 * scale)
    if row.op.host_backward is None:
        return
    needs = [isinstance(x, gb.ops.update.Array) and x.dtype is gb.float16 for x in arrays]
    dy = np.random.default_rng(1).uniform(0.5, 1, expected.shape).astype(np.float16)
    with np.errstate(all="ignore"):
        wanted = row.op.host_backward(dy.astype(np.float64), known, needs)
    made = row.op.run_backward(gb.array(dy, device=device), saved, needs)
    for dx, goal, need in zip(made, wanted, needs, strict=True):
        if need and goal is not None:
            assert dx is not None
            assert dx.dtype is gb.float16
            scale = float(np.abs(goal).max(initial=1.0))
            np.testing.assert_allclose(dx.numpy(), goal, rtol=2e-3, atol=2e-3 * scale)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 130, 1001])
def test_float16_round_trip(size: int, device: Device) -> None:
    """P-LM09: an odd number of elements ends in the middle of a word."""
    x = half(np.random.default_rng(size).standard_normal(size))
    a = gb.array(x)
    assert a.dtype is gb.float16
    assert a.nbytes == (2 * size + 3) // 4 * 4
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(gb.reshape(a, (size, 1)).numpy(), x[:, None])
    np.testing.assert_array_equal(gb.ops.update.copy(a).numpy(), x)
    np.testing.assert_array_equal(gb.full(size, 1.0009765625, "float16").numpy(), half(np.full(size, 1.0009765625)))
    b = gb.clone(a)
    np.testing.assert_array_equal(gb.astype(gb.astype(b, "float32"), "float16").numpy(), x)


def test_long_sums_of_float16_are_made_in_float32(device: Device) -> None:
    """P-WN14: in float16 the sum would stop at 2048."""
    ones = gb.full(4096, 1.0, "float16")
    assert gb.sum(ones).item() == 4096
    assert gb.mean(ones).item() == 1
    assert abs(float(gb.sum(gb.softmax(ones)).item()) - 1) < 1e-2


def test_the_gradient_of_a_cast_has_the_type_of_its_input(device: Device) -> None:
    """T6, T8: there and back; and of a mixed sum."""
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.astype("float16").astype("float32") * 3.0).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is gb.float32
    assert x.grad.tolist() == [3.0, 3.0, 3.0]
    a = ad.tensor(half([1, 2]), requires_grad=True)
    b = ad.tensor([0.1, 0.2], requires_grad=True)
    y = a * b
    assert y.dtype is gb.float32
    y.sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.dtype, b.grad.dtype) == (gb.float16, gb.float32)
    np.testing.assert_array_equal(a.grad.numpy(), half([0.1, 0.2]))
    (a * a).sum().backward()  # a second gradient is added in float16
    np.testing.assert_array_equal(a.grad.numpy(), half(half([0.1, 0.2]) + half([2, 4])))


PROMOTIONS = [
    ("float16", "float32", "float32"),
    ("float16", "int32", "float16"),
    ("float16", "bool", "float16"),
    ("float32", "int32", "float32"),
    ("float32", "uint32", "float32"),
    ("int32", "bool", "int32"),
    ("uint32", "bool", "uint32"),
    ("bool", "bool", None),
]


@pytest.mark.parametrize(("a", "b", "result"), PROMOTIONS)
def test_operands_meet_in_a_common_type(a: str, b: str, result: str | None, device: Device) -> None:
    x, y = gb.array([1, 0, 1], a), gb.array([1, 1, 0], b)
    assert gb.less(x, y).dtype is gb.bool_
    if result is None:
        assert (x & y).tolist() == [True, False, False]
        with pytest.raises(DtypeError, match="add: takes float32 or int32 or uint32, not bool"):
            gb.add(x, y)
        return
    for one, other in ((x, y), (y, x)):
        made = one + other
        assert made.dtype.name == result
        assert made.tolist() == [2, 1, 1]
        assert F.add(ad.Tensor(one), ad.Tensor(other)).dtype.name == result
        assert gb.where(gb.array([True, False, True]), one, other).dtype.name == result


def test_python_numbers_are_weak(device: Device) -> None:
    assert (gb.array([1, 2]) + 1).dtype is gb.int32
    assert (gb.array([1, 2], "uint32") * 2).dtype is gb.uint32
    assert (gb.array(half([1])) * 2.5).dtype is gb.float16
    assert (gb.array([1, 2]) * 2.5).dtype is gb.float32
    assert (gb.array([True]) | True).dtype is gb.bool_
    assert gb.divide(gb.array([1, 2]), 2).tolist() == [0.5, 1.0]
    with pytest.raises(DtypeError, match="int32 and uint32 have no common type"):
        gb.array([1]) + gb.array([1], "uint32")
    with pytest.raises(DtypeError, match="-1 does not fit uint32"):
        gb.array([1], "uint32") + -1


def test_integers_are_exact_past_what_float32_holds(device: Device) -> None:
    """2^24 + 1 is the first whole number that float32 has not."""
    n = 16777217
    x = gb.array([n, -n, 2**31 - 1])
    assert (x + 0).tolist() == [n, -n, 2**31 - 1]
    assert (x // 2).tolist() == [n // 2, -n // 2, (2**31 - 1) // 2]
    assert (x % 10).tolist() == [7, 3, 7]
    assert gb.maximum(x, n - 1).tolist() == [n, n - 1, 2**31 - 1]
    assert (x == n).tolist() == [True, False, False]
    assert gb.equal(x, gb.array([n - 1, -n + 1, 0])).tolist() == [False, False, False]
    assert gb.sum(gb.array([n, 1, 1])).item() == n + 2
    assert gb.abs(x).tolist() == [n, n, 2**31 - 1]
    assert (gb.array([4097], "uint32") ** 2).tolist() == [4097**2]


def test_integer_division_at_the_ends(device: Device) -> None:
    """P-WN15: what is not defined elsewhere is 0 here, and signs are those of Python."""
    a = gb.array(np.arange(-4, 4, dtype=np.int32))
    assert gb.fmod(a, 3).tolist() == [-1, 0, -2, -1, 0, 1, 2, 0]
    assert (a % 3).tolist() == [2, 0, 1, 2, 0, 1, 2, 0]
    least = gb.array([-(2**31)])
    assert (least // -1).tolist() == [-(2**31)]
    assert (least % -1).tolist() == [0]
    assert (least // 0).tolist() == (least % 0).tolist() == gb.fmod(least, 0).tolist() == [0]


BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


@pytest.mark.parametrize("wrap", [gb.array, ad.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_operators_are_those_of_numpy(op: Any, wrap: Any, device: Device) -> None:
    x = np.array([1.5, 2.0, 3.0, 7.5], np.float32)
    y = np.array([2.0, 2.0, 0.5, 3.0], np.float32)
    np.testing.assert_allclose(op(wrap(x), wrap(y)).numpy(), op(x, y), rtol=1e-6)
    np.testing.assert_allclose(op(wrap(x), 2.0).numpy(), op(x, np.float32(2)), rtol=1e-6)
    np.testing.assert_allclose(op(2.0, wrap(x)).numpy(), op(np.float32(2), x), rtol=1e-6)
    np.testing.assert_allclose(op(x, wrap(y)).numpy(), op(x, y), rtol=1e-6)


@pytest.mark.parametrize("wrap", [gb.array, ad.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_operators_of_bits(op: Any, wrap: Any, device: Device) -> None:
    x, y = np.array([12, 7, -5], np.int32), np.array([3, 1, 2], np.int32)
    np.testing.assert_array_equal(op(wrap(x), wrap(y)).numpy(), op(x, y))
    np.testing.assert_array_equal(op(wrap(x), 2).numpy(), op(x, 2))
    np.testing.assert_array_equal(op(6, wrap(y)).numpy(), op(6, y))
    np.testing.assert_array_equal((~wrap(x)).numpy(), ~x)
    np.testing.assert_array_equal((~wrap(x > 0)).numpy(), x <= 0)


def test_attributes_may_follow_without_names(device: Device) -> None:
    x = gb.array([[1.0, -2.0], [3.0, 4.0]])
    assert gb.sum(x, 0).tolist() == [4.0, 2.0]
    assert gb.reshape(x, (4,)).tolist() == [1.0, -2.0, 3.0, 4.0]
    assert gb.clip(x, 0.0, 3.5).tolist() == [[1.0, 0.0], [3.0, 3.5]]
    assert gb.leaky_relu(x, negative_slope=0.5).tolist() == [[1.0, -1.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="sum: takes 3 arguments, not 4"):
        gb.sum(x, 0, True, 1)
    with pytest.raises(TypeError, match="leaky_relu: no attribute slope; it takes negative_slope"):
        gb.leaky_relu(x, slope=0.5)


def test_an_array_beside_a_tensor_is_on_the_tape(device: Device) -> None:
    """On either side of an operator; what comes out is a tensor."""
    w, a = ad.tensor([1.0, 2.0], requires_grad=True), gb.array([5.0, 6.0])
    for y, gradient in ((a * w, [5, 6]), (w * a, [5, 6]), (a - w, [-1, -1]), (a @ w, [5, 6])):
        assert isinstance(y, ad.Tensor)
        w.grad = None
        y.sum().backward()
        assert w.grad is not None
        np.testing.assert_array_equal(w.grad.numpy(), gradient)
    assert isinstance(a == w, ad.Tensor)


def test_operands_by_name(device: Device) -> None:
    """One that is skipped stays None; none is taken twice, or for another."""
    x, bias = gb.array([[1.0, 2.0], [3.0, 5.0]]), gb.array([10.0, 20.0])
    named = gb.layer_norm(x, bias=bias, normalized_shape=2).numpy()
    np.testing.assert_array_equal(named, gb.layer_norm(x, None, bias, 2).numpy())
    for call, text in (
        (lambda: gb.linear(x, bias=bias), "linear: weight is missing"),
        (lambda: gb.sum(x, 1, axis=0), "sum: axis is given twice"),
        (lambda: gb.add(x, x, b=x), "add: b is given twice"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_gradients_of_masks_and_bounds(device: Device) -> None:
    """masked_fill hands dx on where the mask does not hold; numpy's scalars bound as Python's numbers do."""
    x = ad.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = x.masked_fill(np.array([True, False, False]), np.float32(7))
    assert y.tolist() == [7.0, -2.0, 3.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0]
    x.grad = None
    F.clip(x, np.float32(-2), np.int64(3)).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
