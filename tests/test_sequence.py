"""Embedding, layer norm, rotary embedding, attention and their modules: what other systems got wrong, and values."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import functional, nn
from gpu_backend import Device, DtypeError, ShapeError, memory
from gpu_backend.device import GPUDevice
from gpu_backend.ops import sequence


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def leaf(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(normal(*shape, seed=seed), requires_grad=True)


def grad(x: ad.Tensor | None) -> Any:
    assert x is not None
    assert x.grad is not None
    return x.grad.numpy()


# Layer norm.


def test_a_row_far_from_zero_keeps_its_variance(device: Device) -> None:
    """P-WN12: a variance in one pass would be 0; equal elements give 0, exactly."""
    x = (1000 + np.arange(16) * 1e-3).astype(np.float32)
    made = F.layer_norm(ad.tensor(x), 16).numpy()
    assert made[0] == pytest.approx(-1.3415078, abs=1e-6)
    assert made[-1] == pytest.approx(1.3442372, abs=1e-6)
    constant = ad.tensor(np.full((2, 256), 1234.0, np.float32), requires_grad=True)
    y = F.layer_norm(constant, (256,))
    assert not y.numpy().any()
    y.backward(ad.tensor(normal(2, 256)))
    assert np.isfinite(grad(constant)).all()
    for value in (0.1, 1e7, -3e-5):
        assert np.abs(F.layer_norm(ad.tensor(np.full((3, 77), value, np.float32)), 77).numpy()).max() < 1e-6


def test_layer_norm_is_that_of_its_formula_and_of_the_composite(device: Device) -> None:
    x, weight, bias = leaf(3, 5, 8), leaf(5, 8, seed=1), leaf(5, 8, seed=2)
    y = F.layer_norm(x, (5, 8), weight, bias, eps=0.1)
    centred = x - F.broadcast_to(F.mean(x, axis=(1, 2), keepdims=True), x.shape)
    composite = centred / F.sqrt(F.mean(centred * centred, axis=(1, 2), keepdims=True) + 0.1) * weight + bias
    np.testing.assert_allclose(y.numpy(), composite.numpy(), rtol=1e-5, atol=1e-6)
    results = []
    for made in (y, composite):
        for t in (x, weight, bias):
            t.grad = None
        (made * ad.tensor(normal(3, 5, 8, seed=3))).sum().backward()
        results.append([grad(t) for t in (x, weight, bias)])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_layer_norm_of_70_000_rows(device: Device) -> None:
    """K2: past the groups of one axis, forward, backward and the sums over rows."""
    x, weight, bias = leaf(70_000, 3), leaf(3, seed=1), leaf(3, seed=2)
    y = F.layer_norm(x, 3, weight, bias)
    dy = normal(70_000, 3, seed=3)
    y.backward(ad.tensor(dy))
    wide = x.numpy().astype(np.float64)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    xhat = (wide - wide.mean(axis=1, keepdims=True)) / deviation
    np.testing.assert_allclose(y.numpy(), xhat * weight.numpy() + bias.numpy(), rtol=1e-4, atol=1e-5)
    g = dy * weight.numpy().astype(np.float64)
    dx = (g - g.mean(axis=1, keepdims=True) - xhat * (g * xhat).mean(axis=1, keepdims=True)) / deviation
    np.testing.assert_allclose(grad(x), dx, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(grad(weight), (dy * xhat).sum(axis=0), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(grad(bias), dy.sum(axis=0, dtype=np.float64), rtol=1e-5, atol=1e-3)


# Embedding.


def test_ids_that_occur_twice_add_up(device: Device) -> None:
    """P-AG02: w[[2, 0, 2, 2]] weighted by 1, 10, 100, 1000."""
    w = ad.tensor(np.zeros((4, 2)), requires_grad=True)
    y = F.embedding([2, 0, 2, 2], w)
    (y * ad.tensor([[1.0], [10.0], [100.0], [1000.0]])).sum().backward()
    np.testing.assert_array_equal(grad(w), [[10, 10], [0, 0], [1101, 1101], [0, 0]])
    w.grad = None
    y = F.embedding(np.array([[1, 1], [1, 2]]), ad.tensor(np.zeros((3, 2))))
    assert y.shape == (2, 2, 2)


def test_sixty_five_thousand_updates_of_one_cell(device: Device) -> None:
    """P-WN17: no update is lost, and the sum is exact."""
    table = ad.tensor(np.zeros((3, 2)), requires_grad=True)
    y = F.embedding([1, 1, 1, 2], table)
    y.backward(ad.tensor([[0.5, 0.5], [0.25, 0.25], [0.25, 0.25], [1.0, 1.0]]))
    np.testing.assert_array_equal(grad(table), [[0, 0], [1, 1], [1, 1]])
    for count in (65_536, 70_001):
        table.grad = None
        ids = np.full(count, 1)
        ids[5] = 0
        F.embedding(ids, table).sum().backward()
        np.testing.assert_array_equal(grad(table), [[1, 1], [count - 1, count - 1], [0, 0]])


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1025, 5000])
def test_sums_over_ids_are_exact_and_repeatable(count: int, device: Device) -> None:
    """Against integers in numpy; ids crowd at one end. Twice the same bits for floats."""
    random = np.random.default_rng(count)
    ids = ad.tensor(np.minimum(random.geometric(0.01, count) - 1, 299).astype(np.int32) - 300)
    for dy in (random.integers(-9, 9, (count, 3)).astype(np.float32), normal(count, 3)):
        grads = []
        for _ in range(2):
            table = ad.tensor(np.zeros((300, 3)), requires_grad=True)
            F.embedding(ids, table).backward(ad.tensor(dy))
            grads.append(grad(table))
        expected = np.zeros((300, 3))
        np.add.at(expected, ids.numpy(), dy)
        np.testing.assert_array_equal(*grads)
        np.testing.assert_allclose(grads[0], expected, rtol=1e-6, atol=1e-5)
        if (dy == np.trunc(dy)).all():
            np.testing.assert_array_equal(grads[0], expected)


def test_ids_out_of_range_from_the_host_raise_at_once(device: Device) -> None:
    """P-WN16, K6: negative ids in range follow numpy."""
    rows = np.array([[0.0], [1], [2], [3]]) * 10
    table = ad.tensor(rows)
    np.testing.assert_array_equal(F.embedding([-1, -4, 3], table).numpy(), rows[[-1, -4, 3]])
    before = device.recorder.dispatches
    for ids, wrong in (([0, 4], 4), ([-5], -5), (np.array([2**40]), 2**40)):
        with pytest.raises(IndexError, match=f"embedding: index {wrong} is out of range for 4"):
            F.embedding(ids, table)
    assert device.recorder.dispatches == before
    with pytest.raises(IndexError, match="take: index 3 is out of range for 3"):
        F.take(ad.tensor(normal(2, 3)), [3], axis=1)
    with pytest.raises(DtypeError, match="embedding: indices are integers, not float64"):
        F.embedding([0.5], table)


@pytest.mark.parametrize("wrong", [4, -5, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("width", [1, 4])
def test_ids_out_of_range_on_a_device_are_told_at_the_next_read(wrong: int, width: int, adapter: GPUDevice) -> None:
    """P-WN16, K6: the row is NaN, never a row of the table, and adds nothing to the gradient."""
    rows = np.repeat(np.array([[0.0], [1], [2], [3]], np.float32) * 10, width, axis=1)
    table = ad.tensor(rows, requires_grad=True, device=adapter)
    y = F.embedding(ad.tensor(np.array([1, wrong, -1], np.int32), device=adapter), table)
    y.sum().backward()
    with pytest.raises(IndexError, match=f"embedding: index {wrong} is out of range for 4"):
        y.numpy()
    np.testing.assert_array_equal(y.numpy(), [rows[1], [np.nan] * width, rows[3]])
    np.testing.assert_array_equal(grad(table)[:, 0], [0, 1, 0, 1])
    whole = gb.array(np.arange(4, dtype=np.int32).reshape(4, 1), device=adapter)
    made = gb.embedding(gb.array(np.array([3, wrong], np.int32), device=adapter), whole)
    with pytest.raises(IndexError):
        made.numpy()
    assert made.tolist() == [[3], [0]]


def test_a_vocabulary_of_50_000_needs_little_memory_and_no_read(gpu: GPUDevice) -> None:
    """M10: the gradient of the table, a few words an id, a word a row; a matrix of ids by rows has 800 MB."""
    vocabulary, width, count = 50_000, 16, 4096
    table = ad.tensor(np.zeros((vocabulary, width), np.float32), requires_grad=True)
    ids = ad.tensor(np.random.default_rng(0).integers(0, vocabulary, count).astype(np.int32))
    gc.collect()
    memory.reset_peak()
    before, reads = memory.stats().in_use_bytes, (gpu.recorder.downloads, gpu.recorder.host_calls)
    F.embedding(ids, table).sum().backward()
    assert (gpu.recorder.downloads, gpu.recorder.host_calls) == reads
    assert memory.stats().peak_bytes - before <= 2 * table.array.nbytes + 2**20
    expected = np.bincount(ids.numpy(), minlength=vocabulary)
    np.testing.assert_array_equal(grad(table), np.repeat(expected[:, None], width, axis=1))


def test_sums_of_whole_chunks_fold_their_grid(gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """K2: the sums of short chunks, in a grid of at most 61 groups on an axis."""
    monkeypatch.setattr(sequence, "CHUNK", 8)
    monkeypatch.setattr(gpu.recorder, "max_groups_per_axis", 61)
    ids = np.arange(40_000) // 100 % 30
    table = ad.tensor(np.zeros((30, 2)), requires_grad=True)
    dy = np.random.default_rng(0).integers(-9, 9, (40_000, 2)).astype(np.float32)
    F.embedding(ids, table).backward(ad.tensor(dy))
    expected = np.zeros((30, 2))
    np.add.at(expected, ids, dy)
    np.testing.assert_array_equal(grad(table), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_along_any_axis(axis: int, device: Device) -> None:
    x = leaf(3, 4, 5)
    for indices in ([2, 0, -1, 2], np.array([[1, 2], [0, 0], [2, 2]]), 1):
        y = F.take(x, indices, axis=axis)
        np.testing.assert_array_equal(y.numpy(), np.take(x.numpy(), indices, axis=axis))
        ad.gradient_check(lambda x, indices=indices: F.take(x, indices, axis=axis), x)
    truths = ad.tensor(x.numpy() > 0)
    np.testing.assert_array_equal(F.take(truths, [1, 1], axis=axis).numpy(), np.take(x.numpy() > 0, [1, 1], axis=axis))
    with pytest.raises(ShapeError, match="take: axis 3 is out of range"):
        F.take(x, [0], axis=3)


# Rotary embedding.


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 3, 5, 8)])
def test_weights_upstream_of_rotary_get_their_gradient(
    shape: tuple[int, ...], interleaved: bool, device: Device
) -> None:
    """T7: against the rotation as complex numbers, and for the weight before it by finite differences."""
    cos, sin = F.rotary_tables(5, 8)
    layer = nn.Linear(8, 8)
    x = ad.tensor(normal(*shape))
    z = layer(x)
    y = F.rotary_embedding(z, cos, sin, interleaved)
    angles = np.arange(5)[:, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)

    def pairs(a: Any) -> Any:
        return a[..., 0::2] + 1j * a[..., 1::2] if interleaved else a[..., :4] + 1j * a[..., 4:]

    np.testing.assert_allclose(pairs(y.numpy()), pairs(z.numpy()) * np.exp(1j * angles), rtol=1e-5, atol=1e-6)
    (y * ad.tensor(normal(*shape, seed=1))).sum().backward()
    for parameter in layer.parameters():
        assert np.abs(grad(parameter)).min() > 0
    inputs = leaf(8, 8, seed=2), x, cos, sin
    ad.gradient_check(lambda w, x, c, s: F.rotary_embedding(F.linear(x, w), c, s, interleaved), *inputs)


def test_scores_of_turned_rows_depend_on_the_distance_alone(device: Device) -> None:
    """The point of the method; and tables that start further on are the later rows of longer ones."""
    q, k = normal(1, 8), normal(1, 8, seed=1)
    cos, sin = F.rotary_tables(40, 8)
    for interleaved in (False, True):
        rows = [F.rotary_embedding(ad.tensor(np.repeat(x, 40, axis=0)), cos, sin, interleaved).numpy() for x in (q, k)]
        scores = rows[0] @ rows[1].T
        np.testing.assert_allclose(np.diagonal(scores, 3), scores[0, 3], rtol=1e-4, atol=1e-5)
    later = F.rotary_tables(4, 8, start=36)
    np.testing.assert_array_equal(later[0].numpy(), cos.numpy()[36:])
    np.testing.assert_array_equal(later[1].numpy(), sin.numpy()[36:])
    with pytest.raises(ShapeError, match="rotary_tables: D is even and positive, not 3"):
        F.rotary_tables(4, 3)


# Attention.


def attention(q: Any, k: Any, v: Any, allowed: Any = True, bias: Any = 0.0, scale: float | None = None) -> Any:
    """In float64; rows that may attend to nothing give 0."""
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = np.where(allowed, scores + bias, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total, total, 1) @ v


@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_attention_is_that_of_its_formula(lead: tuple[int, ...], device: Device) -> None:
    q, k, v = normal(*lead, 5, 4), normal(*lead, 7, 4, seed=1), normal(*lead, 7, 3, seed=2)
    tensors = [ad.tensor(x, requires_grad=True) for x in (q, k, v)]
    mask = np.random.default_rng(3).random((5, 7)) < 0.6
    mask[:, 0] = True
    bias = normal(5, 7, seed=4)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, attention(q, k, v)),
        ({"scale": 0.3}, attention(q, k, v, scale=0.3)),
        ({"is_causal": True}, attention(q, k, v, np.tri(5, 7, dtype=bool))),
        ({"attn_mask": mask}, attention(q, k, v, mask)),
        ({"attn_mask": ad.tensor(bias)}, attention(q, k, v, bias=bias)),
        ({"attn_mask": mask, "is_causal": True}, attention(q, k, v, mask & np.tri(5, 7, dtype=bool))),
    ]
    for arguments, expected in cases:
        made = F.scaled_dot_product_attention(*tensors, **arguments)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-6)
    ad.gradient_check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *tensors)
    with pytest.raises(ShapeError, match="scaled_dot_product_attention: query"):
        F.scaled_dot_product_attention(tensors[0], tensors[2], tensors[2])
    with pytest.raises(DtypeError, match="a mask is bool or float32, not int32"):
        F.scaled_dot_product_attention(*tensors, attn_mask=mask.astype(np.int32))


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_row_that_may_attend_to_nothing_gives_zero(kind: str, device: Device) -> None:
    """P-WN03: softmax is NaN there, attention 0, and so is the gradient; the other rows do not notice."""
    rows = np.array([[-np.inf] * 3, [-np.inf, 0, 0], [1000, 1001, -np.inf]], np.float32)
    made = F.softmax(ad.tensor(rows)).numpy()
    np.testing.assert_allclose(made, [[np.nan] * 3, [0, 0.5, 0.5], [0.26894142, 0.73105858, 0]], rtol=1e-6)
    allowed = np.array([[False] * 3, [False, True, True], [True, True, False]])
    mask = allowed if kind == "bool" else np.where(allowed, 0, -np.inf).astype(np.float32)
    q, k, v = leaf(3, 4), leaf(3, 4, seed=1), leaf(3, 2, seed=2)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    np.testing.assert_array_equal(y.numpy()[0], 0)
    np.testing.assert_allclose(y.numpy(), attention(q.numpy(), k.numpy(), v.numpy(), allowed), rtol=1e-5, atol=1e-6)
    y.backward(ad.tensor(np.ones((3, 2))))
    np.testing.assert_array_equal(grad(q)[0], 0)
    whole = [grad(x) for x in (q, k, v)]
    fewer = [ad.tensor(x.numpy(), requires_grad=True) for x in (q, k, v)]
    part = F.scaled_dot_product_attention(F.take(fewer[0], [1, 2]), *fewer[1:], attn_mask=mask[1:])
    part.backward(ad.tensor(np.ones((2, 2))))
    for mine, theirs in zip(whole, fewer, strict=True):
        assert np.isfinite(mine).all()
        np.testing.assert_allclose(mine, grad(theirs), rtol=1e-5, atol=1e-6)


def test_dropout_in_attention(device: Device) -> None:
    q, k, v = (ad.tensor(np.zeros((1, 400, 2))) for _ in range(3))
    ones = v + 1.0
    ad.manual_seed(0)
    y = F.scaled_dot_product_attention(q, k, ones, dropout_p=0.5).numpy()
    assert y.mean() == pytest.approx(1, abs=0.01)
    assert 0.02 < y.std() < 0.1


def test_causal_masks_are_kept_but_few(device: Device) -> None:
    """A device keeps the latest eight; each is made once."""
    for T in range(1, 12):
        q = ad.tensor(np.zeros((T, 2)))
        F.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert list(device.constants["causal masks"]) == [(T, T) for T in range(4, 12)]
    before = device.constants["causal masks"][11, 11]
    F.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert device.constants["causal masks"][11, 11] is before


# Modules.


def test_layer_norm_as_a_module(device: Device) -> None:
    layer = nn.LayerNorm((2, 3))
    x = normal(4, 2, 3)
    wide = x.reshape(4, 6).astype(np.float64)
    xhat = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(ad.tensor(x)).numpy().reshape(4, 6), xhat, rtol=1e-5, atol=1e-6)
    assert [(name, p.shape) for name, p in layer.named_parameters()] == [("weight", (2, 3)), ("bias", (2, 3))]
    assert [name for name, _ in nn.LayerNorm(3, bias=False).named_parameters()] == ["weight"]
    assert not list(nn.LayerNorm(3, elementwise_affine=False).named_parameters())
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05)"
    assert repr(nn.LayerNorm(3, bias=False)) == "LayerNorm((3,), eps=1e-05, bias=False)"
    with pytest.raises(ShapeError, match="does not end in"):
        layer(ad.tensor(normal(4, 3)))
    with pytest.raises(ShapeError, match="at least one dimension"):
        nn.LayerNorm(())


def test_embedding_as_a_module(device: Device) -> None:
    ad.manual_seed(0)
    layer = nn.Embedding(100, 50)
    weight = layer.weight.numpy()
    assert weight.shape == (100, 50)
    assert abs(weight.mean()) < 0.05
    assert weight.std() == pytest.approx(1, abs=0.05)
    assert (np.abs(weight) < 1).mean() == pytest.approx(0.683, abs=0.03)
    np.testing.assert_array_equal(layer([[3, 99]]).numpy(), weight[[[3, 99]]])
    ad.manual_seed(0)
    np.testing.assert_array_equal(nn.Embedding(100, 50, device="host").weight.numpy(), weight)
    assert repr(layer) == "Embedding(100, 50)"
    with pytest.raises(ValueError, match="sizes are positive numbers, not 0 and 3"):
        nn.Embedding(0, 3)


def test_gelu_and_silu_as_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.tensor([1.0, -2.0])
    monkeypatch.setattr(functional, "gelu", lambda x, approximate: (x, approximate), raising=False)
    monkeypatch.setattr(functional, "silu", lambda x: (x, "silu"), raising=False)
    assert nn.GELU()(x) == (x, "none")
    assert nn.GELU("tanh")(x) == (x, "tanh")
    assert nn.SiLU()(x) == (x, "silu")
    assert repr(nn.GELU()) == "GELU(approximate='none')"
    with pytest.raises(ValueError, match="approximate is"):
        nn.GELU("erf")
