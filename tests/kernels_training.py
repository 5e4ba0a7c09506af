"""Kernels of training: gradients, optimizers, random numbers, against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_cases import N, Run, items, kernel, normal, quads

from gpu_backend.testing import assert_close


@kernel("gradient.accumulate")
def gradient_accumulate(run: Run) -> None:
    x, y = normal(N), normal(N)
    made = run(
        "gradient",
        entry="accumulate",
        inputs={"x": x},
        outputs={"y": y},
        workgroups=items(N),
        params={"size": N, "first": 0, "bound": 0.0},
    )
    assert_close(made["y"], y.astype(np.float64) + x, ulp=1)


@kernel("gradient.scale")
def gradient_scale(run: Run) -> None:
    y = normal(N)
    for m, exact in ((0.0, y * 0.25), (4.0, y / 4 * 0.25)):
        made = run(
            "gradient",
            entry="scale",
            inputs={"total": {"norm": 9.0, "coefficient": 0.25, "m": m}},
            outputs={"y": y},
            workgroups=items(N),
            params={"size": N, "first": 0, "bound": 0.0},
        )
        assert_close(made["y"], exact, ulp=3)


@kernel("gradient.clamp_value")
def gradient_clamp_value(run: Run) -> None:
    y = np.append(normal(N - 2), np.array([np.nan, np.inf], np.float32))
    made = run(
        "gradient",
        entry="clamp_value",
        outputs={"y": y},
        workgroups=items(N),
        params={"size": N, "first": 0, "bound": 0.5},
    )
    assert_close(made["y"], np.clip(y, -0.5, 0.5), ulp=0)


@kernel("gradient.norm_parts")
def gradient_norm_parts(run: Run) -> None:
    gradient = normal(N) * np.float32(1e30)
    made = run(
        "gradient",
        entry="norm_parts",
        inputs={"gradient": gradient},
        outputs={"parts": (4, 2)},
        workgroups=lambda extent: 4,
        overrides={"CHUNK": 128},
        params={"size": N, "first": 0, "bound": 0.0},
    )
    for part, (m, s) in enumerate(made["parts"].astype(np.float64)):
        piece = gradient[part * 128 : part * 128 + 128].astype(np.float64)
        assert m == np.abs(piece).max()
        assert m * np.sqrt(s) == pytest.approx(np.linalg.norm(piece), rel=1e-6)


@kernel("gradient.norm_total")
def gradient_norm_total(run: Run) -> None:
    parts = np.array([[3.0, 1.0], [4.0, 1.0], [0.0, 0.0]], np.float32)
    for bound, coefficient in ((1.0, 1 / 5), (50.0, 1.0)):
        made = run(
            "gradient",
            entry="norm_total",
            outputs={"parts": parts, "next_total": None},
            workgroups=lambda extent: 1,
            params={"size": 3, "first": 0, "bound": bound},
        )["next_total"]
        assert (float(made["norm"]), float(made["coefficient"]), float(made["m"])) == pytest.approx(
            (5.0, coefficient, 0)
        )


@kernel("gradient.verdict_begin")
def gradient_verdict_begin(run: Run) -> None:
    for ok in (0, 1):
        made = run("gradient", entry="verdict_begin", outputs={"verdict": np.array((ok, 7), VERDICT)}, workgroups=1)
        assert made["verdict"].item() == (1, 8 - ok)


@kernel("gradient.verdict_check")
def gradient_verdict_check(run: Run) -> None:
    for bad, ok in ((1.0, 1), (np.inf, 0), (np.nan, 0)):
        gradient = np.append(normal(N - 1), np.float32(bad))
        made = run(
            "gradient",
            entry="verdict_check",
            inputs={"gradient": gradient},
            workgroups=items(N),
            outputs={"verdict": np.array((1, 7), VERDICT)},
            params={"size": N, "first": 0, "bound": 0.0},
        )
        assert made["verdict"].item() == (ok, 7)


VERDICT = [("ok", "u4"), ("skipped", "u4")]
PROGRESS = {"steps": np.float32([1, 2]), "c1": np.float32([0.1, 0.19]), "c2": np.float32([0.01, 0.02])}


@kernel("sgd.update", "sgd.momentum")
def sgd(run: Run, entry: str) -> None:
    p, g, v = normal(N), normal(N), normal(N)
    for slot, nesterov in ((0, 0.0), (1, 1.0)):
        hyper = {"lr": 0.1, "momentum": 0.9, "one_minus_dampening": 0.7, "decay": 0.01, "nesterov": nesterov}
        inputs: dict[str, Any] = {"gradient": g, "hyper": hyper, "verdict": np.array([1, 0], np.uint32)}
        outputs: dict[str, Any] = {"parameter": p}
        total = g + 0.01 * p.astype(np.float64)
        if entry == "momentum":
            inputs["progress"], outputs["velocity"] = PROGRESS, v
            velocity = 0.9 * v.astype(np.float64) + (1.0 if slot == 0 else 0.7) * total
            total = total + 0.9 * velocity if nesterov else velocity
        made = run(
            "sgd", entry=entry, inputs=inputs, outputs=outputs, params={"size": N, "slot": slot}, workgroups=items(N)
        )
        assert_close(made["parameter"], p - 0.1 * total, atol=1e-6)
        if entry == "momentum":
            assert_close(made["velocity"], velocity, atol=1e-6)
    inputs["verdict"] = np.array([0, 0], np.uint32)
    made = run("sgd", entry=entry, inputs=inputs, outputs=outputs, params={"size": N, "slot": 0}, workgroups=items(N))
    np.testing.assert_array_equal(made["parameter"], p)


@kernel("adam.update")
def adam_update(run: Run) -> None:
    p, g, m, v = normal(N), normal(N), normal(N), np.abs(normal(N))
    hyper = {
        "lr": 0.1,
        "beta1": 0.9,
        "one_minus_beta1": 0.1,
        "beta2": 0.99,
        "one_minus_beta2": 0.01,
        "eps": 1e-8,
        "decay": 0.02,
        "l2": 0.03,
    }
    inputs = {"gradient": g, "hyper": hyper, "progress": PROGRESS, "verdict": np.array([1, 0], np.uint32)}
    outputs = {"parameter": p, "first_moment": m, "second_moment": v}
    made = run(
        "adam", entry="update", inputs=inputs, outputs=outputs, params={"size": N, "slot": 1}, workgroups=items(N)
    )
    total = g + 0.03 * p.astype(np.float64)
    first = m + 0.1 * (total - m)
    second = v + 0.01 * (total**2 - v)
    assert_close(made["first_moment"], first, atol=1e-6)
    assert_close(made["second_moment"], second, atol=1e-6)
    stepped = p * (1 - 0.1 * 0.02) - 0.1 * (first / 0.19) / (np.sqrt(second / 0.02) + 1e-8)
    assert_close(made["parameter"], stepped, rtol=1e-5, atol=1e-5)


@kernel("adam.advance", "sgd.advance")
def advance(run: Run, entry: str) -> None:
    del entry
    progress = np.zeros(2, [("steps", "f4"), ("c1", "f4"), ("c2", "f4")])
    progress["steps"], progress["c1"], progress["c2"] = PROGRESS["steps"], PROGRESS["c1"], PROGRESS["c2"]
    hyper = {"beta1": 0.9, "one_minus_beta1": 0.1, "beta2": 0.99, "one_minus_beta2": 0.01}
    adam = {**hyper, "lr": 0.0, "eps": 0.0, "decay": 0.0, "l2": 0.0}
    verdict = np.array([1, 0], np.uint32)
    made = run(
        "adam",
        entry="advance",
        inputs={"hyper": adam, "verdict": verdict},
        outputs={"next_progress": progress},
        params={"size": 1, "slot": 1},
        workgroups=items(1),
    )["next_progress"]
    assert_close(made["steps"], [1.0, 3.0])
    assert_close(made["c1"], [0.1, 0.9 * 0.19 + 0.1])
    assert_close(made["c2"], [0.01, 0.99 * 0.02 + 0.01])
    made = run(
        "sgd",
        entry="advance",
        inputs={"verdict": verdict},
        outputs={"next_progress": progress},
        params={"size": 2, "slot": 0},
        workgroups=items(2),
    )["next_progress"]
    assert_close(made["steps"], [2.0, 3.0])


@kernel("random.bits", "random.unit", "random.bernoulli", "random.dropout")
def random(run: Run, entry: str) -> None:
    key, position = (0x12345678, 0x9ABCDEF0), 2**32 - 20  # the position runs over a word on the way
    base = np.array([5, 6, 7, 1], np.uint32)
    x = normal(N)
    params = {
        "size": N,
        "key_low": key[0],
        "key_high": key[1],
        "position_low": position,
        "position_high": 3,
        "threshold": 2**30,
        "scale": 4 / 3,
    }
    inputs: dict[str, Any] = {"base": base} if entry != "dropout" else {"base": base, "x": x}
    name = "words" if entry in ("bits", "bernoulli") else "y"
    made = run("random", entry=entry, inputs=inputs, outputs={name: N}, params=params, workgroups=quads(N))[name]
    words = philox_words((key[0] ^ 5, key[1] ^ 6), position + 7 + (2**32 * (3 + 1)), N)
    expected = {
        "bits": words,
        "unit": (words >> 8) * 2.0**-24,
        "bernoulli": words < 2**30,
        "dropout": np.where(words >= 2**30, x * np.float32(4 / 3), 0),
    }
    assert_close(made, expected[entry], ulp=0 if entry != "dropout" else 1)


def philox_words(key: tuple[int, int], position: int, count: int) -> Any:
    """Philox4x32-10 in Python integers: the words from a block on."""
    words = []
    for block in range(-(-count // 4)):
        at = (position + block) % 2**64
        counter, k = [at & 0xFFFFFFFF, at >> 32, 0, 0], list(key)
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [(b >> 32) ^ counter[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += counter
    return np.array(words[:count], np.uint32)
