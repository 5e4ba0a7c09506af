"""Pools against the windows that define them, on the adapter and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import nn
from gpu_backend import Device, ShapeError
from gpu_backend.device import GPUDevice
from gpu_backend.spec import int32


class Call:
    """Random planes and arguments of a pool of one or two dimensions."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self.dims = 1 + number % 2
        while True:
            self.size = tuple(int(n) for n in rng.integers(1, 12, self.dims))
            self.taps, self.stride, self.dilation = (
                tuple(int(n) for n in rng.integers(1, top, self.dims)) for top in (5, 4, 3)
            )
            self.ceil = bool(rng.integers(2))
            self.is_average = bool(number % 4 // 2)
            if self.is_average:
                self.dilation = (1,) * self.dims
            reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.taps, strict=True)]
            self.pad = tuple(int(rng.integers(r // 2 + 1)) for r in reach)
            self.counts = bool(rng.integers(2))
            self.made = tuple(
                self._count(*sizes) for sizes in zip(self.size, reach, self.stride, self.pad, strict=True)
            )
            if min(self.made) > 0:
                break
        self.x = rng.integers(-4, 4, (2, 2, *self.size)).astype(np.float32) / 4  # with ties
        self.dy = rng.standard_normal((2, 2, *self.made)).astype(np.float32)

    def _count(self, extent: int, reach: int, stride: int, pad: int) -> int:
        """Windows that start before the end of the plane, the last of which may reach past it only if asked."""
        starts = range(-pad, extent, stride)
        return sum(1 for n, start in enumerate(starts) if self._fits(n, start + reach, extent + pad, stride))

    def _fits(self, number: int, end: int, last: int, stride: int) -> bool:
        return end <= last or (self.ceil and end - stride < last and (number > 0 or end - last < stride))

    def run(self, x: ad.Tensor) -> ad.Tensor:
        kind = "avg" if self.is_average else "max"
        pool = getattr(F, f"{kind}_pool{self.dims}d")
        more: dict[str, Any] = {"count_include_pad": self.counts} if self.is_average else {"dilation": self.dilation}
        y: ad.Tensor = pool(x, self.taps, self.stride, self.pad, ceil_mode=self.ceil, **more)
        return y

    def expected(self) -> tuple[Any, Any]:
        y, dx = np.zeros(self.dy.shape), np.zeros(self.x.shape)
        for n, c, *p in np.ndindex(*self.dy.shape):
            sides = zip(p, self.stride, self.pad, self.taps, self.dilation, strict=True)
            axes = [range(i * s - b, i * s - b + k * d, d) for i, s, b, k, d in sides]
            seen = list(np.ndindex(*self.taps))
            places = [tuple(axis[i] for axis, i in zip(axes, q, strict=True)) for q in seen]
            inside = [q for q in places if all(0 <= i < e for i, e in zip(q, self.size, strict=True))]
            if self.is_average:
                padded = [q for q in places if all(i < e + b for i, e, b in zip(q, self.size, self.pad, strict=True))]
                divisor = len(padded) if self.counts else len(inside)
                y[n, c, *p] = sum(self.x[n, c, *q] for q in inside) / divisor
                for q in inside:
                    dx[n, c, *q] += self.dy[n, c, *p] / divisor
            elif inside:
                best = max(inside, key=lambda q: self.x[n, c, *q])  # the first of several
                y[n, c, *p] = self.x[n, c, *best]
                dx[n, c, *best] += self.dy[n, c, *p]
            else:
                y[n, c, *p] = -np.inf
        return y, dx


@pytest.mark.parametrize("number", range(160))
def test_combinations_of_arguments(number: int, gpu: GPUDevice) -> None:
    """K5, by value: result and gradient, by kernels and by their twins."""
    call = Call(number)
    y, dx = call.expected()
    for device in (gpu, "host"):
        x = ad.tensor(call.x, requires_grad=True, device=device)
        made = call.run(x)
        assert made.shape == y.shape
        np.testing.assert_allclose(made.numpy(), y, rtol=0, atol=2e-6)
        made.backward(ad.tensor(call.dy, device=device))
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), dx, rtol=0, atol=4e-6)


def test_overlapping_windows(device: Device) -> None:
    """P-AG11."""
    x = ad.tensor(np.array([[[4, 1, 3, 3.5, 0, 2]]], np.float32), requires_grad=True, device=device)
    y = F.max_pool1d(x, 3, stride=1)
    np.testing.assert_array_equal(y.numpy(), [[[4, 3.5, 3.5, 3.5]]])
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [[[1, 0, 0, 3, 0, 0]]])
    low = ad.tensor(np.full((1, 1, 4), -7.0, np.float32), device=device)
    np.testing.assert_array_equal(F.max_pool1d(low, 3, stride=1, padding=1).numpy(), np.full((1, 1, 4), -7.0))


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 7), (8, 9), (None, 2)])
def test_windows_that_divide_a_plane(size: Any, device: Device) -> None:
    """Values, gradients and places, of windows that overlap and that repeat elements."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 7, 6)).astype(np.float32)
    h, w = (e if n is None else n for n, e in zip(size, x.shape[2:], strict=True))
    dy = rng.standard_normal((2, 3, h, w)).astype(np.float32)
    means, tops = np.zeros(dy.shape), np.zeros(dy.shape)
    places = np.zeros(dy.shape, np.int32)
    d_means, d_tops = np.zeros(x.shape), np.zeros(x.shape)
    for n, c, i, j in np.ndindex(*dy.shape):
        rows = slice(i * 7 // h, -(-(i + 1) * 7 // h))
        cols = slice(j * 6 // w, -(-(j + 1) * 6 // w))
        part = x[n, c, rows, cols]
        means[n, c, i, j], tops[n, c, i, j] = part.mean(dtype=np.float64), part.max()
        a, b = np.unravel_index(part.argmax(), part.shape)
        places[n, c, i, j] = (rows.start + a) * 6 + cols.start + b
        d_means[n, c, rows, cols] += dy[n, c, i, j] / part.size
        d_tops[n, c, rows.start + a, cols.start + b] += dy[n, c, i, j]
    for pool, y, dx in ((F.adaptive_avg_pool2d, means, d_means), (F.adaptive_max_pool2d, tops, d_tops)):
        leaf = ad.tensor(x, requires_grad=True, device=device)
        made = pool(leaf, size)
        np.testing.assert_allclose(made.numpy(), y, atol=1e-6)
        made.backward(ad.tensor(dy, device=device))
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), dx, atol=2e-6)
    y, found = F.adaptive_max_pool2d(ad.tensor(x, requires_grad=True, device=device), size, return_indices=True)
    np.testing.assert_array_equal(found.numpy(), places)
    assert not found.requires_grad
    assert y.requires_grad


def test_indices(device: Device) -> None:
    x = np.array([[[[0, 1, 5], [7, 2, 5]]]], np.float32)
    y, places = F.max_pool2d(ad.tensor(x, device=device), 2, stride=1, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), [[[[7, 5]]]])
    np.testing.assert_array_equal(places.numpy(), [[[[3, 2]]]])
    assert places.dtype is int32
    _, places = F.max_pool1d(ad.tensor(x[0], device=device), 3, return_indices=True)
    np.testing.assert_array_equal(places.numpy(), [[[2], [0]]])


def test_many_images(gpu: GPUDevice) -> None:
    """K2: 70,000 images of 4 x 4."""
    x = np.random.default_rng(2).permutation(70_000 * 16).reshape(70_000, 1, 4, 4).astype(np.float32)
    blocks = x.reshape(-1, 2, 2, 2, 2).swapaxes(2, 3)
    for pool, y, dx in (
        (F.max_pool2d, blocks.max(axis=(3, 4)), blocks == blocks.max(axis=(3, 4), keepdims=True)),
        (F.avg_pool2d, blocks.mean(axis=(3, 4), dtype=np.float64), np.full(blocks.shape, 0.25)),
    ):
        leaf = ad.tensor(x, requires_grad=True)
        made = pool(leaf, 2)
        np.testing.assert_allclose(made.numpy()[:, 0], y, rtol=1e-6)
        made.sum().backward()
        assert leaf.grad is not None
        np.testing.assert_array_equal(leaf.grad.numpy().reshape(-1, 2, 2, 2, 2).swapaxes(2, 3), dx)


@pytest.mark.parametrize("shape", [(1, 1, 300_000), (2, 1, 500, 300)])
def test_one_window_over_everything(shape: tuple[int, ...], gpu: GPUDevice) -> None:
    """Global pools of long lines: means stay good to 1e-6, the largest is found at the far end."""
    x = np.random.default_rng(3).random(shape, np.float32)
    x.reshape(-1)[-1] = 2
    flat = x.reshape(*shape[:2], -1)
    leaf = ad.tensor(x, requires_grad=True)
    np.testing.assert_allclose(F.global_avg_pool(leaf).numpy().reshape(shape[:2]), flat.mean(2, np.float64), rtol=1e-6)
    whole = F.avg_pool1d(leaf, shape[-1]) if len(shape) == 3 else F.avg_pool2d(leaf, shape[2:])
    np.testing.assert_allclose(whole.numpy().reshape(shape[:2]), flat.mean(2, np.float64), rtol=1e-6)
    whole.sum().backward()
    top = F.global_max_pool(leaf)
    np.testing.assert_array_equal(top.numpy().reshape(shape[:2]), flat.max(2))
    top.sum().backward()
    assert leaf.grad is not None
    expected = np.full(flat.shape, 1 / flat.shape[2]) + (flat == flat.max(2, keepdims=True))
    np.testing.assert_allclose(leaf.grad.numpy().reshape(flat.shape), expected, rtol=1e-6)


def test_large_windows(gpu: GPUDevice) -> None:
    """As large as may be, and one larger; an element in as many windows as may be."""
    x = np.random.default_rng(5).random((1, 2, 200, 200), np.float32)
    leaf = ad.tensor(x, requires_grad=True)
    side = 181  # 32,761 elements
    made = F.avg_pool2d(leaf, side, stride=10)
    np.testing.assert_allclose(made.numpy()[0, 1, 1, 0], x[0, 1, 10:191, :181].mean(dtype=np.float64), rtol=1e-6)
    y, places = F.max_pool2d(leaf, side, stride=10, return_indices=True)
    window = x[0, 0, 10:191, 10:191]
    assert y.numpy()[0, 0, 1, 1] == window.max()
    row, column = np.unravel_index(window.argmax(), window.shape)
    assert places.numpy()[0, 0, 1, 1] == (row + 10) * 200 + column + 10
    for pool in (F.avg_pool2d, F.max_pool2d):
        with pytest.raises(ShapeError, match=r"windows of \(182, 182\), of which only one over a whole plane"):
            pool(leaf, 182)
    few = ad.tensor(np.ones((1, 1, 1), np.float32), requires_grad=True)
    F.adaptive_avg_pool1d(few, 30_000).sum().backward()
    assert few.grad is not None
    assert few.grad.item() == 30_000
    with pytest.raises(ShapeError, match=r"elements in \(1, 100000\) windows"):
        F.adaptive_avg_pool1d(few, 100_000)


def test_modules_pool_like_the_functions(device: Device) -> None:
    x = ad.tensor(np.random.default_rng(4).standard_normal((2, 3, 9, 8)).astype(np.float32))
    line = x.reshape(6, 9, 8)
    for module, y in (
        (nn.MaxPool2d(3, 2, 1), F.max_pool2d(x, 3, 2, 1)),
        (nn.MaxPool1d(2, dilation=2), F.max_pool1d(line, 2, dilation=2)),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
        (nn.AvgPool1d(4, ceil_mode=True), F.avg_pool1d(line, 4, ceil_mode=True)),
        (nn.AdaptiveAvgPool2d((2, None)), F.adaptive_avg_pool2d(x, (2, None))),
        (nn.AdaptiveAvgPool1d(3), F.adaptive_avg_pool1d(line, 3)),
        (nn.AdaptiveMaxPool2d(3), F.adaptive_max_pool2d(x, 3)),
        (nn.AdaptiveMaxPool1d(3), F.adaptive_max_pool1d(line, 3)),
    ):
        assert isinstance(y, ad.Tensor)
        np.testing.assert_array_equal(module(x if y.ndim == 4 else line).numpy(), y.numpy())
