"""Batch norm and group norm against float64; running statistics, eager and compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import autodiff.functional as F
from autodiff import checkpoint, nn, optim
from gpu_backend import Device, ShapeError
from gpu_backend.device import GPUDevice


def normalized(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 7), (3, 5, 6, 4), (2, 5, 3, 4, 2), (1, 1, 300, 50), (70_000, 2)])
def test_training_uses_the_batch(shape: tuple[int, ...], device: Device) -> None:
    """Values, and the gradients of the formula of Ioffe and Szegedy; channels of one part and of many."""
    rng = np.random.default_rng(0)
    C, wide = shape[1], (1, shape[1], *(1,) * (len(shape) - 2))
    axes = (0, *range(2, len(shape)))
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    weight, bias = rng.random(C, np.float32) + 0.5, rng.random(C, np.float32)
    leaves = [ad.tensor(v, requires_grad=True, device=device) for v in (x, weight, bias)]
    y = F.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
    xhat = normalized(x, axes)
    np.testing.assert_allclose(y.numpy(), xhat * weight.reshape(wide) + bias.reshape(wide), atol=5e-6)
    y.backward(ad.tensor(dy, device=device))
    g = dy * weight.reshape(wide).astype(np.float64)
    spread = np.sqrt(x.astype(np.float64).var(axes, keepdims=True) + 1e-5)
    dx = (g - g.mean(axes, keepdims=True) - xhat * (g * xhat).mean(axes, keepdims=True)) / spread
    for leaf, right in zip(leaves, (dx, (dy * xhat).sum(axes), dy.sum(axes, np.float64)), strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), right, rtol=1e-5, atol=2e-6 * max(1, np.abs(right).max()))


def test_far_from_zero(device: Device) -> None:
    """A mean that float32 holds to a thousandth of the deviation: the values are those of the float32 inputs."""
    x = (1e4 + np.random.default_rng(1).standard_normal((50, 3, 20))).astype(np.float32)
    y = F.batch_norm(ad.tensor(x, device=device), None, None, training=True)
    np.testing.assert_allclose(y.numpy(), normalized(x, (0, 2)), atol=5e-6)


def test_many_channels(gpu: GPUDevice) -> None:
    """K2: 70,000 channels of four elements."""
    x = np.random.default_rng(2).standard_normal((2, 70_000, 2)).astype(np.float32)
    leaf = ad.tensor(x, requires_grad=True)
    y = F.batch_norm(leaf, None, None, training=True)
    np.testing.assert_allclose(y.numpy(), normalized(x, (0, 2)), atol=1e-5)
    y.sum().backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), np.zeros(x.shape), atol=1e-3)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_running_statistics(is_compiled: bool, device: Device) -> None:
    """C13, C18: momentum 0.1 over batches of mean 1, 2, 3 gives 0.561, in place, eager and captured; the variance is
    divided by n - 1."""
    norm = nn.BatchNorm1d(2, device=device)
    memory = norm.running_mean.array.storage
    step = ad.compiled(norm) if is_compiled and not device.is_host else norm
    variance = 1.0
    for mean in (1, 2, 3):
        x = np.array([[mean - 1, mean - 2], [mean + 1, mean + 2]], np.float32)
        step(ad.tensor(x, device=device))
        variance = 0.9 * variance + 0.1 * 2
    np.testing.assert_allclose(norm.running_mean.numpy(), [0.561, 0.561], rtol=1e-6)
    np.testing.assert_allclose(norm.running_var.numpy(), [variance, 0.729 + 8 * (1 - 0.729)], rtol=1e-6)
    assert norm.num_batches_tracked.item() == 3
    assert norm.running_mean.array.storage is memory


def test_a_mean_of_all_batches(device: Device) -> None:
    """momentum None."""
    norm = nn.BatchNorm1d(1, momentum=None, device=device)
    batches = np.random.default_rng(3).standard_normal((5, 4, 1)).astype(np.float32)
    for x in batches:
        norm(ad.tensor(x, device=device))
    np.testing.assert_allclose(norm.running_mean.numpy(), [batches.mean()], rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), [batches.var(axis=1, ddof=1).mean()], rtol=1e-5)


def test_evaluation_uses_the_running_statistics(device: Device) -> None:
    norm = nn.BatchNorm2d(3, device=device).eval()
    rng = np.random.default_rng(4)
    mean, variance, weight, bias = (rng.random(3, np.float32) + 0.5 for _ in range(4))
    state = {"running_mean": mean, "running_var": variance, "weight": weight, "bias": bias}
    norm.load_state_dict({**state, "num_batches_tracked": np.array(7)})
    x, dy = (rng.standard_normal((2, 3, 4, 5)).astype(np.float32) for _ in range(2))
    leaf = ad.tensor(x, requires_grad=True, device=device)
    y = norm(leaf)
    m, v, w, b = (a.astype(np.float64).reshape(1, 3, 1, 1) for a in (mean, variance, weight, bias))
    np.testing.assert_allclose(y.numpy(), (x - m) / np.sqrt(v + 1e-5) * w + b, atol=2e-6)
    y.backward(ad.tensor(dy, device=device))
    axes = (0, 2, 3)
    for given, right in (
        (leaf, dy * w / np.sqrt(v + 1e-5)),
        (norm.weight, (dy * (x - m) / np.sqrt(v + 1e-5)).sum(axes)),
        (norm.bias, dy.sum(axes)),
    ):
        np.testing.assert_allclose(given.grad.numpy(), right, atol=1e-5)
    np.testing.assert_array_equal(norm.running_mean.numpy(), mean)
    assert norm.num_batches_tracked.item() == 7
    assert norm(ad.tensor(np.zeros((0, 3, 4, 5), np.float32), device=device)).shape == (0, 3, 4, 5)


def test_bad_input_changes_nothing(device: Device) -> None:
    norm = nn.BatchNorm1d(3, device=device)
    for x, text in (
        (np.ones((1, 3)), "more than one element per channel"),
        (np.ones((0, 3)), "more than one element per channel"),
        (np.ones((2, 4)), r"BatchNorm1d: the input has shape \(2, 4\), not \(N, C\) or \(N, C, L\) with C = 3"),
        (np.ones((2, 3, 4, 5)), r"BatchNorm1d: the input has shape \(2, 3, 4, 5\)"),
    ):
        with pytest.raises(ShapeError, match=text):
            norm(ad.tensor(x.astype(np.float32), device=device))
    np.testing.assert_array_equal(norm.running_mean.numpy(), np.zeros(3))
    assert norm.num_batches_tracked.item() == 0
    with pytest.raises(ShapeError, match="running statistics have shape"):
        F.batch_norm(ad.tensor(np.ones((2, 3)), device=device), *(nn.Buffer(np.ones(2), device),) * 2, training=True)


def net() -> nn.Sequential:
    ad.manual_seed(1)
    hidden = (nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
    return nn.Sequential(nn.Linear(6, 8), *hidden, nn.Linear(8, 3))


def test_compiled_equals_eager(gpu: GPUDevice) -> None:
    """Loss, parameters and running statistics, bit by bit over 20 steps; C24: train and eval are captured once each."""
    models = [net(), net()]
    optimizers = [optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]

    def step(model: nn.Module, optimizer: optim.Optimizer, x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = ad.compiled(step)
    predict = ad.compiled(lambda model, x: model(x).detach())
    rng = np.random.default_rng(5)
    for number in range(20):
        x = ad.tensor(rng.standard_normal((9, 6)).astype(np.float32))
        target = ad.tensor(rng.integers(0, 3, 9).astype(np.int32))
        losses = []
        for model, optimizer, run in zip(models, optimizers, (step, compiled), strict=True):
            ad.manual_seed(number)
            losses.append(run(model, optimizer, x, target))
        same(*losses)
        if number % 5 == 4:
            for model in models:
                model.eval()
            same(models[0](x), predict(models[1], x))
            for model in models:
                model.train()
    for (name, mine), (_, theirs) in zip(models[0].state_dict().items(), models[1].state_dict().items(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy(), err_msg=name)
    assert models[1].state_dict()["1.num_batches_tracked"].item() == 20
    assert (compiled.stats().captures, predict.stats().captures) == (1, 1)


def test_state_on_disk(tmp_path: Path, device: Device) -> None:
    """Buffers are in the state, under PyTorch's names, and come back from a file."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model(ad.tensor(np.random.default_rng(6).standard_normal((5, 2))))
    assert set(model.state_dict()) == {
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked",
    }  # fmt: skip
    assert len(list(model.parameters())) == 4
    checkpoint.save(tmp_path / "model.safetensors", model.state_dict())
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other.load_state_dict(checkpoint.load(tmp_path / "model.safetensors"))
    for name, own in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), own.numpy(), err_msg=name)
    moved = other.to("host")
    np.testing.assert_array_equal(moved.state_dict()["1.running_mean"].numpy(), model[1].running_mean.numpy())
    assert moved.state_dict()["1.running_mean"].device.is_host
    with pytest.raises(TypeError, match="running_mean is a buffer"):
        model[1].running_mean = ad.tensor(np.zeros(3))


@pytest.mark.parametrize(("groups", "shape"), [(1, (3, 4)), (2, (2, 6, 5)), (3, (2, 6, 3, 4)), (6, (2, 6, 4))])
def test_group_norm(groups: int, shape: tuple[int, ...], device: Device) -> None:
    rng = np.random.default_rng(7)
    C, wide = shape[1], (1, shape[1], *(1,) * (len(shape) - 2))
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    norm = nn.GroupNorm(groups, C, device=device)
    weight, bias = rng.random(C, np.float32) + 0.5, rng.random(C, np.float32)
    norm.load_state_dict({"weight": weight, "bias": bias})
    leaf = ad.tensor(x, requires_grad=True, device=device)
    y = norm(leaf)
    rows = (shape[0] * groups, -1)
    xhat = normalized(x.reshape(rows), (1,)).reshape(shape)
    np.testing.assert_allclose(y.numpy(), xhat * weight.reshape(wide) + bias.reshape(wide), atol=5e-6)
    y.backward(ad.tensor(dy, device=device))
    g = (dy * weight.reshape(wide).astype(np.float64)).reshape(rows)
    flat = xhat.reshape(rows)
    spread = np.sqrt(x.reshape(rows).astype(np.float64).var(1, keepdims=True) + 1e-5)
    dx = (g - g.mean(1, keepdims=True) - flat * (g * flat).mean(1, keepdims=True)) / spread
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), dx.reshape(shape), atol=1e-5)
    axes = (0, *range(2, len(shape)))
    np.testing.assert_allclose(norm.weight.grad.numpy(), (dy * xhat).sum(axes), atol=1e-5)
    np.testing.assert_allclose(norm.bias.grad.numpy(), dy.sum(axes), atol=1e-5)
    if groups == C:
        np.testing.assert_array_equal(F.instance_norm(leaf).numpy(), F.group_norm(leaf, C).numpy())
    with pytest.raises(ShapeError, match=f"{C} channels do not divide into 5 groups"):
        F.group_norm(leaf, 5)


def test_dropout_of_channels(device: Device) -> None:
    """A channel is 0 or doubled as a whole; the gradient likewise; nothing happens in evaluation."""
    ad.manual_seed(3)
    drop = nn.Dropout2d(0.5)
    x = ad.tensor(np.ones((20, 30, 2, 3), np.float32), requires_grad=True, device=device)
    y = drop(x)
    channels = y.numpy().reshape(600, 6)
    assert (channels == channels[:, :1]).all()
    assert set(np.unique(channels)) == {0.0, 2.0}
    assert 230 < (channels[:, 0] == 0).sum() < 370
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
    assert drop.eval()(x) is x
    with pytest.raises(ShapeError, match=r"dropout2d: the input has shape \(2, 3\), not \(N, C, H, W\)"):
        F.dropout2d(ad.tensor(np.ones((2, 3))))


def test_flatten(device: Device) -> None:
    x = ad.tensor(np.zeros((2, 3, 4, 5), np.float32))
    assert nn.Flatten()(x).shape == (2, 60)
    assert nn.Flatten(0, 2)(x).shape == (24, 5)
