"""Products of matrices and vectors: both kernels of matmul, vectors, vecdot, outer, bilinear, pipelines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device, ShapeError, ops
from gpu_backend.device import GPUDevice
from gpu_backend.op_table import ROWS, Row, Sample
from gpu_backend.op_table.run import check
from gpu_backend.ops import matmul_kernels

EXTENTS = (1, 3, 4, 5, 15, 16, 17, 31, 33, 63, 65, 147)
SAMPLES = [
    pytest.param(row, sample, id=f"{row.op.name}-{sample.id}")
    for row in ROWS["linear_algebra"]
    for sample in row.samples
    if row.op in (ops.matmul, ops.linear)
]


@pytest.fixture(params=["blocked", "tiled"])
def either(request: pytest.FixtureRequest, gpu: GPUDevice) -> Iterator[GPUDevice]:
    """The adapter with one of its two matmul kernels."""
    before, gpu.matmul_kernel = gpu.matmul_kernel, request.param
    yield gpu
    gpu.matmul_kernel = before


def ones(*shape: int) -> gb.Array:
    return gb.array(np.ones(shape, np.float32))


@pytest.mark.parametrize(("row", "sample"), SAMPLES)
def test_both_kernels_agree_with_float64(row: Row, sample: Sample, either: GPUDevice) -> None:
    """P-WN10: each kernel by itself, with every flag, forward and backward."""
    check(row, sample, either)


def test_the_kernel_that_was_asked_for_runs(gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    kernel = gpu.kernel
    monkeypatch.setattr(gpu, "kernel", lambda file, *rest, **named: asked.append(file) or kernel(file, *rest, **named))
    for kind, file in matmul_kernels.FILES.items():
        asked.clear()
        monkeypatch.setattr(gpu, "_matmul_kernel", kind)
        gb.matmul(ones(2, 3), ones(3, 2))
        assert [name for name in asked if "matmul" in name] == [file]


def test_matmul_kernel_is_chosen_by_the_adapter(adapter: GPUDevice) -> None:
    assert adapter.matmul_kernel == ("tiled" if adapter.kind == "hardware" else "blocked")
    with pytest.raises(ValueError, match="no 'naive'; there are blocked and tiled"):
        adapter.matmul_kernel = "naive"


@pytest.mark.parametrize("M", [35, 64, 128, 256, 535, 1024])
def test_no_tile_is_left_out(M: int, either: GPUDevice) -> None:
    """P-WN09: every element of a large product, in the last tiles too."""
    assert (gb.matmul(ones(M, 1024), ones(1024, 1024)).numpy() == 1024).all()


@pytest.mark.parametrize("budget", [2**30, 2**20])
def test_batches_are_whole_on_every_path(budget: int, either: GPUDevice) -> None:
    """P-WN10: with the work in one dispatch, and in many."""
    before = either.recorder.work_budget
    either.recorder.configure(work_budget=budget)
    try:
        assert (gb.matmul(ones(1, 8, 512, 512), ones(1, 8, 512, 32)).numpy() == 512).all()
    finally:
        either.recorder.configure(work_budget=before)


def whole(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def check_whole(M: int, N: int, K: int, flags: tuple[bool, bool] = (False, False)) -> None:
    a, b = whole(M, M, K), whole(N, K, N)
    left, right = (gb.array(np.ascontiguousarray(x.T if flag else x)) for x, flag in zip((a, b), flags, strict=True))
    y = gb.matmul(left, right, transpose_a=flags[0], transpose_b=flags[1]).numpy()
    np.testing.assert_array_equal(y, a @ b, err_msg=f"{M} {N} {K}")


def test_edges(either: GPUDevice) -> None:
    """P-WN11: extents that are no multiple of a tile or of four; whole numbers, so that equality is exact."""
    for m, n, k in itertools.product(EXTENTS, EXTENTS, EXTENTS):
        check_whole(m, n, k)


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_edges_of_transposed_operands(flags: tuple[bool, bool], either: GPUDevice) -> None:
    """P-WN11, however the operands lie, and around the sizes from which a transposed operand is copied."""
    for m, n, k in itertools.product((1, 5, 63, 64, 68), (1, 4, 65), (1, 3, 16, 33)):
        check_whole(m, n, k, flags)


@pytest.mark.parametrize("K", [511, 513, 16384, 16385, 40000])
def test_long_sums(K: int, either: GPUDevice) -> None:
    """Sums in blocks, and in parts, which carry bias and activation to the end; terms that are equal round one way, the
    worst there is."""
    x, w = np.full((2, K), 0.1, np.float32), np.ones((3, K), np.float32)
    bias = np.array([0.0, 1.0, -1e6], np.float32)
    y = gb.linear(gb.array(x), gb.array(w), gb.array(bias), "relu").numpy()
    np.testing.assert_allclose(y, np.maximum(np.float64(np.float32(0.1)) * K + bias, 0) * np.ones((2, 1)), rtol=2e-6)


def test_infinities_and_nan_stay_in_their_rows(either: GPUDevice) -> None:
    """What fills a tile up meets no element of y."""
    a, b = np.ones((70, 5), np.float32), np.ones((5, 70), np.float32)
    a[69, 4], b[0, 3] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(gb.matmul(gb.array(a), gb.array(b)).numpy(), a @ b)


def test_grid_is_folded(either: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """K2 for both kernels: past the groups of one axis."""
    monkeypatch.setattr(either.recorder, "max_groups_per_axis", 61)
    for row, inputs in (
        (ROWS["linear_algebra"][0], (np.ones((140, 2, 3), np.float32), np.ones((140, 3, 2), np.float32))),
        (ROWS["linear_algebra"][0], (np.ones((700, 5), np.float32), np.ones((5, 600), np.float32))),
        (
            ROWS["linear_algebra"][1],
            (np.ones((4200, 3), np.float32), np.ones((2, 3), np.float32), np.ones(2, np.float32)),
        ),
    ):
        check(row, Sample("folded", inputs), either)


def test_gradient_of_what_broadcasts(device: Device) -> None:
    """P-AG03: each gradient has the shape of its operand."""
    a = ad.tensor(np.arange(8.0).reshape(2, 2, 2), requires_grad=True)
    b = ad.tensor(np.ones((2, 3)), requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    np.testing.assert_array_equal(b.grad.numpy(), [[12, 12, 12], [16, 16, 16]])
    np.testing.assert_array_equal(a.grad.numpy(), np.full((2, 2, 2), 3))
    for shape, share in (((3,), 8), ((), 24), ((1, 3), 8), ((2, 1), 12)):
        x = ad.tensor(np.ones((4, 2, 3)), requires_grad=True)
        bias = ad.tensor(np.zeros(shape), requires_grad=True)
        (x + bias).sum().backward()
        assert bias.grad is not None
        np.testing.assert_array_equal(bias.grad.numpy(), np.full(shape, share))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 0), (0, 3)),
        ((0, 4), (4, 3)),
        ((2, 4), (4, 0)),
        ((0,), (0,)),
        ((0,), (0, 3)),
        ((2, 0, 3), (3,)),
        ((0,), (2, 0, 3)),
    ],
)
def test_products_without_elements(a: Any, b: Any, device: Device) -> None:
    """P-LM08: the result of numpy; no dispatch where nothing comes out."""
    x, z = ad.tensor(np.zeros(a), requires_grad=True), ad.tensor(np.zeros(b), requires_grad=True)
    before = device.recorder.dispatches
    y = x @ z
    expected = np.zeros(a) @ np.zeros(b)
    if not expected.size and device.pool.on_take is None:
        assert device.recorder.dispatches == before
    np.testing.assert_array_equal(y.numpy(), expected)
    y.sum().backward()
    assert x.grad is not None
    assert z.grad is not None
    assert (x.grad.shape, z.grad.shape) == (a, b)
    assert not x.grad.numpy().any()
    assert not z.grad.numpy().any()


@pytest.mark.no_poison
def test_nothing_is_dispatched_for_nothing(gpu: GPUDevice) -> None:
    """P-LM08."""
    a, b = gb.empty((0, 4)), gb.empty((4, 3))
    before = gpu.recorder.dispatches
    assert gb.matmul(a, b).shape == (0, 3)
    assert gpu.recorder.dispatches == before


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul_and_its_gradient(a: Any, b: Any, device: Device) -> None:
    """Vectors and stacks as in numpy: by ``matmul``, by ``@``, of arrays and of tensors."""
    x, z = np.random.default_rng(0).standard_normal((2, 400)).astype(np.float32)
    x, z = x[: np.prod(a)].reshape(a), z[: np.prod(b)].reshape(b)
    expected = x.astype(np.float64) @ z
    one, other = ad.tensor(x, requires_grad=True), ad.tensor(z, requires_grad=True)
    for y in (gb.matmul(gb.array(x), gb.array(z)), gb.array(x) @ gb.array(z), one @ other, one @ z, x @ other):
        assert y.shape == expected.shape
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-5)
    ad.gradient_check(F.matmul, one, other)


def test_a_vector_has_no_transpose(device: Device) -> None:
    with pytest.raises(ShapeError, match=r"matmul: a vector, of shape \(3,\), has no transpose"):
        F.matmul(ad.tensor(np.ones(3)), ad.tensor(np.ones((3, 2))), transpose_a=True)


def test_vecdot_outer_bilinear(device: Device) -> None:
    random = np.random.default_rng(0)

    def leaf(*shape: int) -> ad.Tensor:
        return ad.tensor(random.standard_normal(shape), requires_grad=True)

    a, b = leaf(2, 3, 5), leaf(3, 1)
    np.testing.assert_allclose(
        F.vecdot(a, b, axis=-2).numpy(), (a.numpy() * b.numpy()).sum(axis=1), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(F.vecdot(a, a, dim=0).numpy(), F.vecdot(a, a, axis=-3).numpy())
    ad.gradient_check(lambda a, b: F.vecdot(a, b, axis=-2), a, b)
    p, q = leaf(4), leaf(3)
    np.testing.assert_array_equal(p.outer(q).numpy(), np.outer(p.numpy(), q.numpy()))
    ad.gradient_check(F.outer, p, q)
    x1, x2, w, bias = leaf(2, 4, 3), leaf(2, 4, 5), leaf(6, 3, 5), leaf(6)
    wanted = np.einsum("bni,oij,bnj->bno", x1.numpy(), w.numpy(), x2.numpy()) + bias.numpy()
    np.testing.assert_allclose(F.bilinear(x1, x2, w, bias).numpy(), wanted, rtol=1e-5, atol=1e-5)
    ad.gradient_check(F.bilinear, x1, x2, w, bias)
    ad.gradient_check(F.bilinear, x1, x2, w)


def steps(gpu: GPUDevice, features: tuple[int, int], batches: Any, loss: Any) -> list[int]:
    """After a training step of each batch size: how many pipelines there are."""
    model = nn.Linear(*features)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    counts = []
    for B in batches:
        optimizer.zero_grad()
        loss(model(ad.tensor(np.ones((B, features[0]), np.float32)))).backward()
        optimizer.step()
        counts.append(gpu.pipelines.misses)
    return [count - counts[0] for count in counts]


@pytest.mark.parametrize("features", [(16, 12), (7, 5), (5, 1)])
def test_pipelines_do_not_depend_on_the_batch_size(
    features: tuple[int, int], either: GPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-AP06: batches of 1 to 30 rows make as many pipelines as one. The blocked kernel reads a transposed copy of the
    weight from 64 rows on, which makes two more, once."""
    monkeypatch.setattr(either.pipelines, "_kernels", {})

    def loss(y: ad.Tensor) -> ad.Tensor:
        return F.cross_entropy(y, ad.tensor(np.zeros(len(y), np.int32)))

    more = steps(either, features, [*range(1, 31), 63, 64, 100], loss)
    assert set(more[:31]) == {0}
    assert more[31:] == ([2, 2] if either.matmul_kernel == "blocked" else [0, 0])
