"""Images of another size, and windows as columns, against their definitions, on the adapter and on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn
from gpu_backend import Device, ShapeError
from gpu_backend.device import GPUDevice


def place(i: int, extent: int, made: int, scale: float | None, mode: str, corners: bool) -> list[tuple[int, float]]:
    """The elements that place i of an axis reads, with their weights."""
    if mode == "nearest":
        return [(i * extent // made if scale is None else min(math.floor(i / scale), extent - 1), 1.0)]
    if corners:
        at = i * (extent - 1) / (made - 1) if made > 1 else 0.0
    else:
        at = max((i + 0.5) * (extent / made if scale is None else 1 / scale) - 0.5, 0.0)
    first = min(int(at), extent - 1)
    second = min(first + 1, extent - 1)
    return [(first, 1 - (at - first)), (second, at - first)] if second > first else [(first, 1.0)]


@pytest.mark.parametrize("number", range(60))
def test_sizes_and_factors(number: int, gpu: GPUDevice) -> None:
    """Value and gradient of random calls, by kernels and by their twins."""
    rng = np.random.default_rng(number)
    dims = 1 + number % 2
    smooth = bool(rng.integers(2))
    mode = "nearest" if not smooth else "linear" if dims == 1 else "bilinear"
    corners = bool(rng.integers(2)) if smooth else None
    size = tuple(int(n) for n in rng.integers(1, 9, dims))
    scales: tuple[float | None, ...] = (None,) * dims
    if rng.integers(2):
        made = tuple(int(n) for n in rng.integers(1, 14, dims))
        given: dict[str, Any] = {"size": made}
    else:
        scales = tuple(float(s) for s in rng.uniform(1, 3, dims))
        made = tuple(int(extent * s) for extent, s in zip(size, scales, strict=True) if s is not None)
        given = {"scale_factor": scales}
    x = rng.standard_normal((2, 3, *size)).astype(np.float32)
    dy = rng.standard_normal((2, 3, *made)).astype(np.float32)
    y, dx = np.zeros(dy.shape), np.zeros(x.shape)
    for p in np.ndindex(*made):
        sides = [place(*sizes, mode, bool(corners)) for sizes in zip(p, size, made, scales, strict=True)]
        for reads in np.ndindex(*(len(side) for side in sides)):
            chosen = [side[read] for side, read in zip(sides, reads, strict=True)]
            q, weight = tuple(tap for tap, _ in chosen), math.prod(share for _, share in chosen)
            y[(..., *p)] += weight * x[(..., *q)]
            dx[(..., *q)] += weight * dy[(..., *p)]
    for device in (gpu, "host"):
        leaf = ad.tensor(x, requires_grad=True, device=device)
        result = F.interpolate(leaf, **given, mode=mode, align_corners=corners)
        np.testing.assert_allclose(result.numpy(), y, atol=2e-6)
        result.backward(ad.tensor(dy, device=device))
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), dx, atol=4e-6)


def test_one_pixel_becomes_many(gpu: GPUDevice) -> None:
    """A gradient of thirty thousand places: its sum stays good to 1e-6. More are refused."""
    x = ad.tensor(np.full((1, 1, 1), 2.0, np.float32), requires_grad=True)
    y = F.interpolate(x, size=30_000, mode="linear")
    dy = np.random.default_rng(0).random((1, 1, 30_000), np.float32)
    y.backward(ad.tensor(dy))
    np.testing.assert_array_equal(y.numpy(), np.full(y.shape, 2.0))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), dy.sum(dtype=np.float64).reshape(1, 1, 1), rtol=1e-6)
    with pytest.raises(ShapeError, match="more than 32768 places would read one element"):
        F.interpolate(x, size=100_000)


def test_many_planes(gpu: GPUDevice) -> None:
    """K2: 70,000 planes."""
    x = np.random.default_rng(1).standard_normal((70_000, 1, 2, 2)).astype(np.float32)
    leaf = ad.tensor(x, requires_grad=True)
    y = F.interpolate(leaf, scale_factor=2)
    np.testing.assert_array_equal(y.numpy(), x.repeat(2, axis=2).repeat(2, axis=3))
    y.sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), np.full(x.shape, 4.0))
    columns = F.unfold(ad.tensor(x), 2)
    np.testing.assert_array_equal(columns.numpy(), x.reshape(-1, 4, 1))
    np.testing.assert_array_equal(F.fold(columns, 2, 2).numpy(), x)


def test_infinity_stays_where_it_is_read(device: Device) -> None:
    """A neighbour of weight 0 adds nothing, not NaN."""
    x = ad.tensor(np.array([[[1, 2, np.inf]]], np.float32), device=device)
    np.testing.assert_array_equal(F.interpolate(x, size=2, mode="linear", align_corners=True).numpy(), [[[1, np.inf]]])
    np.testing.assert_array_equal(F.interpolate(x, size=3, mode="linear").numpy(), x.numpy())


@pytest.mark.parametrize("number", range(30))
def test_windows_as_columns(number: int, gpu: GPUDevice) -> None:
    """unfold, its gradient and fold, which is the same, by kernels and by their twins."""
    rng = np.random.default_rng(number)
    while True:
        size, taps = (tuple(int(n) for n in rng.integers(1, top, 2)) for top in (9, 4))
        gaps, stride = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(2))
        pad = tuple(int(n) for n in rng.integers(0, 3, 2))
        sides = list(zip(size, taps, gaps, stride, pad, strict=True))
        made = tuple((e + 2 * b - d * (k - 1) - 1) // s + 1 for e, k, d, s, b in sides)
        if min(made) > 0:
            break
    x = rng.standard_normal((2, 3, *size)).astype(np.float32)
    columns = np.zeros((2, 3, math.prod(taps), math.prod(made)))
    given = rng.standard_normal((2, 3 * math.prod(taps), math.prod(made))).astype(np.float32)
    folded = np.zeros(x.shape)
    for t, tap in enumerate(np.ndindex(*taps)):
        for position, p in enumerate(np.ndindex(*made)):
            q = tuple(i * s - b + k * d for i, k, (_, _, d, s, b) in zip(p, tap, sides, strict=True))
            if all(0 <= i < extent for i, extent in zip(q, size, strict=True)):
                columns[:, :, t, position] = x[(..., *q)]
                folded[(..., *q)] += given.reshape(columns.shape)[:, :, t, position]
    arguments = {"kernel_size": taps, "dilation": gaps, "padding": pad, "stride": stride}
    for device in (gpu, "host"):
        leaf = ad.tensor(x, requires_grad=True, device=device)
        y = F.unfold(leaf, **arguments)
        np.testing.assert_array_equal(y.numpy(), columns.reshape(given.shape))
        back = ad.tensor(given, requires_grad=True, device=device)
        y.backward(back.detach())
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), folded, atol=4e-6)
        image = F.fold(back, size, **arguments)
        np.testing.assert_allclose(image.numpy(), folded, atol=4e-6)
        image.backward(leaf.detach())
        assert back.grad is not None
        np.testing.assert_array_equal(back.grad.numpy(), columns.reshape(given.shape))


def test_pixel_shuffle(device: Device) -> None:
    """Channel c r r + i r + j is row i and column j of each block; both ways, for arrays and tensors."""
    x = np.arange(2 * 8 * 3 * 5, dtype=np.float32).reshape(2, 8, 3, 5)
    y = gb.pixel_shuffle(gb.array(x, device=device), 2)
    assert y.shape == (2, 2, 6, 10)
    for c, i, j in np.ndindex(2, 2, 2):
        np.testing.assert_array_equal(y.numpy()[:, c, i::2, j::2], x[:, c * 4 + i * 2 + j])
    leaf = ad.tensor(x, requires_grad=True, device=device)
    back = F.pixel_unshuffle(F.pixel_shuffle(leaf, 2), 2)
    np.testing.assert_array_equal(back.numpy(), x)
    (back * back).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), 2 * x)
    with pytest.raises(ShapeError, match="pixel_shuffle: 8 channels do not divide by 3 x 3"):
        F.pixel_shuffle(leaf, 3)
    with pytest.raises(ShapeError, match=r"pixel_unshuffle: planes of \(3, 5\) do not divide by 2"):
        F.pixel_unshuffle(leaf, 2)


def test_modules(device: Device) -> None:
    x = ad.tensor(np.arange(32, dtype=np.float32).reshape(1, 8, 2, 2))
    for module, y in (
        (nn.Upsample(scale_factor=2, mode="bilinear"), F.interpolate(x, scale_factor=2, mode="bilinear")),
        (nn.Upsample(size=(3, 5)), F.interpolate(x, size=(3, 5))),
        (nn.PixelShuffle(2), F.pixel_shuffle(x, 2)),
    ):
        np.testing.assert_array_equal(module(x).numpy(), y.numpy())
