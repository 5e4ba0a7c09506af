"""Optimizers against their published rules in float64, on the adapter and on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import gpu_backend as gb
from autodiff import GradientError, nn, optim
from gpu_backend import Device

STEPS = 50
Rule = Callable[[np.ndarray, np.ndarray, dict[str, Any], int], np.ndarray]


def sgd_rule(p: np.ndarray, g: np.ndarray, state: dict[str, Any], t: int, **options: Any) -> np.ndarray:
    o = {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, **options}
    g = g + o["weight_decay"] * p
    if o["momentum"]:
        v = state["v"] = g if t == 1 else o["momentum"] * state["v"] + (1 - o["dampening"]) * g
        g = g + o["momentum"] * v if o["nesterov"] else v
    return p - o["lr"] * g


def adamw_rule(p: np.ndarray, g: np.ndarray, state: dict[str, Any], t: int, **options: Any) -> np.ndarray:
    o = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, **options}
    b1, b2 = o["betas"]
    m = state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * g
    v = state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * g * g
    p = p * (1 - o["lr"] * o["weight_decay"])
    return p - o["lr"] * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + o["eps"])


def adam_rule(p: np.ndarray, g: np.ndarray, state: dict[str, Any], t: int, **options: Any) -> np.ndarray:
    decay = options.pop("weight_decay", 0.0)
    return adamw_rule(p, g + decay * p, state, t, weight_decay=0.0, **options)


@pytest.mark.parametrize(
    ("make", "rule", "options"),
    [
        (optim.Adam, adam_rule, {}),
        (optim.Adam, adam_rule, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.3}),
        (optim.SGD, sgd_rule, {"lr": 0.05}),
        (optim.SGD, sgd_rule, {"lr": 0.05, "momentum": 0.9}),
        (optim.SGD, sgd_rule, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
        (optim.SGD, sgd_rule, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        (optim.AdamW, adamw_rule, {}),
        (optim.AdamW, adamw_rule, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.3}),
    ],
)
def test_trajectory_follows_the_published_rule(make: Any, rule: Any, options: dict[str, Any], device: Device) -> None:
    """Two parameters, 50 steps; the second has no gradient in every third step and keeps its own step count."""
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape) for shape in ((3, 4), (70,))]
    parameters = [nn.Parameter(v) for v in values]
    wanted = [p.numpy().astype(np.float64) for p in parameters]
    states: list[dict[str, Any]] = [{}, {}]
    counts = [0, 0]
    optimizer = make(parameters, **options)
    for step in range(STEPS):
        for index, parameter in enumerate(parameters):
            parameter.grad = None
            if index == 1 and step % 3 == 2:
                continue
            gradient = random.standard_normal(values[index].shape).astype(np.float32)
            parameter.grad = ad.tensor(gradient)
            counts[index] += 1
            g = gradient.astype(np.float64)
            wanted[index] = rule(wanted[index], g, states[index], counts[index], **options)
        optimizer.step()
    for parameter, w in zip(parameters, wanted, strict=True):
        assert np.max(np.abs(parameter.numpy() - w) / np.maximum(1, np.abs(w))) <= 1e-5


def test_the_first_step_decays_before_it_moves(device: Device) -> None:
    """P-AP03: AdamW p = 1, g = 1, lr = 0.1, decay 0.5 gives 0.85, not 0.855."""
    p = nn.Parameter([1.0])
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.5)
    p.grad = ad.tensor([1.0])
    optimizer.step()
    assert p.item() == pytest.approx(0.85, abs=1e-6)


def test_a_changed_learning_rate_is_seen(device: Device) -> None:
    """P-CS01 in eager mode: lr 0.1, 0.1, 0.01, 0.01 with a constant gradient."""
    p = nn.Parameter([1.0])
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.0)
    seen = []
    for lr in (0.1, 0.1, 0.01, 0.01):
        optimizer.param_groups[0]["lr"] = lr
        p.grad = ad.tensor([1.0])
        optimizer.step()
        seen.append(p.item())
    np.testing.assert_allclose(seen, [0.9, 0.8, 0.79, 0.78], atol=1e-6)


def test_groups_have_their_own_options(device: Device) -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.1)
    a.grad = b.grad = ad.tensor([1.0])
    optimizer.step()
    assert a.item() == 0.5
    assert b.item() == pytest.approx(0.9)
    optimizer.zero_grad()
    assert a.grad is None


def test_a_step_moves_the_users_own_parameter_in_place(device: Device) -> None:
    """P-CS03: six elements in a larger buffer."""
    p = nn.Parameter(np.ones(6))
    serial = p.array.storage.buffer.serial
    optimizer = optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    assert p.array.storage.buffer.serial == serial
    np.testing.assert_allclose(p.numpy(), 0.8, rtol=1e-6)


def test_wrong_use_is_named(device: Device) -> None:
    p = nn.Parameter([1.0])
    with pytest.raises(GradientError, match=r"SGD.step: no parameter has a gradient; call backward"):
        optim.SGD([p]).step()
    with pytest.raises(ValueError, match="SGD: there are no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="AdamW: a parameter of shape"):
        optim.AdamW([p, p])
    with pytest.raises(ValueError, match="SGD: lr is not negative, not -1"):
        optim.SGD([p], lr=-1.0)
    late = optim.SGD([p], lr=0.1)
    late.param_groups[0]["momentum"] = 0.9
    p.grad = ad.tensor([1.0])
    with pytest.raises(ValueError, match="SGD: this option needs state that was not made at the start"):
        late.step()
    assert p.item() == 1.0
    with pytest.raises(ValueError, match="SGD: no option beta"):
        optim.SGD([{"params": [p], "beta": 1}])
    with pytest.raises(ValueError, match=r"betas lie in \[0, 1\)"):
        optim.AdamW([p], betas=(1.0, 0.9))
    with pytest.raises(TypeError, match="takes parameters, not Tensor"):
        optim.SGD([ad.tensor([1.0], requires_grad=True)])  # type: ignore[list-item]


def test_state_goes_with_the_optimizer(device: Device) -> None:
    p = nn.Parameter(np.ones(1000))
    before = gb.memory.stats().in_use_bytes
    optimizer = optim.AdamW([p])
    assert gb.memory.stats().in_use_bytes >= before + 8000
    del optimizer
    assert gb.memory.stats().in_use_bytes == before


def test_all_groups_are_checked_before_any_parameter_moves(device: Device) -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a]}, {"params": [b]}], lr=0.1)
    a.grad = b.grad = ad.tensor([1.0])
    optimizer.param_groups[1]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr is not negative"):
        optimizer.step()
    assert (a.item(), b.item()) == (1.0, 1.0)


def test_momentum_may_be_turned_off(device: Device) -> None:
    p = nn.Parameter([1.0])
    optimizer = optim.SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    for momentum, wanted in ((0.9, 0.0), (0.0, -1.0)):
        optimizer.param_groups[0]["momentum"] = momentum
        p.grad = ad.tensor([1.0])
        optimizer.step()
        assert p.item() == pytest.approx(wanted)


@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.SGD(p, momentum=0.9)])
def test_an_optimizer_stays_on_its_device(make: Any, adapter: Device, host: Device) -> None:
    for here, there in ((adapter, host), (host, adapter)):
        m = nn.Linear(2, 2, device=here)
        optimizer = make(m.parameters())
        m.to(there)
        m(ad.tensor([[1.0, 2.0]], device=there)).sum().backward()
        with pytest.raises(gb.DeviceError, match="moved to another device; make a new optimizer after"):
            optimizer.step()


def test_parameters_added_later_are_told(device: Device) -> None:
    p = nn.Parameter([1.0])
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.param_groups[0]["params"].append(nn.Parameter([1.0]))
    p.grad = ad.tensor([1.0])
    with pytest.raises(ValueError, match="parameters were added or taken away"):
        optimizer.step()
    assert p.item() == 1.0


def test_a_gradient_may_be_the_parameter_itself(device: Device) -> None:
    for make in (optim.SGD, optim.AdamW):
        p = nn.Parameter([1.0])
        p.grad = p.detach()
        make([p], lr=0.5).step()
        assert p.item() == pytest.approx(0.5, abs=0.006)


def test_gradients_may_be_filled_with_zeros(device: Device) -> None:
    p = nn.Parameter([1.0])
    optimizer = optim.SGD([p])
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is None
    (p * 2.0).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is not None
    assert p.grad.tolist() == [0.0]


def rates(make: Any, steps: int, lr: float = 0.4) -> list[float]:
    """The learning rates of the first steps under a schedule."""
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=lr)
    schedule = make(optimizer)
    seen = []
    for _ in range(steps):
        seen += schedule.get_last_lr()
        schedule.step()
    return seen


def test_schedules_follow_their_formulas(device: Device) -> None:
    assert rates(lambda o: optim.StepLR(o, 2, gamma=0.5), 5) == [0.4, 0.4, 0.2, 0.2, 0.1]
    cosine = rates(lambda o: optim.CosineAnnealingLR(o, 4, eta_min=0.1), 6)
    wanted = [0.1 + 0.3 * (1 + np.cos(np.pi * t / 4)) / 2 for t in range(6)]
    np.testing.assert_allclose(cosine, wanted, rtol=1e-12)
    assert rates(lambda o: optim.LambdaLR(o, lambda t: 1 / (1 + t)), 3) == [0.4, 0.2, 0.4 / 3]


def test_schedules_of_groups_and_their_state(device: Device) -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 2.0}])
    schedule = optim.LambdaLR(optimizer, [lambda t: 0.5**t, lambda t: 1.0])
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 2.0]
    state = schedule.state_dict()
    schedule.step()
    schedule.load_state_dict(state)
    assert schedule.get_last_lr() == [0.5, 2.0]
    a.grad = b.grad = ad.tensor([1.0])
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, -1.0)
    with pytest.raises(ValueError, match="LambdaLR: 1 factors for 2 parameter groups"):
        optim.LambdaLR(optimizer, [lambda t: 1.0])
    with pytest.raises(ValueError, match="the state has 1 groups, the optimizer 2"):
        schedule.load_state_dict({"last_epoch": 0, "base_lrs": [1.0]})
    with pytest.raises(ValueError, match="StepLR: step_size is 1 or more, not 0"):
        optim.StepLR(optimizer, 0)
    with pytest.raises(ValueError, match="CosineAnnealingLR: T_max is 1 or more"):
        optim.CosineAnnealingLR(optimizer, 0)
    optimizer.param_groups.pop()
    with pytest.raises(ValueError, match="parameter groups were added or taken away"):
        schedule.step()


def test_parameters_on_two_devices_are_told(adapter: Device, host: Device) -> None:
    pair = [nn.Parameter([1.0], device=adapter), nn.Parameter([1.0], device=host)]
    with pytest.raises(gb.DeviceError, match="SGD: the parameters are on several devices"):
        optim.SGD(pair)
