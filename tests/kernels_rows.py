"""Kernels that sum: reductions, softmax, cross entropy, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_cases import RNG, Run, items, kernel, normal

from gpu_backend.testing import assert_close


def reduction(run: Run, entry: str, combine: str, start: str, elem: str, x: Any, chunk: int, divisor: float) -> Any:
    """Reduce the middle axis of a three-dimensional array in chunks."""
    outer, length, inner = x.shape
    chunks = -(-length // chunk)
    prelude = (
        f"fn combine(a: elem, b: elem) -> elem {{ return {combine}; }}\nfn start() -> elem {{ return {start}; }}\n"
    )
    prelude += "fn finish(v: elem) -> elem { return v / elem(params.divisor); }\n"
    count = outer * chunks * inner
    params = {"count": count, "length": length, "inner": inner, "chunk": chunk, "chunks": chunks, "divisor": divisor}
    groups = (lambda extent: count) if entry == "rows" else items(count)
    return run(
        "reduction",
        entry=entry,
        prelude=prelude,
        aliases={"elem": elem},
        inputs={"x": x},
        outputs={"y": (outer, chunks, inner)},
        params=params,
        workgroups=groups,
    )["y"]


@kernel("reduction.rows", "reduction.columns")
def reductions(run: Run, entry: str) -> None:
    x = normal(3, 500, 1 if entry == "rows" else 4)
    made = reduction(run, entry, "a + b", "0.0", "f32", x, 500, 500.0)
    assert_close(made, x.mean(axis=1, keepdims=True, dtype=np.float64), atol=1e-7)
    made = reduction(run, entry, "a + b", "0.0", "f32", x, 128, 1.0)
    parts = np.stack([x[:, k : k + 128].sum(axis=1, dtype=np.float64) for k in range(0, 500, 128)], axis=1)
    assert_close(made, parts, atol=1e-5)
    made = reduction(run, entry, "larger(a, b)", "-infinity()", "f32", -np.abs(x), 500, 1.0)
    assert_close(made, (-np.abs(x)).max(axis=1, keepdims=True), ulp=0)
    whole = RNG.integers(-(2**31), 2**31, x.shape).astype(np.int32)
    made = reduction(run, entry, "a + b", "0", "i32", whole, 500, 1.0)
    np.testing.assert_array_equal(made, whole.sum(axis=1, keepdims=True, dtype=np.int32))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@kernel("softmax.forward", "softmax.log_forward", "softmax.backward", "softmax.log_backward")
def softmaxes(run: Run, entry: str) -> None:
    x, dy = normal(5, 77) * 30, normal(5, 77)
    exact = softmax(x.astype(np.float64))
    saved = (np.log(exact) if "log" in entry else exact).astype(np.float32)
    if "backward" in entry:
        inputs, outputs = {"dy": dy, "saved_y": saved}, {"dx": x.shape}
        y = saved.astype(np.float64)
        total = (dy * y).sum(axis=1, keepdims=True)
        expected = dy - np.exp(y) * dy.sum(axis=1, keepdims=True) if "log" in entry else y * (dy - total)
    else:
        inputs, outputs = {"x": x}, {"y": x.shape}
        expected = np.log(exact) if "log" in entry else exact
    made = run(
        "softmax",
        entry=entry,
        inputs=inputs,
        outputs=outputs,
        params={"rows": 5, "cols": 77},
        workgroups=lambda extent: 5,
    )
    assert_close(next(iter(made.values())), expected, rtol=1e-5, atol=1e-5)


@kernel("cross_entropy.forward")
def cross_entropy_forward(run: Run) -> None:
    logits, targets = normal(6, 77) * 30, np.array([0, 76, 5, -1, 9, 77], np.int32)
    made = run(
        "cross_entropy",
        entry="forward",
        inputs={"logits": logits, "targets": targets},
        outputs={"loss": 6, "normalizer": (6, 2), "fault": np.zeros(4, np.uint32)},
        params={"rows": 6, "cols": 77, "op": 3, "dloss_step": 0, "scale": 1.0},
        workgroups=lambda extent: 6,
        allow=("repeat", "workgroup_size"),
    )  # of several wrong targets the first to come is told
    log = np.log(softmax(logits.astype(np.float64)))
    expected = [-log[row, goal] if 0 <= goal < 77 else np.nan for row, goal in enumerate(targets)]
    assert_close(made["loss"], expected, rtol=1e-5, atol=1e-5)
    assert made["fault"][0] == 3
    assert made["fault"][1].view(np.int32) in (-1, 77)
    assert made["fault"][2] == 77


@kernel("cross_entropy.backward")
def cross_entropy_backward(run: Run) -> None:
    logits, targets, dloss = normal(6, 77), np.array([0, 76, 5, -1, 9, 77], np.int32), normal(6)
    exact = softmax(logits.astype(np.float64))
    largest = logits.max(axis=1)
    log_sum = np.log(np.exp(logits.astype(np.float64) - largest[:, None]).sum(axis=1))
    made = run(
        "cross_entropy",
        entry="backward",
        outputs={"dlogits": (6, 77)},
        workgroups=lambda extent: 6,
        inputs={
            "logits": logits,
            "targets": targets,
            "dloss": dloss,
            "saved_normalizer": np.stack([largest, log_sum], axis=1),
        },
        params={"rows": 6, "cols": 77, "op": 3, "dloss_step": 1, "scale": 0.5},
    )
    valid = (targets >= 0) & (targets < 77)
    exact[valid, targets[valid]] -= 1
    assert_close(made["dlogits"], exact * (0.5 * dloss * valid)[:, None], rtol=1e-5, atol=1e-6)
