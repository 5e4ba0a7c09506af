"""Cases from public bug reports about wrong numbers and limits, by their numbers; see also test_ops."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn
from gpu_backend import Device
from gpu_backend.device import GPUDevice


def test_tanh_does_not_overflow(device: Device) -> None:
    """P-WN01: forward and backward far out, and NaN stays NaN."""
    x = ad.tensor(np.array([0, 20, 89, 1000, -1000, 3e38, -3e38, np.inf, np.nan], np.float32), requires_grad=True)
    y = F.tanh(x)
    np.testing.assert_array_equal(y.numpy(), [0, 1, 1, 1, -1, 1, -1, 1, np.nan])
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0, 0, 0, 0, 0, 0, 0, np.nan])


def test_elementwise_functions_at_special_values(device: Device) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 100.0, -100.0], np.float32)
    x = gb.array(special)
    with np.errstate(all="ignore"):
        # An adapter may flush subnormal results, such as exp(-100), to zero.
        np.testing.assert_allclose(gb.exp(x).numpy(), np.exp(special), rtol=2e-6, atol=1e-38)
        np.testing.assert_allclose(gb.log(x).numpy(), np.log(special), rtol=2e-6)
        np.testing.assert_allclose(gb.sqrt(x).numpy(), np.sqrt(special), rtol=2e-6)
        np.testing.assert_array_equal(gb.relu(x).numpy(), np.maximum(special, 0))
        np.testing.assert_allclose(gb.divide(1.0, x).numpy(), 1 / special, rtol=2e-6)
    sigmoid = [0.5, 0.5, 1, 0, np.nan, 0.7310586, 0.26894143, 1, 0]
    np.testing.assert_allclose(gb.sigmoid(x).numpy(), sigmoid, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 1e-45, 3.4028234663852886e38])
def test_any_number_can_fill_an_array(number: float, device: Device) -> None:
    """P-WN07: infinity and NaN never stand in shader text."""
    np.testing.assert_array_equal(gb.full((5,), number).numpy(), np.full(5, number, np.float32))


def test_infinity_as_an_operand(device: Device) -> None:
    """P-WN07: x times infinity, and infinity where a mask says so."""
    x = gb.array([1.0, -1.0, 2.0])
    assert gb.multiply(x, float("inf")).tolist() == [np.inf, -np.inf, np.inf]
    assert gb.where(gb.less(x, 0.0), float("-inf"), x).tolist() == [1.0, -np.inf, 2.0]


@pytest.mark.parametrize("number", [-0.95, 3.4028235e38, 0.1, -1e-30, 1e-20, 1e39])
def test_numbers_reach_the_kernel_unchanged(number: float, device: Device) -> None:
    """P-WN08: no number is printed into a shader."""
    x = np.array([1.0, -2.5, 0.0], np.float32)
    with np.errstate(all="ignore"):
        wanted = np.float32(number)
        np.testing.assert_array_equal(gb.subtract(gb.array(x), number).numpy(), x - wanted)
        np.testing.assert_array_equal(gb.multiply(gb.array(x), number).numpy(), x * wanted)


def test_integers_are_exact(device: Device) -> None:
    """P-WN08: integer numbers past 2^24, and arithmetic that wraps around."""
    elements = np.array([1, -3, 2**31 - 1], np.int32)
    x = gb.array(elements)
    np.testing.assert_array_equal(gb.multiply(x, 16777217).numpy(), elements * np.int32(16777217))
    assert gb.add(x, 1).tolist() == [2, -2, -(2**31)]
    assert gb.negative(x).tolist() == [-1, 3, -(2**31) + 1]
    u = gb.array(np.array([0, 1, 2**32 - 1], np.uint32))
    assert gb.subtract(u, 1).tolist() == [2**32 - 1, 0, 2**32 - 2]


@pytest.mark.parametrize("M", [35, 64, 128, 256, 535, 1024])
def test_matmul_computes_every_tile(M: int, adapter: GPUDevice) -> None:
    """P-WN09: ones(M, 1024) @ ones(1024, 1024) is 1024 everywhere."""
    a, b = gb.full((M, 1024), 1.0, device=adapter), gb.full((1024, 1024), 1.0, device=adapter)
    assert (gb.matmul(a, b).numpy() == 1024).all()


@pytest.mark.parametrize("M", [1, 3, 4, 5, 8, 9, 17, 31, 65, 147])
def test_matmul_at_edges_of_tiles_is_exact(M: int, adapter: GPUDevice) -> None:
    """P-WN11: small integers, every orientation, extents that are and are not multiples of the tile and of four."""
    random = np.random.default_rng(M)
    for N in (1, 3, 4, 7, 16, 33, 64, 65):
        for K in (1, 4, 5, 15, 32, 63):
            a, b = random.integers(-3, 4, (M, K)), random.integers(-3, 4, (K, N))
            for ta in (False, True):
                for tb in (False, True):
                    if (ta or tb) and (N > 16 and K > 15):
                        continue
                    left = gb.array((a.T if ta else a).astype(np.float32), device=adapter)
                    right = gb.array((b.T if tb else b).astype(np.float32), device=adapter)
                    got = gb.matmul(left, right, transpose_a=ta, transpose_b=tb).numpy()
                    np.testing.assert_array_equal(got, a @ b, err_msg=f"{M} {N} {K} {ta} {tb}")


def test_linear_at_edges_of_tiles_is_exact(adapter: GPUDevice) -> None:
    """P-WN11 with the bias in the epilogue; both the transposed copy and the read down the columns."""
    random = np.random.default_rng(0)
    for rows in (1, 63, 64, 65):
        for outs in (1, 5, 8, 10, 66):
            x, w, b = random.integers(-3, 4, (rows, 9)), random.integers(-3, 4, (outs, 9)), random.integers(-3, 4, outs)
            arrays = [gb.array(v.astype(np.float32), device=adapter) for v in (x, w, b)]
            np.testing.assert_array_equal(gb.linear(*arrays).numpy(), x @ w.T + b)


def test_long_sums_stay_accurate(device: Device) -> None:
    """P-WN13: four million tenths, and a mean over twenty million."""
    tenths = gb.full((4_000_000,), 0.1)
    wanted = float(np.float32(0.1)) * 4_000_000
    assert gb.sum(tenths).item() == pytest.approx(wanted, rel=1e-6)
    for rows in (2000, 2_000_000):
        columns = gb.sum(tenths.reshape(rows, -1), axis=0).numpy()
        assert columns == pytest.approx(wanted * rows / 4_000_000, rel=1e-6)
    assert gb.mean(gb.full((4500, 4500), -1.0)).item() == -1.0


def test_cross_entropy_of_large_logits(device: Device) -> None:
    """K1: logits [0, 200], target 0: the loss is 200 and the gradient finite."""
    logits = ad.tensor([[0.0, 200.0], [-1e4, 1e4]], requires_grad=True)
    loss = F.cross_entropy(logits, [0, 1], reduction="sum")
    assert loss.item() == pytest.approx(200.0)
    loss.backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), [[-1, 1], [0, 0]], atol=1e-6)


def test_softmax_of_infinities(device: Device) -> None:
    """P-WN03: a row of -inf alone has no distribution; the rows beside it do not notice."""
    x = gb.array([[-np.inf] * 3, [-np.inf, 0.0, 0.0], [1000.0, 1001.0, -np.inf]])
    wanted = [[np.nan] * 3, [0, 0.5, 0.5], [0.26894142, 0.73105858, 0]]
    np.testing.assert_allclose(gb.softmax(x).numpy(), wanted, rtol=1e-6)


def test_max_starts_below_every_number_and_keeps_nan(device: Device) -> None:
    assert gb.max(gb.array([-5.0, -3.0, -9.0])).item() == -3.0
    assert gb.max(gb.array([-np.inf, -np.inf])).item() == -np.inf
    assert np.isnan(gb.max(gb.array([1.0, np.nan, 2.0])).item())
    assert gb.max(gb.array(np.array([-(2**31), -5], np.int32))).item() == -5


@pytest.mark.parametrize("shape", [(4,), (70, 3)])
def test_ties_share_the_gradient_of_max(shape: tuple[int, ...], device: Device) -> None:
    """The total is 1: each of n elements that tie gets 1/n."""
    x = ad.tensor(np.ones(shape), requires_grad=True)
    x.max().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.full(shape, 1 / np.prod(shape)), rtol=1e-6)


def test_a_reduction_of_a_slice_of_any_alignment(device: Device) -> None:
    """P-LM05: buffers are bound whole, so nothing depends on the alignment of an offset."""
    x = np.arange(1000, dtype=np.float32)
    assert gb.sum(gb.array(x[1:65])).item() == 2080
    np.testing.assert_array_equal(gb.multiply(gb.array(x[63:]), 2.0).numpy(), 2 * x[63:])
    turned = x[1:61].reshape(6, 10).T
    np.testing.assert_array_equal(gb.permute_dims(gb.array(turned), axes=(1, 0)).numpy(), turned.T)


@pytest.mark.no_poison
def test_empty_arrays_record_nothing(adapter: GPUDevice) -> None:
    """P-LM08: numpy's result, and no dispatch where there is nothing to make."""
    empty = gb.array(np.zeros((0, 3), np.float32), device=adapter)
    square = gb.array(np.zeros((3, 0), np.float32), device=adapter)
    before = adapter.recorder.dispatches
    results = [gb.exp(empty), gb.add(empty, empty), gb.softmax(empty), gb.permute_dims(empty, axes=(1, 0))]
    results += [gb.matmul(empty, gb.full((3, 4), 1.0, device=adapter)), gb.sum(empty, axis=1)]
    assert adapter.recorder.dispatches - before == 1, "only full() had something to write"
    assert [r.shape for r in results] == [(0, 3), (0, 3), (0, 3), (3, 0), (0, 4), (0,)]
    assert gb.sum(empty, axis=0).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(gb.mean(empty, axis=0).numpy()).all()
    assert gb.matmul(square, empty).tolist() == [[0.0] * 3] * 3
    assert gb.linear(square, gb.array(np.zeros((2, 0), np.float32), device=adapter)).tolist() == [[0.0] * 2] * 3


def test_eight_dimensions_that_do_not_merge(device: Device) -> None:
    x = np.arange(2**8, dtype=np.float32).reshape((2,) * 8)
    order = (7, 5, 3, 1, 6, 4, 2, 0)
    np.testing.assert_array_equal(gb.permute_dims(gb.array(x), axes=order).numpy(), x.transpose(order))


def test_nine_dimensions_that_do_not_merge_raise(adapter: GPUDevice) -> None:
    x = gb.array(np.zeros((2,) * 9, np.float32), device=adapter)
    with pytest.raises(gb.ShapeError, match="has 9 dimensions that do not merge; at most 8"):
        gb.permute_dims(x, axes=(8, 7, 6, 5, 4, 3, 2, 1, 0))


@pytest.mark.parametrize("offset", [0.0, -1e3, 1e4, 1e6, 1e8])
def test_cross_entropy_does_not_depend_on_an_offset(offset: float, device: Device) -> None:
    """K1: the largest logit and the logarithm of the sum are never added up."""
    logits = ad.tensor([[offset, offset]], requires_grad=True)
    loss = F.cross_entropy(logits, [0])
    assert loss.item() == pytest.approx(np.log(2), rel=1e-6)
    loss.backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), [[-0.5, 0.5]], rtol=1e-6)


def spread(low: float, high: float) -> np.ndarray:
    return np.geomspace(low, high, 400).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("tanh", np.concatenate([spread(1e-30, 15), -spread(1e-30, 15)])),
        ("log", np.concatenate([spread(1e-30, 1e30), 1 + spread(1e-7, 0.9), 1 - spread(1e-7, 0.9)])),
        ("sqrt", spread(1e-30, 1e30)),
        ("sigmoid", np.concatenate([-spread(1e-6, 80), spread(1e-6, 80)])),
        ("exp", np.concatenate([-spread(1e-6, 80), spread(1e-6, 80)])),
    ],
)
def test_relative_error_over_the_whole_range(name: str, x: np.ndarray, device: Device) -> None:
    """P-WN01's kind: small results are as good as large ones. WGSL allows exp an error of 3 + 2 |x| units."""
    op = getattr(gb, name)
    units = 3 + 2 * np.abs(x) if name in ("exp", "sigmoid") else 0 * x
    rtol = np.maximum(2e-6, 1.2e-7 * units)
    wanted = op.host_forward(x.astype(np.float64))[0]
    error = np.abs(op(gb.array(x)).numpy() / wanted - 1)
    assert (error <= rtol).all(), f"{name} at {x[np.argmax(error / rtol)]}: {error[np.argmax(error / rtol)]}"


SPECIAL_ROWS = [[0.0, np.inf], [0.0, np.nan], [-np.inf, 1.0], [np.inf, np.inf], [np.nan, np.nan], [1.0, 2.0]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy", "max", "mean"])
def test_special_values_mean_the_same_in_kernel_and_twin(name: str, adapter: GPUDevice, host: Device) -> None:
    """A NaN is never dropped, forward or backward."""
    results = []
    for device in (adapter, host):
        x = ad.tensor(SPECIAL_ROWS, requires_grad=True, device=device)
        if name == "cross_entropy":
            y = F.cross_entropy(x, [0, 1, 0, 1, 0, 1], reduction="none")
        else:
            y = getattr(F, name)(x, axis=1)
        (y * ad.tensor(np.arange(1.0, 1 + y.size).reshape(y.shape), device=device)).sum().backward()
        assert x.grad is not None
        results.append((y.numpy(), x.grad.numpy()))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_mean_of_equal_numbers_is_that_number(device: Device) -> None:
    for n in range(1, 130):
        assert gb.mean(gb.full((n,), 1.0)).item() == 1.0


def test_a_class_index_out_of_range_gives_no_gradient(adapter: GPUDevice) -> None:
    """K6: the row's gradient is 0, so a step taken before the read that raises moves nothing by it."""
    logits = ad.tensor(np.zeros((2, 3)), requires_grad=True, device=adapter)
    targets = ad.tensor(np.array([7, 1], np.int32), device=adapter)
    F.cross_entropy(logits, targets).backward()
    assert logits.grad is not None
    with pytest.raises(IndexError, match="index 7 is out of range for 3"):
        logits.grad.numpy()
    np.testing.assert_allclose(logits.grad.numpy(), [[0, 0, 0], [1 / 6, -1 / 3, 1 / 6]], rtol=1e-6)


def test_long_products_stay_accurate(device: Device) -> None:
    """P-WN13's kind: a weight gradient over 200,000 rows."""
    rows = 200_000
    x = ad.tensor(np.full((rows, 1), 0.1, np.float32))
    layer = nn.Linear(1, 1)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert layer.weight.grad.item() == pytest.approx(float(np.float32(0.1)) * rows, rel=1e-5)
    assert layer.bias.grad.item() == rows


@pytest.mark.parametrize("K", [16384, 16385, 70_001])
def test_products_over_a_long_inner_dimension(K: int, adapter: GPUDevice) -> None:
    """Exact in small integers, in every orientation, in a stack, with bias and activation."""
    random = np.random.default_rng(K)
    a, b = random.integers(-1, 2, (2, 3, K)), random.integers(-1, 2, (2, K, 5))
    for ta in (False, True):
        for tb in (False, True):
            left = gb.array((np.swapaxes(a, 1, 2) if ta else a).astype(np.float32), device=adapter)
            right = gb.array((np.swapaxes(b, 1, 2) if tb else b).astype(np.float32), device=adapter)
            np.testing.assert_array_equal(gb.matmul(left, right, transpose_a=ta, transpose_b=tb).numpy(), a @ b)
    x, w, bias = a[0], b[0].T, np.arange(5)
    arrays = [gb.array(v.astype(np.float32), device=adapter) for v in (x, w, bias)]
    np.testing.assert_array_equal(gb.linear(*arrays, activation="relu").numpy(), np.maximum(x @ w.T + bias, 0))


def test_division_by_the_number_zero_and_empty_layers(device: Device) -> None:
    x = ad.tensor([1.0, -1.0], requires_grad=True)
    (x / 0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [np.inf, np.inf]
    for shape in ((0, 3), (2, 0)):
        w = ad.tensor(np.ones(shape), requires_grad=True)
        y = F.linear(ad.tensor(np.ones((4, shape[1]))), w)
        y.backward(ad.tensor(np.ones((4, shape[0]))))
        assert w.grad is not None
        assert w.grad.shape == shape
    assert F.cross_entropy(ad.tensor(np.zeros((0, 0))), np.zeros(0, np.int32), reduction="sum").item() == 0.0
