"""Layers of images against PyTorch on the processor: what it computes, and what it refuses. Skipped without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import nn
from gpu_backend import Device

torch = pytest.importorskip("torch", reason="torch is for comparisons, not a dependency")


def close(made: Any, expected: Any, tolerance: float = 2e-5) -> None:
    theirs = expected.detach().numpy()
    assert made.shape == theirs.shape
    np.testing.assert_allclose(made.numpy(), theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)))


@pytest.mark.parametrize("number", range(40))
@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"])
def test_convolutions(name: str, number: int, device: Device) -> None:
    """Arguments drawn at random: result and gradients, or an error on both sides."""
    rng = np.random.default_rng(number)
    dims, is_transposed = int(name[-2]), "transpose" in name
    groups = int(rng.choice([1, 1, 2, 3]))
    read, made = groups * int(rng.integers(1, 5)), groups * int(rng.integers(1, 10))
    size, taps, stride, dilation = (tuple(int(n) for n in rng.integers(1, top, dims)) for top in (9, 4, 4, 3))
    padding = tuple(int(n) for n in rng.integers(0, 3, dims))
    weight = (read, made // groups) if is_transposed else (made, read // groups)
    given = [rng.standard_normal(s).astype(np.float32) for s in ((2, read, *size), (*weight, *taps), (made,))]
    arguments: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if is_transposed:
        arguments["output_padding"] = tuple(int(n) for n in rng.integers(0, 3, dims))
    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in given]
    mine = [ad.tensor(x, requires_grad=True, device=device) for x in given]
    try:
        expected = getattr(torch.nn.functional, name)(*theirs, **arguments)
    except RuntimeError:
        with pytest.raises(ValueError, match=name):
            getattr(F, name)(*mine, **arguments)
        return
    y = getattr(F, name)(*mine, **arguments)
    close(y, expected)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(ad.tensor(dy, device=device))
    expected.backward(torch.tensor(dy, dtype=torch.float64))
    for own, other in zip(mine, theirs, strict=True):
        close(own.grad, other.grad)


@pytest.mark.parametrize("number", range(60))
def test_pools(number: int, device: Device) -> None:
    """Values, places and gradients of windows that may reach past the end, or an error on both sides."""
    rng = np.random.default_rng(number)
    size, taps, stride = (tuple(int(n) for n in rng.integers(1, top, 2)) for top in (12, 5, 5))
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in taps)
    ceil, counts = (bool(n) for n in rng.integers(2, size=2))
    x = rng.integers(-3, 4, (1, 2, *size)).astype(np.float32)
    for kind in ("max", "avg"):
        more = {"return_indices": True} if kind == "max" else {"count_include_pad": counts}
        arguments = {"stride": stride, "padding": padding, "ceil_mode": ceil, **more}
        mine = ad.tensor(x, requires_grad=True, device=device)
        theirs = torch.tensor(x, requires_grad=True)
        try:
            expected = getattr(torch.nn.functional, f"{kind}_pool2d")(theirs, taps, **arguments)
        except RuntimeError:
            with pytest.raises(ValueError, match=f"{kind}_pool2d"):
                getattr(F, f"{kind}_pool2d")(mine, taps, **arguments)
            continue
        y = getattr(F, f"{kind}_pool2d")(mine, taps, **arguments)
        if kind == "max":
            (y, places), (expected, known) = y, expected
            np.testing.assert_array_equal(places.numpy(), known.numpy())
        close(y, expected)
        y.sum().backward()
        expected.sum().backward()
        close(mine.grad, theirs.grad)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 4), (12, 13)])
def test_sizes(size: tuple[int, int], mode: str, device: Device) -> None:
    """By size; with a factor PyTorch follows the ratio of extents for two dimensions and the factor for one."""
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 6)).astype(np.float32)
    for corners in (None,) if mode == "nearest" else (False, True):
        mine = ad.tensor(x, requires_grad=True, device=device)
        theirs = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        y = F.interpolate(mine, size, mode=mode, align_corners=corners)
        expected = torch.nn.functional.interpolate(theirs, size, mode=mode, align_corners=corners)
        close(y, expected)
        (y * y).sum().backward()
        (expected * expected).sum().backward()
        close(mine.grad, theirs.grad)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 7), (3, 5, 7, 4), (3, 5, 2, 3, 4)])
def test_batch_norm(shape: tuple[int, ...], momentum: float | None, device: Device) -> None:
    """Three steps of training and one of evaluation: values, gradients, the whole state."""
    name = f"BatchNorm{max(len(shape) - 2, 1)}d"
    mine = getattr(nn, name)(5, momentum=momentum, device=device)
    theirs = getattr(torch.nn, name)(5, momentum=momentum)
    rng = np.random.default_rng(2)
    for number in range(4):
        if number == 3:
            mine.eval()
            theirs.eval()
        x, dy = (rng.standard_normal(shape).astype(np.float32) + number for _ in range(2))
        own, other = ad.tensor(x, requires_grad=True, device=device), torch.tensor(x, requires_grad=True)
        mine.zero_grad()
        theirs.zero_grad()
        y, expected = mine(own), theirs(other)
        close(y, expected)
        y.backward(ad.tensor(dy, device=device))
        expected.backward(torch.tensor(dy))
        for made, right in ((own, other), (mine.weight, theirs.weight), (mine.bias, theirs.bias)):
            close(made.grad, right.grad)
        for key, value in theirs.state_dict().items():
            close(mine.state_dict()[key], value)
