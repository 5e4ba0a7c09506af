"""Clipping and judging gradients: against float64, at the ends of the range, with what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device
from gpu_backend.ops import gradient


def parameters(*gradients: np.ndarray) -> list[nn.Parameter]:
    """Parameters with these gradients."""
    made = []
    for g in gradients:
        p = nn.Parameter(np.zeros(g.shape))
        p.grad = ad.tensor(g.astype(np.float32))
        made.append(p)
    return made


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30, 1e-20])
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_norm_and_coefficient(scale: float, max_norm: float, device: Device) -> None:
    """Several shapes, one longer than a chunk; squares at these scales would overflow or vanish."""
    random = np.random.default_rng(0)
    given = [(random.standard_normal(shape) * scale).astype(np.float32) for shape in ((3, 5), (1,), (9001,), (0, 4))]
    params = [*parameters(*given), nn.Parameter([1.0])]
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in given))
    got = nn.utils.clip_grad_norm_(params, max_norm)
    assert got.shape == ()
    np.testing.assert_allclose(got.item(), norm, rtol=1e-6)
    coefficient = min(1.0, max_norm / (norm + 1e-6))
    for p, g in zip(params, given, strict=False):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), g * coefficient, rtol=2e-6, atol=0)
    assert params[-1].grad is None


def test_a_norm_past_the_range_scales_right(device: Device) -> None:
    (p,) = parameters(np.full(10_000, 1e38))
    assert np.isinf(nn.utils.clip_grad_norm_(p, 1.0).item())
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), 0.01, rtol=1e-5)


@pytest.mark.parametrize(("bad", "norm"), [(np.nan, np.nan), (np.inf, np.inf), (-np.inf, np.inf)])
def test_what_is_not_finite_shows_in_the_norm(bad: float, norm: float, device: Device) -> None:
    a, b = parameters(np.array([1.0, bad, 2.0]), np.ones(3))
    np.testing.assert_equal(nn.utils.clip_grad_norm_([a, b], 1.0).item(), norm)
    assert a.grad is not None
    assert np.isnan(a.grad.numpy()[1])


def test_no_gradient_at_all_and_zero_gradients(device: Device) -> None:
    assert nn.utils.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0.0
    (p,) = parameters(np.zeros(3))
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == 0.0
    assert p.grad is not None
    assert p.grad.tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="max_norm is 0 or more, not -1"):
        nn.utils.clip_grad_norm_([p], -1.0)


def test_values_are_clipped(device: Device) -> None:
    (p,) = parameters(np.array([-3.0, -0.5, 0.0, 0.25, 9.0, np.inf, -np.inf, np.nan]))
    nn.utils.clip_grad_value_([p], 0.5)
    assert p.grad is not None
    np.testing.assert_array_equal(p.grad.numpy(), np.float32([-0.5, -0.5, 0, 0.25, 0.5, 0.5, -0.5, np.nan]))
    with pytest.raises(ValueError, match="the bound is 0 or more"):
        nn.utils.clip_grad_value_([p], -1.0)


def test_clipping_notices_a_clone(device: Device) -> None:
    """In place, where the gradient lies; a clone of it stays as it was."""
    (p,) = parameters(np.full(4, 2.0))
    assert p.grad is not None
    copy = p.grad.clone()
    nn.utils.clip_grad_value_([p], 1.0)
    assert copy.tolist() == [2.0] * 4
    assert p.grad.tolist() == [1.0] * 4


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [optim.SGD, lambda p, **o: optim.SGD(p, momentum=0.9, **o), optim.Adam, optim.AdamW])
def test_a_step_that_is_not_finite_changes_nothing(bad: float, make: object, device: Device) -> None:
    """C16 in eager form, on both devices: one element of the last gradient is enough."""
    ps = parameters(np.ones(70), np.ones(3))
    optimizer = make(ps, lr=0.5, skip_nonfinite=True)  # type: ignore[operator]
    optimizer.step()
    before = [p.numpy() for p in ps]
    state = [m.numpy() for s in optimizer._states for row in s.moments for m in row]
    ps[1].grad = ad.tensor(np.array([1.0, 1.0, bad], np.float32))
    for _ in range(2):
        optimizer.step()
    for p, was in zip(ps, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), was)
    for moment, was in zip((m for s in optimizer._states for row in s.moments for m in row), state, strict=True):
        np.testing.assert_array_equal(moment.numpy(), was)
    assert optimizer.skipped_steps == 2
    ps[1].grad = ad.tensor(np.ones(3, np.float32))
    optimizer.step()
    assert optimizer.skipped_steps == 2
    assert not np.array_equal(ps[0].numpy(), before[0])


def test_wrong_arguments_are_named(device: Device) -> None:
    x = gb.array(np.ones(3, np.int32))
    with pytest.raises(gb.DtypeError, match="clip_value: takes float32, not int32"):
        gradient.clip_value([x], 1.0)


def test_operands_on_two_devices_are_told(adapter: Device, host: Device) -> None:
    one, other = (gb.array([1.0], device=d) for d in (adapter, host))
    with pytest.raises(gb.DeviceError, match="clip_norm: operands are on two devices"):
        gradient.clip_norm([one, other], 1.0)


def test_every_kernel_folds_its_grid(adapter: gb.Device) -> None:
    """K2: norm, scale, clamp, judgement and updates past the groups of one axis."""
    with gb.default_device(adapter):
        adapter.recorder.max_groups_per_axis = 61  # type: ignore[attr-defined]
        try:
            g = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
            (p,) = parameters(g)
            norm = np.linalg.norm(g.astype(np.float64))
            np.testing.assert_allclose(nn.utils.clip_grad_norm_([p], 1.0).item(), norm, rtol=1e-6)
            optimizer = optim.AdamW([p], lr=0.1, eps=1e-16, weight_decay=0.0, skip_nonfinite=True)
            optimizer.step()
            np.testing.assert_allclose(p.numpy(), -0.1 * np.sign(g), rtol=1e-2)
            assert optimizer.skipped_steps == 0
        finally:
            adapter.recorder.max_groups_per_axis = 65535  # type: ignore[attr-defined]


def test_skipping_may_be_turned_off_after_a_skipped_step(device: Device) -> None:
    w = nn.Parameter([1.0], device=device)
    optimizer = optim.SGD([w], lr=0.5, skip_nonfinite=True)
    w.grad = ad.tensor([np.inf], device=device)
    optimizer.step()
    optimizer.skip_nonfinite = False
    w.grad = ad.tensor([1.0], device=device)
    optimizer.step()
    assert w.item() == 0.5
    assert optimizer.skipped_steps == 1


def test_bounds_past_the_range_of_float32(device: Device) -> None:
    w = nn.Parameter([1.0, 2.0])
    w.grad = ad.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(w, 1e39).item() == 5.0
    nn.utils.clip_grad_value_(w, 1e39)
    assert w.grad.tolist() == [3.0, 4.0]
