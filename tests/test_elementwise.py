"""Elementwise functions over the whole range of their arguments, and cases that others got wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, ShapeError
from gpu_backend.device import GPUDevice

RNG = np.random.default_rng(0)
COUNT = 20_000


def logs(low: float, high: float, signed: bool = True) -> Any:
    """Numbers whose logarithms are evenly distributed, of both signs."""
    x = np.exp(RNG.uniform(np.log(low), np.log(high), COUNT))
    return (x * (RNG.choice([-1, 1], COUNT) if signed else 1)).astype(np.float32)


def evenly(low: float, high: float) -> Any:
    return RNG.uniform(low, high, COUNT).astype(np.float32)


ULPS = 6
RANGES = {
    "exp": (np.exp, evenly(-86, 88)),
    "exp2": (np.exp2, evenly(-125, 127)),
    "expm1": (np.expm1, logs(1e-8, 80)),
    "log": (np.log, np.concatenate([logs(1e-37, 1e38, False), evenly(0.9, 1.1)])),
    "log2": (np.log2, np.concatenate([logs(1e-37, 1e38, False), evenly(0.9, 1.1)])),
    "log10": (np.log10, np.concatenate([logs(1e-37, 1e38, False), evenly(0.9, 1.1)])),
    "log1p": (np.log1p, np.concatenate([logs(1e-8, 1e30, False), evenly(-0.99, 0.5)])),
    "sin": (np.sin, np.concatenate([evenly(-8000, 8000), logs(1e-5, 3e38)])),
    "cos": (np.cos, np.concatenate([evenly(-8000, 8000), logs(1e-5, 3e38)])),
    "tan": (np.tan, evenly(-8000, 8000)),
    "asin": (np.arcsin, evenly(-1, 1)),
    "acos": (np.arccos, evenly(-1, 1)),
    "atan": (np.arctan, logs(1e-5, 1e10)),
    "sinh": (np.sinh, logs(1e-5, 88)),
    "cosh": (np.cosh, evenly(-88, 88)),
    "tanh": (np.tanh, logs(1e-5, 20)),
    "asinh": (np.arcsinh, logs(1e-5, 1e30)),
    "acosh": (np.arccosh, logs(1.0001, 1e30, False)),
    "atanh": (np.arctanh, evenly(-0.999, 0.999)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), evenly(-80, 80)),
    "erf": (np.vectorize(math.erf), logs(1e-5, 5)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), logs(1e-30, 1e30, False)),
    "reciprocal": (lambda x: 1 / x, logs(1e-30, 1e30)),
}


def ulps(made: Any, right: Any, smallest: float = 0.0) -> float:
    """The largest distance, in units of the last place of the right value, or of ``smallest`` below that."""
    step = np.spacing(np.maximum(np.abs(right), smallest).astype(np.float32)).astype(np.float64)
    return float((np.abs(made.astype(np.float64) - right) / step).max())


@pytest.mark.parametrize("name", RANGES)
def test_functions_are_right_to_the_last_bits(name: str, gpu: GPUDevice) -> None:
    """Whatever the adapter's built-ins do. Measured: at most 4.8 ulp. Where an angle is close to a multiple of a
    quarter turn, and its sine or cosine to 0, the error is one of the reduced angle.
    """
    function, x = RANGES[name]
    smallest = 1e-3 if name in ("sin", "cos", "tan") else 0.0
    assert ulps(getattr(gb, name)(gb.array(x)).numpy(), function(x.astype(np.float64)), smallest) < ULPS


def test_powers_are_right_to_the_last_bits(gpu: GPUDevice) -> None:
    """The error grows with the exponent: measured 5 ulp up to 5 and 27 up to 30."""
    for largest, bound in ((5, ULPS), (30, 40)):
        a, b = logs(0.1, 10, False), evenly(-largest, largest)
        right = a.astype(np.float64) ** b
        fits = (right < 3e38) & (right > 1e-37)
        assert ulps(gb.power(gb.array(a), gb.array(b)).numpy()[fits], right[fits]) < bound


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_are_exact(name: str, device: Device) -> None:
    a, b = logs(1e-10, 1e15), logs(1e-3, 1e5)
    right = getattr(np, name)(a, b)
    np.testing.assert_array_equal(getattr(gb, name)(gb.array(a), gb.array(b)).numpy(), right)


def test_tanh_of_anything(device: Device) -> None:
    """P-WN01: the built-in overflows."""
    x = ad.tensor([0.0, 20.0, 89.0, 1000.0, -1000.0, 3e38], requires_grad=True)
    y = x.tanh()
    assert y.tolist() == [0, 1, 1, 1, -1, 1]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 0, 0, 0, 0, 0]


def test_gelu_of_anything(device: Device) -> None:
    """P-WN02: the cube inside the tanh overflows early."""
    x = ad.tensor([-20.0, -13.5, 0.0, 3.0, 14.0, -1e30, 1e30], requires_grad=True)
    for form in ("tanh", "none"):
        y = F.gelu(x, approximate=form)
        right = {"tanh": 2.9963626, "none": 2.9959502}[form]
        np.testing.assert_allclose(y.numpy(), [0, 0, 0, right, 14, 0, np.float32(1e30)], atol=1e-6)
        x.grad = None
        y.sum().backward()
        assert x.grad is not None
        assert bool(np.isfinite(x.grad.numpy()).all())
        np.testing.assert_allclose(x.grad.numpy()[[0, 2, 4, 5, 6]], [0, 0.5, 1, 0, 1], atol=1e-6)
    with pytest.raises(ValueError, match="approximate is 'none' or 'tanh', not 'erf'"):
        F.gelu(x, approximate="erf")


def test_power_of_a_negative_base(device: Device) -> None:
    """P-WN04: whole exponents work, others give NaN."""
    made = gb.power(gb.array([-2.0, -2.0, -4.0, 0.0, 2.0]), gb.array([2.0, 3.0, 1.5, 0.0, -1.0])).numpy()
    np.testing.assert_array_equal(made, np.array([4, -8, np.nan, 1, 0.5], np.float32))


def test_gradient_of_a_power(device: Device) -> None:
    """P-WN05: 0 at 0 where log(0) would make it NaN; NaN below, as in PyTorch."""
    x = ad.tensor([-3.0, 0.0, 2.0], requires_grad=True)
    (x**2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-6, 0, 4]
    x = ad.tensor([-2.0, 0.0, 2.0], requires_grad=True)
    e = ad.tensor([2.0, 2.0, 2.0], requires_grad=True)
    (x**e).sum().backward()
    assert x.grad is not None
    assert e.grad is not None
    assert x.grad.tolist() == [-4, 0, 4]
    np.testing.assert_allclose(e.grad.numpy(), [np.nan, 0, 2.7725887], rtol=1e-6)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share_the_gradient(name: str, device: Device) -> None:
    """P-AG04: the total is 1."""
    a = ad.tensor([1.0, 2.0, 1.0], requires_grad=True)
    b = ad.tensor([1.0, 1.0, 3.0], requires_grad=True)
    getattr(F, name)(a, b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == ([0.5, 1, 0] if name == "maximum" else [0.5, 0, 1])
    np.testing.assert_array_equal(a.grad.numpy() + b.grad.numpy(), np.ones(3))


def test_the_branch_not_taken(device: Device) -> None:
    """P-AG06: the forward is that of the branch; the NaN slope of the other one stays, as in PyTorch."""
    x = ad.tensor([-1.0, -4.0, 4.0], requires_grad=True)
    y = F.where(x > 0, x.sqrt(), x)
    assert y.tolist() == [-1, -4, 2]
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [np.nan, np.nan, 0.25])


def test_a_comparison_in_the_middle(device: Device) -> None:
    """P-AG08."""
    t = ad.tensor([-2.0, 1.0], requires_grad=True)
    (t * (t < 0)).sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [1, 0]


def test_straight_through(gpu: GPUDevice) -> None:
    """P-CS07: rounded forward, the identity backward, also when replayed with other numbers."""

    @ad.compiled
    def through(x: ad.Tensor) -> ad.Tensor:
        return x + (x.round() - x).detach()

    for values in ([0.2, 1.7], [2.5, -3.6], [0.5, 1.5]):
        np.testing.assert_array_equal(through(ad.tensor(values)).numpy(), np.round(np.array(values, np.float32)))
    x = ad.tensor([0.2, 1.7], requires_grad=True)
    (x + (x.round() - x).detach()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1]


def test_clip_takes_numbers_and_tensors(device: Device) -> None:
    x = ad.tensor([-2.0, 0.5, 3.0, np.nan], requires_grad=True)
    np.testing.assert_array_equal(x.clip(-1, 1).numpy(), [-1, 0.5, 1, np.nan])
    np.testing.assert_array_equal(x.clamp(min=0.75).numpy(), [0.75, 0.75, 3, np.nan])
    low = ad.tensor([-3.0, 1.0, 0.0, 0.0], requires_grad=True)
    made = x.clip(low, 2.0)
    np.testing.assert_array_equal(made.numpy(), [-2, 1, 2, np.nan])
    made.sum().backward()
    assert low.grad is not None
    np.testing.assert_array_equal(low.grad.numpy()[:3], [0, 1, 0])
    assert ad.tensor([5, -5, 2]).clip(-3, 3).tolist() == [3, -3, 2]


def test_prelu_has_one_slope_or_one_for_each_channel(device: Device) -> None:
    x = ad.tensor(RNG.standard_normal((2, 3, 4)), requires_grad=True)
    for weight in ([0.25], [0.1, 0.2, 0.3]):
        w = ad.tensor(weight, requires_grad=True)
        slopes = np.array(weight, np.float32)[None, :, None] if len(weight) > 1 else np.float32(weight[0])
        a = x.numpy()
        np.testing.assert_allclose(F.prelu(x, w).numpy(), np.where(a > 0, a, slopes * a), rtol=1e-6)
        ad.gradient_check(F.prelu, x, w)
    with pytest.raises(ShapeError, match=r"prelu: the weight has shape \(2,\)"):
        F.prelu(x, ad.tensor([0.1, 0.2]))


def test_gated_activations_halve_an_axis(device: Device) -> None:
    """The first half is what is gated, as in PyTorch's glu; ``dim`` is ``axis``."""
    x = ad.tensor([[1.0, 2.0, 0.0, 100.0]], requires_grad=True)
    assert F.glu(x).tolist() == [[0.5, 2.0]]
    assert F.reglu(x, dim=1).tolist() == [[0.0, 200.0]]
    assert F.swiglu(x, axis=-1).tolist() == [[0.0, 200.0]]
    for function in (F.glu, F.swiglu, F.geglu):
        ad.gradient_check(function, ad.tensor(RNG.standard_normal((3, 6)), requires_grad=True))
