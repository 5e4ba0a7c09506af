"""Kernels of sequence models: layer norm, embedding, sorting, rotary embedding, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_cases import RNG, Run, items, kernel, normal, quads

from gpu_backend.testing import assert_close

NORM_PRELUDE = "fn weight_at(c: u32) -> f32 {{ return {}; }}\nfn bias_at(c: u32) -> f32 {{ return {}; }}\n".format
AFFINE = NORM_PRELUDE("weight[c]", "bias[c]")
ROWS, COLS = 5, 77


def statistics(x: Any) -> tuple[Any, Any]:
    """Mean, rest and 1 / deviation of each row, and the rows brought to mean 0 and variance 1, in float64."""
    wide = x.astype(np.float64)
    mean = wide.mean(axis=1, keepdims=True)
    factor = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    first = mean.astype(np.float32)
    return np.concatenate([first, mean - first, factor], axis=1), (wide - mean) * factor


def layer_norm(run: Run, entry: str, prelude: str, inputs: dict[str, Any], outputs: dict[str, Any], grid: Any) -> Any:
    return run(
        "layer_norm",
        entry=entry,
        prelude=prelude,
        inputs=inputs,
        outputs=outputs,
        params={"rows": ROWS, "cols": COLS, "chunk": 2, "eps": 1e-5},
        workgroups=grid,
    )


@kernel("layer_norm.forward")
def layer_norm_forward(run: Run) -> None:
    """Far from 0, where one float does not hold the mean, and with equal elements."""
    x, weight, bias = normal(ROWS, COLS), normal(COLS), normal(COLS)
    x[1] = 1e4 + x[1] / 1e2
    x[2] = 0.1
    outputs = {"y": x.shape, "statistics": (ROWS, 3)}
    made = layer_norm(run, "forward", AFFINE, {"x": x, "weight": weight, "bias": bias}, outputs, ROWS)
    expected, xhat = statistics(x)
    assert_close(made["y"], xhat * weight + bias, rtol=2e-6, atol=2e-6)
    assert_close(made["statistics"][:, :2].sum(axis=1, dtype=np.float64), expected[:, :2].sum(axis=1), atol=1e-7)
    assert_close(made["statistics"][:, 2], expected[:, 2], rtol=2e-6)
    for prelude, given in (
        (NORM_PRELUDE("1.0", "0.0"), {}),
        (NORM_PRELUDE("weight[c]", "0.0"), {"weight": weight}),
        (NORM_PRELUDE("1.0", "bias[c]"), {"bias": bias}),
    ):
        made = layer_norm(run, "forward", prelude, {"x": x, **given}, outputs, ROWS)
        assert_close(made["y"], xhat * given.get("weight", 1) + given.get("bias", 0), rtol=2e-6, atol=2e-6)


@kernel("layer_norm.backward")
def layer_norm_backward(run: Run) -> None:
    x, dy, weight = 100 + normal(ROWS, COLS), normal(ROWS, COLS), normal(COLS)
    saved, xhat = statistics(x)
    for prelude, given in ((AFFINE, {"weight": weight}), (NORM_PRELUDE("1.0", "0.0"), {})):
        inputs = {"x": x, "dy": dy, "saved_statistics": saved.astype(np.float32), **given}
        made = layer_norm(run, "backward", prelude, inputs, {"dx": x.shape}, ROWS)
        g = dy * np.float64(given.get("weight", 1))
        slope = (g * xhat).mean(axis=1, keepdims=True)
        assert_close(made["dx"], (g - g.mean(axis=1, keepdims=True) - xhat * slope) * saved[:, 2:], atol=1e-5)


@kernel("layer_norm.weight_backward")
def layer_norm_weight_backward(run: Run) -> None:
    x, dy = 100 + normal(ROWS, COLS), normal(ROWS, COLS)
    saved, xhat = statistics(x)
    inputs = {"x": x, "dy": dy, "saved_statistics": saved.astype(np.float32)}
    made = layer_norm(run, "weight_backward", AFFINE, inputs, {"dweight_parts": (3, COLS)}, items(3 * COLS))
    parts = [(dy * xhat)[first : first + 2].sum(axis=0) for first in (0, 2, 4)]
    assert_close(made["dweight_parts"], np.stack(parts), atol=1e-5)


def embedding(run: Run, entry: str, inputs: dict[str, Any], outputs: Any, grid: Any, **params: int) -> Any:
    fields = dict.fromkeys(("count", "padded", "rows", "cols", "chunk", "missing", "op"), 0)
    return run("embedding", entry=entry, inputs=inputs, outputs=outputs, params=fields | params, workgroups=grid)


@kernel("embedding.forward")
def embedding_forward(run: Run) -> None:
    """P-WN16: the first row, the last, and one id outside, so that it is always the same that is told."""
    missing = int(np.float32(np.nan).view(np.uint32))
    for cols, wrong in ((1, 5), (3, -6), (8, 2**31 - 1), (3, -(2**31)), (8, None)):
        ids = np.array([0, 4, 2 if wrong is None else wrong, -5, 2, -1, 3], np.int32)
        table, size = normal(5, cols), 7 * cols
        inputs = {"ids": ids, "table": np.resize(table.view(np.uint32), (-(-table.size // 4), 4))}
        outputs = {"y": np.zeros((-(-size // 4), 4), np.uint32), "fault": np.zeros(4, np.uint32)}
        params = {"count": 7, "rows": 5, "cols": cols, "missing": missing, "op": 3}
        made = embedding(run, "forward", inputs, outputs, quads(size), **params)
        expected = table[np.where(ids == wrong, 0, ids)]
        expected[ids == wrong] = np.nan
        words = made["y"].reshape(-1)
        np.testing.assert_array_equal(words[:size].view(np.float32).reshape(-1, cols), expected)
        assert not words[size:].any()
        told = [0, 0, 0, 0] if wrong is None else [3, wrong, 5, 0]
        np.testing.assert_array_equal(made["fault"].view(np.int32), told)


NOWHERE = 2**32 - 1


@kernel("embedding.begin_pairs")
def embedding_begin_pairs(run: Run) -> None:
    ids = RNG.integers(-7, 7, 100).astype(np.int32)
    outputs = {"made_pairs": (128, 2)}
    made = embedding(run, "begin_pairs", {"ids": ids}, outputs, items(128), count=100, padded=128, rows=5)
    rows = [int(i) % 5 if -5 <= i < 5 else NOWHERE for i in ids] + [NOWHERE] * 28
    np.testing.assert_array_equal(made["made_pairs"], np.stack([rows, np.arange(128)], axis=1))


def sorted_pairs(rows: Any) -> Any:
    return np.stack([np.sort(rows), np.argsort(rows, kind="stable")], axis=1).astype(np.uint32)


@kernel("embedding.starts_forward")
def embedding_starts(run: Run) -> None:
    rows = np.append(RNG.integers(0, 200, 240), [NOWHERE] * 16)
    rows[rows == 17] = 18
    inputs, outputs = {"pairs": sorted_pairs(rows)}, {"made_starts": (201,)}
    made = embedding(run, "starts_forward", inputs, outputs, items(201), padded=256, rows=200)
    np.testing.assert_array_equal(made["made_starts"], np.searchsorted(np.sort(rows), np.arange(201)))


@kernel("embedding.chunk_sums")
def embedding_chunk_sums(run: Run) -> None:
    rows, dy = np.repeat([0, 1, 3], [70, 100, 86]), normal(256, 3)
    pairs = sorted_pairs(RNG.permutation(rows))
    inputs, outputs = {"dy": dy, "pairs": pairs}, {"made_parts": (6, 3)}
    made = embedding(run, "chunk_sums", inputs, outputs, items(18), count=256, cols=3, chunk=40)
    expected = np.zeros((6, 3))
    for chunk in range(6):
        part = pairs[40 * chunk : 40 * chunk + 40]
        if len(set(part[:, 0])) == 1:
            expected[chunk] = dy[part[:, 1]].sum(axis=0, dtype=np.float64)
    assert [bool(part.any()) for part in expected] == [True, False, True, True, False, True]
    assert_close(made["made_parts"], expected, atol=1e-5)


@kernel("embedding.backward")
def embedding_backward(run: Run) -> None:
    """Rows with no pair, with few, with whole chunks; what lies past the last row's pairs counts nowhere."""
    rows, dy = np.repeat([0, 1, 3, NOWHERE], [70, 100, 80, 6]), normal(256, 3)
    pairs = sorted_pairs(RNG.permutation(rows))
    parts = np.zeros((6, 3), np.float32)
    for chunk in range(6):
        parts[chunk] = dy[pairs[40 * chunk : 40 * chunk + 40, 1]].sum(axis=0)
    starts = np.searchsorted(pairs[:, 0], np.arange(6)).astype(np.uint32)
    inputs, outputs = {"dy": dy, "pairs": pairs, "starts": starts, "parts": parts}, {"dtable": (5, 3)}
    made = embedding(run, "backward", inputs, outputs, items(15), count=256, rows=5, cols=3, chunk=40)
    expected = np.zeros((5, 3))
    valid = pairs[:, 0] != NOWHERE
    np.add.at(expected, pairs[valid, 0], dy[pairs[valid, 1]])
    assert_close(made["dtable"], expected, atol=2e-5)


def sort(run: Run, entry: str, pairs: Any, size: int, stride: int) -> Any:
    params = {"count": len(pairs), "size": size, "stride": stride}
    return run("sort", entry=entry, outputs={"pairs": pairs}, params=params, workgroups=len(pairs) // 512)["pairs"]


@kernel("sort.blocks", "sort.exchange", "sort.merge")
def sorts(run: Run, entry: str) -> None:
    """Few keys, so that positions decide; the runs rise and fall in turn until there is one."""
    pairs = np.stack([RNG.integers(0, 9, 2048), RNG.permutation(2048)], axis=1).astype(np.uint32)
    pairs[::7, 0] = NOWHERE

    def runs(size: int) -> Any:
        parts = [np.array(sorted(map(tuple, part))) for part in pairs.reshape(-1, size, 2)]
        return np.concatenate([part if number % 2 == 0 else part[::-1] for number, part in enumerate(parts)])

    if entry == "blocks":
        np.testing.assert_array_equal(sort(run, entry, pairs, 512, 0), runs(512))
        return
    made = runs(1024).astype(np.uint32)
    for stride in (1024, 512):
        if entry == "exchange":
            wanted = exchanged(made, 2048, stride)
            made = sort(run, entry, made, 2048, stride)
            np.testing.assert_array_equal(made, wanted)
        else:
            made = exchanged(made, 2048, stride)
    if entry == "merge":
        np.testing.assert_array_equal(sort(run, entry, made, 2048, 256), runs(2048))
        made = exchanged(runs(512).astype(np.uint32), 1024, 512)
        np.testing.assert_array_equal(sort(run, entry, made, 1024, 256), runs(1024))


def exchanged(pairs: Any, size: int, stride: int) -> Any:
    made = pairs.copy()
    for i in range(len(pairs)):
        if not i & stride:
            low, high = sorted((tuple(pairs[i]), tuple(pairs[i + stride])), reverse=bool(i & size))
            made[i], made[i + stride] = low, high
    return made


SHAPE = 3, 7, 10
LAYOUTS = {False: (1, 5), True: (2, 1)}


def rotary(run: Run, entry: str, interleaved: bool, direction: float, inputs: dict[str, Any], outputs: Any) -> Any:
    step, gap = LAYOUTS[interleaved]
    return run(
        "rotary",
        entry=entry,
        inputs=inputs,
        outputs=outputs,
        params={"pairs": 105, "positions": 7, "half": 5, "step": step, "gap": gap, "direction": direction},
        workgroups=items(105),
    )


def parted(x: Any, interleaved: bool) -> Any:
    """Pairs as complex numbers."""
    return x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., :5] + 1j * x[..., 5:]


@kernel("rotary.forward", "rotary.tables_backward")
def rotaries(run: Run, entry: str) -> None:
    x, dy, angles = normal(*SHAPE), normal(*SHAPE), normal(7, 5)
    inputs = {"x": x, "cosines": np.cos(angles), "sines": np.sin(angles)}
    for interleaved in LAYOUTS:
        if entry == "forward":
            for direction in (1.0, -1.0):
                made = rotary(run, entry, interleaved, direction, inputs, {"y": SHAPE})["y"]
                turned = parted(x.astype(np.float64), interleaved) * np.exp(1j * direction * angles.astype(np.float64))
                np.testing.assert_allclose(parted(made, interleaved), turned, rtol=1e-5, atol=1e-6)
        else:
            outputs = {"dcosines": (21, 5), "dsines": (21, 5)}
            made = rotary(run, entry, interleaved, 1.0, {"x": x, "dy": dy}, outputs)
            product = np.conj(parted(x.astype(np.float64), interleaved)) * parted(dy.astype(np.float64), interleaved)
            assert_close(made["dcosines"], product.real.reshape(21, 5), atol=1e-6)
            assert_close(made["dsines"], product.imag.reshape(21, 5), atol=1e-6)
