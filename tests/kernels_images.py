"""Kernels of batch norm, of other sizes and of windows as columns, one by one, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_cases import Run, items, kernel, normal

from gpu_backend.testing import assert_close

N, C, V, CHUNK, EPS = 5, 3, 31, 64, 1e-5
COUNT = N * V
PARTS = -(-COUNT // CHUNK)
PRELUDE = "fn weight_at(c: u32) -> f32 {{ return {}; }}\nfn bias_at(c: u32) -> f32 {{ return {}; }}\n".format
AFFINE = PRELUDE("weight[c]", "bias[c]")
SIZES = {"channels": C, "volume": V, "count": COUNT, "items": N * C * V, "chunk": CHUNK, "parts": PARTS, "eps": EPS}


def norm(run: Run, entry: str, inputs: Any, outputs: Any, grid: Any, prelude: str = AFFINE) -> Any:
    return run(
        "batch_norm",
        entry=entry,
        prelude=prelude,
        inputs=inputs,
        outputs=outputs,
        params=SIZES,
        workgroups=grid,
    )


def images() -> Any:
    """Channels at 0, far from 0, and of equal elements."""
    x = normal(N, C, V)
    x[:, 1] = 1e4 + x[:, 1] / 1e2
    x[:, 2] = 0.1
    return x


def channels(x: Any) -> Any:
    return np.moveaxis(x.astype(np.float64), 1, 0).reshape(C, COUNT)


def statistics(x: Any) -> Any:
    """Mean, what float32 leaves of it, and variance."""
    rows = channels(x)
    mean = rows.mean(axis=1)
    first = mean.astype(np.float32)
    return np.stack([first, mean - first, rows.var(axis=1)], axis=1)


def xhat(x: Any) -> Any:
    mean, rest, variance = (column.reshape(1, C, 1) for column in statistics(x).T)
    return (x.astype(np.float64) - mean - rest) / np.sqrt(variance + EPS)


@kernel("batch_norm.statistics_parts")
def statistics_parts(run: Run) -> None:
    x = images()
    made = norm(run, "statistics_parts", {"x": x}, {"made_parts": (C, PARTS, 3)}, C * PARTS)["made_parts"]
    for part in range(PARTS):
        rows = channels(x)[:, part * CHUNK : (part + 1) * CHUNK]
        assert_close(made[:, part, :2].sum(axis=1, dtype=np.float64), rows.mean(axis=1), rtol=2e-7, atol=2e-7)
        deviations = np.square(rows - rows.mean(axis=1, keepdims=True)).sum(axis=1)
        assert_close(made[:, part, 2], deviations, rtol=1e-5, atol=1e-9)


@kernel("batch_norm.statistics_total")
def statistics_total(run: Run) -> None:
    x = images()
    rows = [channels(x)[:, part * CHUNK : (part + 1) * CHUNK] for part in range(PARTS)]
    means = np.stack([part.mean(axis=1) for part in rows], axis=1)
    first = means.astype(np.float32)
    deviations = np.stack([part.shape[1] * part.var(axis=1) for part in rows], axis=1)
    parts = np.stack([first, means - first, deviations], axis=2).astype(np.float32)
    made = norm(run, "statistics_total", {"statistics_of_parts": parts}, {"made_statistics": (C, 3)}, C)
    expected = statistics(x)
    found = made["made_statistics"]
    assert_close(found[:, :2].sum(axis=1, dtype=np.float64), expected[:, :2].sum(axis=1), rtol=1e-8, atol=1e-7)
    assert_close(found[:, 2], expected[:, 2], rtol=1e-5, atol=1e-12)


@kernel("batch_norm.forward")
def forward(run: Run) -> None:
    x, weight, bias = images(), normal(C), normal(C)
    known = {"x": x, "statistics": statistics(x).astype(np.float32)}
    for prelude, given in (
        (AFFINE, {"weight": weight, "bias": bias}),
        (PRELUDE("1.0", "0.0"), {}),
        (PRELUDE("weight[c]", "0.0"), {"weight": weight}),
        (PRELUDE("1.0", "bias[c]"), {"bias": bias}),
    ):
        made = norm(run, "forward", {**known, **given}, {"y": x.shape}, items(x.size), prelude)
        wide = {name: numbers.reshape(1, C, 1) for name, numbers in given.items()}
        assert_close(made["y"], xhat(x) * wide.get("weight", 1) + wide.get("bias", 0), rtol=2e-6, atol=2e-6)


@kernel("batch_norm.gradient_parts")
def gradient_parts(run: Run) -> None:
    x, dy = images(), normal(N, C, V)
    inputs = {"x": x, "statistics": statistics(x).astype(np.float32), "dy": dy}
    outputs = {"dweight_parts": (PARTS, C), "dbias_parts": (PARTS, C)}
    made = norm(run, "gradient_parts", inputs, outputs, C * PARTS)
    for part in range(PARTS):
        chunk = slice(part * CHUNK, (part + 1) * CHUNK)
        assert_close(made["dbias_parts"][part], channels(dy)[:, chunk].sum(axis=1), atol=1e-5)
        assert_close(made["dweight_parts"][part], channels(dy * xhat(x))[:, chunk].sum(axis=1), atol=1e-5)


@kernel("batch_norm.backward")
def backward(run: Run) -> None:
    x, dy, weight = images(), normal(N, C, V), normal(C)
    dbias, dweight = channels(dy).sum(axis=1), channels(dy * xhat(x)).sum(axis=1)
    inputs = {"x": x, "statistics": statistics(x).astype(np.float32), "dy": dy, "weight": weight}
    sums = {"dbias": dbias.astype(np.float32), "dweight": dweight.astype(np.float32)}
    made = norm(run, "backward", {**inputs, **sums}, {"dx": x.shape}, items(x.size))
    wide = [numbers.reshape(1, C, 1) for numbers in (dbias, dweight, weight, statistics(x)[:, 2])]
    expected = wide[2] * (dy - wide[0] / COUNT - xhat(x) * wide[1] / COUNT) / np.sqrt(wide[3] + EPS)
    assert_close(made["dx"], expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


def running(run: Run, entry: str, inputs: Any, outputs: Any, grid: Any) -> Any:
    params = {"channels": 70, "count": 9, "momentum": 0.25}
    return run("running_statistics", entry=entry, inputs=inputs, outputs=outputs, params=params, workgroups=grid)


@kernel("running_statistics.update", "running_statistics.cumulate")
def running_update(run: Run, entry: str) -> None:
    mean, variance, made = normal(70), np.abs(normal(70)), np.abs(normal(70, 3))
    inputs = {"statistics": made} | ({"batches": np.array([3], np.int32)} if entry == "cumulate" else {})
    found = running(run, entry, inputs, {"running_mean": mean, "running_var": variance}, items(70))
    factor = 0.25 if entry == "update" else 1 / 3
    assert_close(found["running_mean"], mean + factor * (made[:, 0] + made[:, 1] - mean), atol=1e-6)
    assert_close(found["running_var"], variance + factor * (made[:, 2] * 9 / 8 - variance), atol=1e-6)


@kernel("running_statistics.count_batch")
def count_batch(run: Run) -> None:
    outputs = {"next_batches": np.array([6], np.int32)}
    found = run("running_statistics", entry="count_batch", outputs=outputs, workgroups=1)
    np.testing.assert_array_equal(found["next_batches"], [7])


ROW_TAPS, COL_TAPS = np.array([[0, 1], [1, 2], [2, 2]]), np.array([[0, 0], [0, 1], [0, 1], [1, 1]])
ROW_WEIGHTS, COL_WEIGHTS = (
    np.array([[0.5, 0.5], [0.25, 0.75], [1, 0]]),
    np.array([[1, 0], [0.75, 0.25], [0, 1], [1, 0]]),
)
ROW_SPANS, COL_SPANS = np.array([[0, 1], [0, 2], [1, 3]]), np.array([[0, 3], [1, 4]])
TABLES = {
    "row_taps": ROW_TAPS.astype(np.uint32),
    "col_taps": COL_TAPS.astype(np.uint32),
    "row_weights": ROW_WEIGHTS.astype(np.float32),
    "col_weights": COL_WEIGHTS.astype(np.float32),
}
SPANS = {"row_spans": ROW_SPANS.astype(np.uint32), "col_spans": COL_SPANS.astype(np.uint32)}


def matrix(taps: Any, weights: Any, extent: int) -> Any:
    made = np.zeros((len(taps), extent))
    for place, (pair, shares) in enumerate(zip(taps, weights, strict=True)):
        for tap, share in zip(pair, shares, strict=True):
            made[place, tap] += share
    return made


@kernel("interpolate.forward")
def interpolate_forward(run: Run) -> None:
    """Planes of 3 x 2 to 3 x 4; what has weight 0 is not read, be it infinite."""
    x = normal(11, 3, 2)
    expected = matrix(ROW_TAPS, ROW_WEIGHTS, 3) @ x.astype(np.float64) @ matrix(COL_TAPS, COL_WEIGHTS, 2).T
    params = {"items": 11 * 12, "H": 3, "W": 4, "other_H": 3, "other_W": 2}
    grid = items(11 * 12)
    made = run(
        "interpolate", entry="forward", inputs={"x": x, **TABLES}, outputs={"y": (11, 3, 4)}, params=params,
        workgroups=grid,
    )  # fmt: skip
    assert_close(made["y"], expected, atol=1e-6)
    x[0, 2, 1] = np.inf
    made = run(
        "interpolate", entry="forward", inputs={"x": x, **TABLES}, outputs={"y": (11, 3, 4)}, params=params,
        workgroups=grid,
    )  # fmt: skip
    assert_close(made["y"][0, 0], expected[0, 0], atol=1e-6)
    assert_close(made["y"][0, 2, 0], expected[0, 2, 0], atol=1e-6)


@kernel("interpolate.backward")
def interpolate_backward(run: Run) -> None:
    dy = normal(11, 3, 4)
    expected = matrix(ROW_TAPS, ROW_WEIGHTS, 3).T @ dy.astype(np.float64) @ matrix(COL_TAPS, COL_WEIGHTS, 2)
    made = run(
        "interpolate",
        entry="backward",
        inputs={"dy": dy, **TABLES, **SPANS},
        outputs={"dx": (11, 3, 2)},
        params={"items": 66, "H": 3, "W": 2, "other_H": 3, "other_W": 4},
        workgroups=items(66),
    )
    assert_close(made["dx"], expected, atol=1e-6)


# Seven channels of 5 x 6, windows of 3 x 2, their taps 1 and 2 apart, 2 and 1 apart themselves, padded by 1 and 2.
UNFOLD = {
    "volume": 30,
    "positions": 3 * 8,
    "taps": [2, 3, 1, 6],
    "source_extents": [6, 5, 1, 0],
    "result_extents": [8, 3, 1, 0],
    "stride": [1, 2, 1, 0],
    "pad": [2, 1, 0, 0],
    "dilation": [2, 1, 1, 0],
}


def meetings() -> Any:
    for i, j, h, w in np.ndindex(3, 2, 3, 8):
        row, column = h * 2 - 1 + i, w - 2 + 2 * j
        if 0 <= row < 5 and 0 <= column < 6:
            yield i * 2 + j, h * 8 + w, row, column


@kernel("unfold.forward")
def unfold_forward(run: Run) -> None:
    x = normal(7, 5, 6)
    made = run(
        "unfold",
        entry="forward",
        inputs={"x": x},
        outputs={"y": (7, 6, 24)},
        params={"items": 7 * 6 * 6, "quads": 6, **UNFOLD},
        workgroups=items(7 * 6 * 6),
    )
    expected = np.zeros((7, 6, 24))
    for tap, position, row, column in meetings():
        expected[:, tap, position] = x[:, row, column]
    np.testing.assert_array_equal(made["y"], expected)


@kernel("unfold.backward")
def unfold_backward(run: Run) -> None:
    dy = normal(7, 6, 24)
    made = run(
        "unfold",
        entry="backward",
        inputs={"dy": dy},
        outputs={"dx": (7, 5, 6)},
        params={"items": 7 * 8, "quads": 8, **UNFOLD},
        workgroups=items(7 * 8),
    )
    expected = np.zeros((7, 5, 6))
    for tap, position, row, column in meetings():
        expected[:, row, column] += dy[:, tap, position]
    assert_close(made["dx"], expected, atol=2e-6)
