"""Convolutions against the sums that define them, in float64, on the adapter and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device, ops
from gpu_backend.device import GPUDevice

DIMS = {"conv1d": 1, "conv2d": 2, "conv3d": 3, "conv_transpose1d": 1, "conv_transpose2d": 2}
COMBINATIONS = 64  # of each of the five ops


class Call:
    """A random call of an op: sizes, arguments, operands, and what it should give."""

    def __init__(self, name: str, number: int) -> None:
        rng = np.random.default_rng((number, len(name), DIMS[name]))
        self.name, self.dims = name, DIMS[name]
        self.transposed = "transpose" in name
        self.groups = int(rng.choice([1, 1, 2, 3]))
        read, made = self.groups * int(rng.choice([1, 1, 2, 3, 5])), self.groups * int(rng.choice([1, 2, 3, 4, 9]))
        while True:
            self.size = self._numbers(rng, 1, 10)
            self.taps = self._numbers(rng, 1, 5)
            self.stride = self._numbers(rng, 1, 4)
            self.dilation = self._numbers(rng, 1, 4)
            self.pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (self.dims, 2)))
            if rng.random() < 0.6:
                self.pads = tuple((a, a) for a, _ in self.pads)
            self.extra = tuple(int(rng.integers(max(s, d))) for s, d in zip(self.stride, self.dilation, strict=True))
            if min(self.result) > 0:
                break
        weight = (read, made // self.groups) if self.transposed else (made, read // self.groups)
        self.x = self._normal(rng, int(rng.integers(1, 4)), read, *self.size)
        self.weight = self._normal(rng, *weight, *self.taps)
        self.bias = self._normal(rng, made) if rng.random() < 0.5 else None
        self.dy = self._normal(rng, len(self.x), made, *self.result)

    def _numbers(self, rng: Any, low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, self.dims))

    def _normal(self, rng: Any, *shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    @property
    def result(self) -> tuple[int, ...]:
        """The extents of what comes out."""
        sizes = zip(self.size, self.taps, self.stride, self.dilation, self.pads, self.extra, strict=True)
        if self.transposed:
            return tuple((e - 1) * s + d * (k - 1) + 1 - a - b + o for e, k, s, d, (a, b), o in sizes)
        return tuple((e + a + b - d * (k - 1) - 1) // s + 1 for e, k, s, d, (a, b), _ in sizes)

    @property
    def attributes(self) -> dict[str, Any]:
        symmetric = all(a == b for a, b in self.pads)
        given: dict[str, Any] = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        given["padding"] = tuple(a for a, _ in self.pads) if symmetric else self.pads
        return given | ({"output_padding": self.extra} if self.transposed else {})

    def expected(self) -> tuple[Any, Any, Any, Any]:
        """y, dx, dweight, dbias of float64: one position of the smaller side after the other."""
        x, weight, dy = (a.astype(np.float64) for a in (self.x, self.weight, self.dy))
        small, large = (x, dy) if self.transposed else (dy, x)
        count = self.groups
        grouped = [a.reshape(len(a), count, -1, *a.shape[2:]) for a in (small, large)]
        kernels = weight.reshape(count, -1, *weight.shape[1:])
        y = np.zeros((len(x), count, self.dy.shape[1] // count, *self.dy.shape[2:]))
        dx, dweight = np.zeros((len(x), count, self.x.shape[1] // count, *self.x.shape[2:])), np.zeros_like(kernels)
        for tap in np.ndindex(*self.taps):
            for p in np.ndindex(*small.shape[2:]):
                places = zip(p, self.stride, tap, self.dilation, self.pads, strict=True)
                q = tuple(i * s + t * d - a for i, s, t, d, (a, _) in places)
                if any(i < 0 or i >= e for i, e in zip(q, large.shape[2:], strict=True)):
                    continue
                here, there = (..., *p), (..., *q)
                from_x, to_y = (here, there) if self.transposed else (there, here)
                of_tap = kernels[(..., *tap)]  # (groups, channels of the small side, of the large)
                turned = of_tap if self.transposed else of_tap.swapaxes(1, 2)  # (groups, read, made)
                source = grouped[0] if self.transposed else grouped[1]
                upstream = grouped[1] if self.transposed else grouped[0]
                y[to_y] += np.einsum("ngc,gco->ngo", source[from_x], turned)
                dx[from_x] += np.einsum("ngo,gco->ngc", upstream[to_y], turned)
                dweight[(..., *tap)] += np.einsum("ngs,ngl->gsl", grouped[0][here], grouped[1][there])
        y = y.reshape(self.dy.shape)
        if self.bias is not None:
            y += self.bias.reshape(-1, *(1,) * self.dims)
        dbias = dy.sum(axis=(0, *range(2, dy.ndim)))
        return y, dx.reshape(self.x.shape), dweight.reshape(self.weight.shape), dbias


def close(made: Any, expected: Any) -> None:
    """To 4e-6 of the largest element: sums of up to some hundred products, each rounded."""
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.numpy(), expected, rtol=0, atol=4e-6 * max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("number", range(COMBINATIONS))
@pytest.mark.parametrize("name", DIMS)
def test_combinations_of_arguments(name: str, number: int, gpu: GPUDevice) -> None:
    """K5, by value: the result and the three gradients, by kernels and by their twins."""
    call = Call(name, number)
    expected = call.expected()
    for device in (gpu, gb.device("host")):
        given = [x for x in (call.x, call.weight, call.bias) if x is not None]
        leaves = [ad.tensor(x, requires_grad=True, device=device) for x in given]
        y = getattr(F, name)(*leaves, **call.attributes)
        y.backward(ad.tensor(call.dy, device=device))
        close(y, expected[0])
        for leaf, gradient in zip(leaves, expected[1:], strict=False):
            assert leaf.grad is not None
            close(leaf.grad, gradient)


def test_depthwise_gradient_with_a_stride(device: Device) -> None:
    """P-AG10."""
    x = ad.tensor(np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4), requires_grad=True, device=device)
    weight = ad.tensor(np.ones((2, 1, 3, 3), np.float32), requires_grad=True, device=device)
    y = F.conv2d(x, weight, stride=2, padding=1, groups=2)
    y.backward(ad.tensor(np.ones(y.shape, np.float32), device=device))
    assert x.grad is not None
    assert weight.grad is not None
    first, second = [[5, 10, 12], [10, 20, 24], [18, 36, 40]], [[21, 42, 44], [42, 84, 88], [50, 100, 104]]
    np.testing.assert_array_equal(weight.grad.numpy()[:, 0], [first, second])
    each = [[1, 2, 1, 1], [2, 4, 2, 2], [1, 2, 1, 1], [1, 2, 1, 1]]
    np.testing.assert_array_equal(x.grad.numpy()[0], [each, each])


def test_a_small_image_is_no_work_for_the_host(gpu: GPUDevice) -> None:
    """P-AP05: 3 to 20 channels on 30 x 30: kernels both ways; benchmarks/conv.py has its time."""
    x = ad.tensor(np.ones((1, 3, 30, 30), np.float32), requires_grad=True)
    weight = ad.tensor(np.ones((20, 3, 3, 3), np.float32), requires_grad=True)
    before = gpu.recorder.host_calls
    F.conv2d(x, weight).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert x.grad.numpy()[0, 0, 15, 15] == 9 * 20
    np.testing.assert_array_equal(weight.grad.numpy(), np.full(weight.shape, 28 * 28))
    assert gpu.recorder.host_calls == before


@pytest.mark.parametrize(("channels", "groups"), [(4, 1), (2, 2)])
def test_many_images(channels: int, groups: int, gpu: GPUDevice) -> None:
    """K2: 70,000 images of 4 x 4, forward and the three gradients, by the kernels of blocks and of few rows."""
    N = 70_000
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (N, 2, 4, 4)).astype(np.float32)
    w = rng.integers(-3, 4, (channels, 2 // groups, 3, 3)).astype(np.float32)
    leaves = [ad.tensor(v, requires_grad=True) for v in (x, w, np.ones(channels, np.float32))]
    y = F.conv2d(*leaves, padding=1, groups=groups)
    dy = rng.integers(-1, 2, y.shape).astype(np.float32)
    y.backward(ad.tensor(dy))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    some = [0, 1, 34_999, 65_535, 65_536, N - 1]
    wide = w if groups == 1 else np.einsum("ochw,oc,op->ophw", w, np.ones((2, 1)), np.eye(2))
    expected, dx = np.ones((N, channels, 4, 4)), np.zeros_like(padded)
    dw = np.zeros_like(wide)
    for i, j in np.ndindex(3, 3):
        window = padded[:, :, i : i + 4, j : j + 4]
        expected[some] += np.einsum("oc,nchw->nohw", wide[:, :, i, j], window[some])
        dx[some, :, i : i + 4, j : j + 4] += np.einsum("oc,nohw->nchw", wide[:, :, i, j], dy[some])
        dw[:, :, i, j] = np.tensordot(dy, window, ((0, 2, 3), (0, 2, 3)))
    made = [y, *(leaf.grad for leaf in leaves)]
    np.testing.assert_array_equal(made[0].numpy()[some], expected[some])
    np.testing.assert_array_equal(made[1].numpy()[some], dx[some, :, 1:5, 1:5])
    own = dw if groups == 1 else dw[[0, 1], [0, 1]][:, None]
    np.testing.assert_allclose(made[2].numpy(), own, rtol=1e-6)
    np.testing.assert_allclose(made[3].numpy(), dy.sum(axis=(0, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "weight", "groups"),
    [
        ((1, 700, 3, 3), (4, 700, 3, 3), 1),  # long sums forward
        ((1, 9000, 3, 3), (2, 9000, 3, 3), 1),  # in several parts, and of few rows
        ((1, 1, 18_000), (1, 1, 16_000), 1),  # many taps
        ((1, 1, 150_000), (4, 1, 3), 1),  # and over positions: one line
        ((1, 2, 150_000), (2, 1, 3), 2),
        ((3, 4, 200, 150), (8, 4, 1, 1), 1),  # a matrix product forward
    ],
)
def test_long_sums(x: Any, weight: Any, groups: int, gpu: GPUDevice) -> None:
    """Sums of positive numbers stay good to 1e-6, however many they are."""
    rng = np.random.default_rng(5)
    a, w = rng.random(x, np.float32), rng.random(weight, np.float32)
    leaves = [ad.tensor(v, requires_grad=True) for v in (a, w)]
    y = (F.conv1d if len(x) == 3 else F.conv2d)(*leaves, groups=groups)
    dy = rng.random(y.shape, np.float32)
    y.backward(ad.tensor(dy))
    given = [v.astype(np.float64) for v in (a, w)]
    op = ops.conv1d if len(x) == 3 else ops.conv2d
    expected, saved = op.host_forward(*given, groups=groups)
    gradients = op.host_backward(dy.astype(np.float64), saved, (True, True))  # type: ignore[misc]
    for made, right in zip((y, *(leaf.grad for leaf in leaves)), (expected, *gradients), strict=True):
        np.testing.assert_allclose(made.numpy(), right, rtol=1e-6)


def test_nothing_leaks_in_from_outside_the_image(device: Device) -> None:
    """Infinity and NaN in one image touch no other, and padding times infinity in a weight is 0, not NaN."""
    x = np.ones((3, 4, 3, 3), np.float32)
    x[0], x[2] = np.inf, np.nan
    weight = np.ones((4, 4, 3, 3), np.float32)
    y = F.conv2d(*(ad.tensor(v, device=device) for v in (x, weight)), padding=1).numpy()
    np.testing.assert_array_equal(y[1], np.tile(4 * np.array([[4, 6, 4], [6, 9, 6], [4, 6, 4]]), (4, 1, 1)))
    assert np.isinf(y[0]).all()
    assert np.isnan(y[2]).all()


def test_pipelines_do_not_depend_on_sizes(gpu: GPUDevice) -> None:
    """P-AP06: after one step, other extents, strides and batches make no pipeline more."""

    def step(batch: int, side: int, taps: int, **attributes: Any) -> None:
        x = ad.tensor(np.ones((batch, 4, side, side), np.float32), requires_grad=True)
        weight = ad.tensor(np.ones((8, 4, taps, taps), np.float32), requires_grad=True)
        F.conv2d(x, weight, **attributes).sum().backward()

    step(2, 8, 3)
    step(40, 20, 3)  # sums long enough for the second kernel of a reduction
    before = gpu.pipelines.misses
    for batch in range(1, 12):
        step(batch, 9 + batch, 2 + batch % 3, stride=1 + batch % 2, padding=batch % 2, dilation=1 + batch % 3)
    assert gpu.pipelines.misses == before


def test_a_result_past_the_binding_limit_is_named(gpu: GPUDevice) -> None:
    x = gb.zeros((1, 1, 4000, 4000))
    weight = gb.zeros((200, 1, 1, 1))
    before = gb.memory.stats().in_use_bytes
    with pytest.raises(gb.OutOfMemoryError, match="conv2d"):
        gb.conv2d(x, weight)
    assert gb.memory.stats().in_use_bytes == before


def test_float16_images(device: Device) -> None:
    """Stored in halves, computed in float32."""
    x = np.linspace(-1, 1, 2 * 3 * 5 * 5).reshape(2, 3, 5, 5).astype(np.float16)
    weight = np.linspace(-1, 1, 4 * 3 * 9).reshape(4, 3, 3, 3).astype(np.float16)
    y = gb.conv2d(*(gb.array(v, device=device) for v in (x, weight)))
    assert y.dtype is gb.float16
    expected, _ = ops.conv2d.host_forward(x.astype(np.float64), weight.astype(np.float64))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-3, atol=1e-3)


def test_modules_convolve_like_the_functions(device: Device) -> None:
    """Shapes of weights and their bounds as in PyTorch; arguments reach the function, and are read at each call."""
    x = ad.tensor(np.random.default_rng(6).standard_normal((2, 4, 9, 8)).astype(np.float32), device=device)
    line, volume = x.reshape(2, 4, 72), x.reshape(2, 4, 3, 4, 6)
    for module, given, result in (
        (nn.Conv1d(4, 6, 3, 2, ((2, 1),), groups=2, device=device), line, (2, 6, 37)),
        (nn.Conv2d(4, 6, (3, 2), padding="same", dilation=2, device=device), x, (2, 6, 9, 8)),
        (nn.Conv3d(4, 6, 2, bias=False, device=device), volume, (2, 6, 2, 3, 5)),
        (nn.ConvTranspose1d(4, 6, 3, 2, output_padding=1, device=device), line, (2, 6, 146)),
        (nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2, dilation=2, device=device), x, (2, 6, 19, 17)),
    ):
        y = module(given)
        assert y.shape == result
        arguments = {name: getattr(module, name) for name in module.arguments}
        expected = type(module).function(given, module.weight, module.bias, **arguments)
        np.testing.assert_array_equal(y.numpy(), expected.numpy())
        bound = 1 / np.sqrt(np.prod(module.weight.shape[1:]))
        assert 0.8 * bound < np.abs(module.weight.numpy()).max() <= bound
    assert repr(nn.Conv2d(3, 8, 3, padding="same", bias=False)) == (
        "Conv2d(3, 8, kernel_size=(3, 3), padding='same', bias=False)"
    )
    with pytest.raises(ValueError, match="Conv2d: 3 and 8 channels do not both divide into 2 groups"):
        nn.Conv2d(3, 8, 3, groups=2)
    with pytest.raises(ValueError, match="Conv2d: channels and groups are positive numbers, not 0, 8 and 1"):
        nn.Conv2d(0, 8, 3)
    with pytest.raises(gb.ShapeError, match="Conv2d: kernel_size is positive, not 0"):
        nn.Conv2d(3, 8, 0)


class Network:
    """Convolutions, batch norm, pool, dropout and dense layers, with their optimizer."""

    def __init__(self) -> None:
        ad.manual_seed(3)
        self.model = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.2),
            nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3),
            nn.Linear(8 * 4, 5),
        )  # fmt: skip
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.01)

    def step(self, x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@pytest.mark.parametrize("backward", ["device", "host"])
@pytest.mark.filterwarnings("ignore::gpu_backend.HostFallbackWarning")
def test_a_network_is_equal_eager_and_compiled(backward: str, gpu: GPUDevice) -> None:
    """Bit by bit over 50 steps, with batch norm and dropout, and with a host call in the middle of the plan."""
    eager, compiled = Network(), Network()
    step = ad.compiled(compiled.step)
    rng = np.random.default_rng(7)
    with gb.fallback("conv2d.backward", backward):
        for number in range(50):
            x = ad.tensor(rng.standard_normal((8, 1, 8, 8)).astype(np.float32))
            target = ad.tensor(rng.integers(0, 5, 8).astype(np.int32))
            losses = []
            for run in (eager.step, step):
                ad.manual_seed(number)
                losses.append(run(x, target))
            same(*losses)
    assert (step.stats().captures, step.stats().replays) == (1, 49)
    submits = 3 if backward == "host" else 1
    assert f"{submits} submit" in step.explain()
    state = compiled.model.state_dict()
    for name, value in eager.model.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), value.numpy(), err_msg=name)


@pytest.mark.parametrize("groups", [1, 6])
def test_much_work_comes_in_several_dispatches(groups: int, gpu: GPUDevice) -> None:
    """Blocks and depthwise kernels past the work budget of one dispatch: the same bits."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((4, 6, 20, 30)).astype(np.float32)
    weight = rng.standard_normal((18, 6 // groups, 3, 3)).astype(np.float32)

    def run() -> list[Any]:
        leaves = [ad.tensor(v, requires_grad=True) for v in (x, weight)]
        y = F.conv2d(*leaves, groups=groups)
        y.square().sum().backward()
        return [y.numpy(), *(leaf.grad.numpy() for leaf in leaves)]

    whole, before = run(), gpu.recorder.dispatches
    run()
    of_one = gpu.recorder.dispatches - before
    budget = gpu.recorder.work_budget
    gpu.recorder.configure(work_budget=40_000)
    try:
        parts = run()
    finally:
        gpu.recorder.configure(work_budget=budget)
    assert gpu.recorder.dispatches - before - of_one > of_one + 6
    for mine, theirs in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)
