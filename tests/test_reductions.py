"""Cases from public bug reports about reductions and scans, by their numbers; see also test_ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, ShapeError
from gpu_backend.device import GPUDevice


def gradient(function: Callable[[ad.Tensor], ad.Tensor], x: Any) -> Any:
    """The gradient of the sum of a function."""
    leaf = ad.tensor(np.asarray(x, np.float32), requires_grad=True)
    function(leaf).sum().backward()
    assert leaf.grad is not None
    return leaf.grad.numpy()


def test_variance_does_not_cancel(device: Device) -> None:
    """P-WN12: two passes, far from 0; equal elements have none at all."""
    row = (1000 + np.arange(16) * 1e-3).astype(np.float32)
    wide = row.astype(np.float64)
    assert gb.var(gb.array(row)).item() == pytest.approx(wide.var(), rel=1e-6)
    assert gb.std(gb.array(row), correction=1).item() == pytest.approx(wide.std(ddof=1), rel=1e-6)
    np.testing.assert_allclose(gradient(F.var, row), 2 * (wide - wide.mean()) / 16, rtol=1e-5)
    equal = gb.full((3, 256), 1234.0)
    assert gb.var(equal, axis=1).tolist() == [0, 0, 0]
    assert gb.std(equal, axis=1).tolist() == [0, 0, 0]
    assert (gradient(lambda x: F.std(x, axis=1), equal.numpy()) == 0).all()


@pytest.mark.parametrize(("correction", "expected"), [(0, 0.25), (0.5, 1 / 3), (1, 0.5), (2, np.inf), (5, np.inf)])
def test_correction_of_a_variance(correction: float, expected: float, device: Device) -> None:
    x = gb.array([1.0, 2.0])
    assert gb.var(x, correction=correction).item() == pytest.approx(expected)
    assert gb.std(x, correction=correction).item() == pytest.approx(np.sqrt(expected))
    assert np.isnan(gb.var(gb.array([3.0]), correction=1).item())


def test_long_reductions_stay_accurate(device: Device) -> None:
    """P-WN13: four million tenths, their norms, variance, and running sum; a mean over twenty million."""
    tenths = gb.full((4_000_000,), 0.1)
    tenth = float(np.float32(0.1))
    assert gb.sum(tenths).item() == pytest.approx(400000.006, rel=1e-6)
    assert gb.norm(tenths).item() == pytest.approx(2000 * tenth, rel=1e-6)
    assert gb.norm(tenths, 1).item() == pytest.approx(4_000_000 * tenth, rel=1e-6)
    assert gb.var(tenths).item() < 1e-12
    assert gb.logsumexp(tenths).item() == pytest.approx(tenth + np.log(4_000_000), rel=1e-6)
    sums = gb.cumsum(tenths).numpy()
    np.testing.assert_allclose(sums, tenth * np.arange(1, 4_000_001), rtol=1e-6)
    sums = gb.cumsum(tenths.reshape(2_000_000, 2), axis=0).numpy()
    np.testing.assert_allclose(sums, np.outer(tenth * np.arange(1, 2_000_001), [1, 1]), rtol=1e-6)
    assert gb.mean(gb.full((4500, 4500), -1.0)).item() == -1.0


@pytest.mark.parametrize("size", [1, 63, 64, 65, 255, 256, 257, 1000, 961, 2881, 70_000])
def test_prefix_sums_of_integers_are_exact(size: int, device: Device) -> None:
    """P-WN19, P-LM06: along rows and down columns, int32 and uint32, wrapping around; forward and reversed."""
    random = np.random.default_rng(size)
    whole = random.integers(-(2**31), 2**31, (2, size)).astype(np.int32)
    for x in (whole, whole.view(np.uint32)):
        for axis, elements in ((1, x), (0, x.T.copy())):
            np.testing.assert_array_equal(
                gb.cumsum(gb.array(elements), axis=axis).numpy(), np.cumsum(elements, axis=axis, dtype=x.dtype)
            )
            np.testing.assert_array_equal(
                gb.cumprod(gb.array(elements | 1), axis=axis).numpy(),
                np.cumprod(elements | 1, axis=axis, dtype=x.dtype),
            )
    small = random.integers(-9, 10, (2, size)).astype(np.float32)
    np.testing.assert_array_equal(gb.cumsum(gb.array(small), axis=1).numpy(), np.cumsum(small, axis=1))
    weights = ad.tensor(small)
    expected = np.cumsum(small[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_array_equal(gradient(lambda x: F.cumsum(x, axis=1) * weights, small), expected)
    np.testing.assert_array_equal(gb.cumsum(gb.array(small)).numpy(), np.cumsum(small))


def test_maximum_starts_below_everything_and_the_first_of_equals_wins(device: Device) -> None:
    """P-WN20: identity, ties, axes, and merging across workgroups."""
    assert gb.max(gb.array([-5.0, -3.0, -9.0])).item() == -3
    assert gb.argmax(gb.array([-5.0, -3.0, -9.0])).item() == 1
    assert gb.max(gb.full((300,), float("-inf"))).item() == -np.inf
    assert gb.min(gb.full((300,), float("inf"))).item() == np.inf
    assert gb.argmax(gb.full((300,), float("-inf"))).item() == 0
    assert gb.argmax(gb.array([7.0, 7.0, 7.0])).item() == 0
    assert gb.argmax(gb.array([[1.0, 2.0, 3.0]]), axis=0).tolist() == [0, 0, 0]
    assert gb.argmax(gb.full((65_537,), 2.5)).item() == 0
    assert gb.argmin(gb.full((65_537, 2), 2.5), axis=0).tolist() == [0, 0]
    last = np.zeros(100_003, np.float32)
    last[-1] = 1
    assert gb.argmax(gb.array(last)).item() == 100_002
    assert gb.argmin(gb.array(np.outer(-last, [1, 0]).astype(np.float32)), axis=0).tolist() == [100_002, 0]
    last[[500, 99_000]] = np.nan
    assert gb.argmax(gb.array(last)).item() == gb.argmin(gb.array(last)).item() == 500
    assert gb.argmax(gb.array(np.array([3, 2**32 - 1, 5], np.uint32))).item() == 1
    assert gb.argmin(gb.array(np.array([3, -(2**31), 5], np.int32)), keepdims=True).tolist() == [1]
    with pytest.raises(ShapeError, match="nothing to choose from"):
        gb.argmax(gb.array(np.zeros((2, 0), np.float32)), axis=1)


@pytest.mark.parametrize("function", [F.max, F.min, F.amax, F.amin, lambda x: F.norm(x, np.inf)])
@pytest.mark.parametrize("count", [1, 2, 4, 64, 4096])
def test_the_gradients_of_ties_add_up_to_one(function: Any, count: int, device: Device) -> None:
    """P-AG04: each has an equal share."""
    made = gradient(function, np.ones(count))
    assert (made == 1 / count).all()
    assert made.sum() == 1


def test_infinite_elements_share_the_gradient_of_the_largest_norm(device: Device) -> None:
    assert gradient(lambda x: F.norm(x, np.inf), [np.inf, 1, -np.inf, 2]).tolist() == [0.5, 0, -0.5, 0]


AXIS_FUNCTIONS = [F.sum, F.mean, F.max, F.min, F.prod, F.amax, F.amin, F.logsumexp, F.norm]


@pytest.mark.parametrize("function", AXIS_FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("keepdims", [False, True])
def test_gradient_along_a_middle_axis(function: Any, keepdims: bool, device: Device) -> None:
    """P-AG05: of shape (2, 1, 250) along axis 1, whatever keepdims is."""
    made = gradient(lambda x: function(x, axis=1, keepdims=keepdims), np.ones((2, 1, 250)))
    assert made.shape == (2, 1, 250)
    assert (made == 1).all()


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "any", "argmin", "norm", "std", "logsumexp", "cumsum"])
def test_more_rows_than_workgroups_on_an_axis(name: str, adapter: GPUDevice) -> None:
    """P-LM01: 70,000 rows of 200, a workgroup to each, and the last is right."""
    x = np.ones((70_000, 200), np.float32)
    x[-1] = np.linspace(0.5, 1.5, 200)
    op = getattr(gb, name)
    made = op(gb.array(x, device=adapter), axis=1).numpy()
    expected = op.host_forward(x[[0, -1]].astype(np.float64), axis=1)[0]
    np.testing.assert_allclose(made[[0, 69_999, -1]], expected[[0, 1, 1]], rtol=5e-6)
    np.testing.assert_array_equal(made[:-1], np.broadcast_to(made[:1], made[:-1].shape))


def test_reductions_of_nothing(device: Device) -> None:
    """P-LM08: a sum of no rows is 0; gradients have the shape of their input."""
    empty = gb.array(np.zeros((0, 3), np.float32))
    assert gb.sum(empty, axis=0).tolist() == [0, 0, 0]
    assert gb.prod(empty, axis=0).tolist() == [1, 1, 1]
    assert gb.any(empty, axis=0).tolist() == [False] * 3
    assert gb.all(empty, axis=0).tolist() == [True] * 3
    assert gb.count_nonzero(empty, axis=0).tolist() == [0, 0, 0]
    assert gb.norm(empty, axis=0).tolist() == gb.norm(empty, float("inf"), axis=0).tolist() == [0, 0, 0]
    assert gb.logsumexp(empty, axis=0).tolist() == [-np.inf] * 3
    assert np.isnan(gb.var(empty, axis=0).numpy()).all()
    assert gradient(lambda x: F.cumsum(x, axis=1), np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert gradient(lambda x: F.prod(x, axis=1), np.zeros((2, 0, 3))).shape == (2, 0, 3)


@pytest.mark.no_poison
def test_no_elements_take_no_dispatch(device: Device) -> None:
    """P-LM08: scans keep the shape."""
    flat = gb.array(np.zeros((2, 0, 3), np.float32))
    before = device.recorder.dispatches
    for axis in (0, 1, 2):
        assert gb.cumsum(flat, axis=axis).shape == gb.cumprod(flat, axis=axis).shape == (2, 0, 3)
    assert gb.cumsum(flat).shape == (0,)
    assert device.recorder.dispatches == before


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([2, 3, 4], [12, 8, 6]),
        ([2, 0, 4], [0, 8, 0]),
        ([0, 3, 0], [0, 0, 0]),
        ([0], [1]),
    ],
)
def test_gradient_of_a_product_with_zeros(row: list[float], expected: list[float], device: Device) -> None:
    assert gradient(F.prod, row).tolist() == expected
    assert gradient(lambda x: F.prod(x, axis=(0, 2)), np.reshape(row, (-1, 1, 1))).ravel().tolist() == expected


def test_gradient_of_a_cumulative_product_with_zeros(device: Device) -> None:
    assert gradient(lambda x: F.cumprod(x, axis=0), [2, 0, 4, 5]).tolist() == [1, 2 + 8 + 40, 0, 0]
    x = np.random.default_rng(0).uniform(0.9, 1.1, (3, 5000)).astype(np.float32)
    x[0, [1000, 4000]] = 0
    ad.gradient_check(lambda t: F.cumprod(t, axis=1), ad.tensor(x, requires_grad=True))


@pytest.mark.parametrize("order", [1, 2, 3, np.inf])
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e20, 1e38])
def test_norms_neither_overflow_nor_vanish(order: float, scale: float, device: Device) -> None:
    x = (np.array([0.5, -1, 0, 0.25]) * scale).astype(np.float32)
    wide = x.astype(np.float64) / scale
    expected = np.linalg.norm(wide, order)
    assert gb.norm(gb.array(x), order).item() == pytest.approx(expected * scale, rel=2e-6)
    slopes = np.sign(wide) * (wide == wide.min() if order == np.inf else (np.abs(wide) / expected) ** (order - 1))
    np.testing.assert_allclose(gradient(lambda t: F.norm(t, order), x), slopes, rtol=5e-6)
    assert (gradient(lambda t: F.norm(t, order), x * 0) == 0).all()


def test_logsumexp_at_infinities(device: Device) -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 3], [np.inf, 100], [np.inf, np.inf], [1e4, 1e4]], np.float32)
    expected = [-np.inf, 3, np.inf, np.inf, 1e4 + np.log(2)]
    np.testing.assert_allclose(gb.logsumexp(gb.array(x), axis=1).numpy(), expected, rtol=1e-6)
    made = gradient(lambda t: F.logsumexp(t, axis=1), x)
    np.testing.assert_array_equal(made, [[0, 0], [0, 1], [1, 0], [0.5, 0.5], [0.5, 0.5]])


def test_the_gradient_of_a_norm_that_overflows(device: Device) -> None:
    np.testing.assert_allclose(gradient(F.norm, [3e38, -3e38]), [0.70710678, -0.70710678], rtol=1e-6)
    np.testing.assert_allclose(gradient(lambda t: F.norm(t, 3.0), [3e38, 3e38]), [2 ** (-2 / 3)] * 2, rtol=1e-6)
    assert F.norm(ad.tensor([3.0, 4.0]), np.float32(2)).item() == 5
    for wrong in (True, 0, "2", float("nan")):
        with pytest.raises(ValueError, match="norm: ord is a number above 0"):
            F.norm(ad.tensor([1.0]), wrong)  # type: ignore[arg-type]
    for function in (F.var, F.std):
        with pytest.raises(ValueError, match="the correction is a number from 0 on, not nan"):
            function(ad.tensor([1.0]), correction=float("nan"))


def test_truths_of_every_element_type(device: Device) -> None:
    for dtype in ("float32", "float16", "int32", "uint32", "bool"):
        x = gb.astype(gb.array([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), dtype)
        for op, expected in (
            (gb.any, [True, True, False]),
            (gb.all, [False, True, False]),
            (gb.count_nonzero, [1, 3, 0]),
        ):
            made = op(x, axis=1)
            assert made.dtype is (gb.int32 if op is gb.count_nonzero else gb.bool_)
            assert made.tolist() == expected
    odd = gb.array([np.nan, -0.0, np.inf])
    assert gb.count_nonzero(odd).item() == 2
    assert gb.any(odd).item() is True


def test_methods_and_other_names(device: Device) -> None:
    """PyTorch's ``dim`` and ``keepdim``, the array API's names; max over a dimension gives values alone."""
    x = ad.tensor([[1.0, -2.0], [3.0, 4.0]])
    assert x.max(dim=1).tolist() == x.amax(dim=1).tolist() == [1, 4]
    assert x.min(dim=1, keepdim=True).tolist() == [[-2], [3]]
    assert x.argmax(dim=1).tolist() == [0, 1]
    assert x.argmin().item() == 1
    assert x.prod(dim=0).tolist() == [3, -8]
    assert x.var(dim=1, correction=1).tolist() == [4.5, 0.5]
    assert x.std(1, 1).tolist() == pytest.approx([4.5**0.5, 0.5**0.5])
    assert x.norm(1, dim=1).tolist() == F.vector_norm(x, 1, axis=1).tolist() == [3, 7]
    assert x.cumsum(dim=0).tolist() == F.cumulative_sum(x, axis=0).tolist() == [[1, -2], [4, 2]]
    assert x.cumprod(dim=1).tolist() == F.cumulative_prod(x, axis=1).tolist() == [[1, -2], [3, 12]]
    assert x.logsumexp(dim=1).shape == (2,)
    assert x.count_nonzero().item() == 4
    assert not (x > 0).all().item()
    assert (x > 0).any(dim=1).tolist() == [True, True]
