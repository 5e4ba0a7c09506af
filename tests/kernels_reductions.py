"""Kernels of scans and of places: prefix sums and products, the recurrence behind their gradient, argmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_cases import RNG, Run, items, kernel, normal

from gpu_backend.ops.reduction import monoid
from gpu_backend.testing import assert_close

MORE = "fn is_better(p: elem, q: elem) -> bool { return !is_nan(q) && (is_nan(p) || p > q); }\n"
LESS = "fn is_better(p: elem, q: elem) -> bool { return p < q; }\n"


def chunked(x: Any, chunk: int, **more: Any) -> dict[str, Any]:
    """Params that cut the middle axis of ``x`` into chunks."""
    outer, length, inner = x.shape
    chunks = -(-length // chunk)
    return {
        "count": outer * chunks * inner,
        "length": length,
        "inner": inner,
        "chunk": chunk,
        "chunks": chunks,
        **more,
    }


def scanned(x: Any, product: bool, exclusive: bool, backwards: bool) -> Any:
    """The scan of the middle axis by numpy."""
    kind = np.float64 if x.dtype.kind == "f" else x.dtype
    line = np.flip(x, 1) if backwards else x
    made = (np.cumprod if product else np.cumsum)(line, axis=1, dtype=kind)
    if exclusive:
        made = np.concatenate([np.full_like(made[:, :1], product), made[:, :-1]], axis=1)
    return np.flip(made, 1) if backwards else made


@kernel("scan.rows", "scan.columns")
def scans(run: Run, entry: str) -> None:
    """P-WN19: whole, exclusive, reversed; of one chunk, and of several with the carry from outside."""
    chunk = 960 if entry == "rows" else 16
    for length in (1, 63, 64, 65, 255, 256, 257, 1000) if entry == "rows" else (1, 15, 16, 17, 40):
        shape = (3, length, 1 if entry == "rows" else 5)
        for exclusive, backwards in ((0, 0), (1, 0), (0, 1), (1, 1)) if length in (17, 1000) else ((0, 0),):
            for x, product in (
                (RNG.integers(-(2**31), 2**31, shape).astype(np.int32), False),
                (np.exp(normal(*shape) / 100).astype(np.float32), True),
            ):
                params = chunked(x, chunk, exclusive=exclusive, reversed=backwards)
                cuts = range(0, length, chunk)
                combine = np.prod if product else np.sum
                totals = np.stack([combine(x[:, k : k + chunk], axis=1, dtype=x.dtype) for k in cuts], axis=1)
                elem = "i32" if x.dtype == np.int32 else "f32"
                made = run(
                    "scan",
                    entry=entry,
                    prelude=monoid("product" if product else "sum", elem),
                    inputs={"x": x, "carry": scanned(totals, product, True, bool(backwards)).astype(x.dtype)},
                    outputs={"y": np.zeros_like(x)},
                    params=params,
                    workgroups=params["count"] if entry == "rows" else items(params["count"]),
                )["y"]
                wanted = scanned(x, product, bool(exclusive), bool(backwards)).astype(x.dtype)
                assert_close(made, wanted, rtol=5e-6)  # a thousand products round as often, in whatever order


@kernel("recurrence.parts", "recurrence.solve")
def recurrence(run: Run, entry: str) -> None:
    """h_j = b_j + a_(j+1) h_(j+1), against a loop in float64."""
    for length, chunk in ((1, 16), (16, 16), (17, 16), (50, 7)):
        a, b, weight = normal(3, length, 5), normal(3, length, 5), normal(3, length, 5)
        h = np.zeros((3, length + 1, 5))
        shifted = np.concatenate([a[:, 1:], np.zeros((3, 1, 5))], axis=1)
        for j in range(length - 1, -1, -1):
            h[:, j] = b[:, j] + shifted[:, j] * h[:, j + 1]
        params = chunked(a, chunk, shift=1, weighted=1)
        starts = range(0, length, chunk)
        if entry == "solve":
            inputs = {"a": a, "b": b, "weight": weight, "carry": h[:, list(starts)].astype(np.float32)}
            before = np.concatenate([np.ones((3, 1, 5)), weight[:, :-1]], axis=1)
            expected = {"h": h[:, :length] * before}
        else:
            inputs = {"a": a, "b": b}
            factor = [np.prod(shifted[:, k : k + chunk], axis=1) for k in starts]
            after = [h[:, min(k + chunk, length)] for k in starts]
            rest = [h[:, k] - f * n for k, f, n in zip(starts, factor, after, strict=True)]
            expected = {"a_parts": np.stack(factor, axis=1), "b_parts": np.stack(rest, axis=1)}
        made = run(
            "recurrence",
            entry=entry,
            inputs=inputs,
            outputs={name: value.shape for name, value in expected.items()},
            params=params,
            workgroups=items(params["count"]),
        )
        for name, value in expected.items():
            assert_close(made[name], value, rtol=1e-5, atol=1e-5)


@kernel("argument.rows", "argument.columns")
def arguments(run: Run, entry: str) -> None:
    """P-WN20: the first of those that tie; NaN before numbers; the second round among candidates."""
    for length, chunk in ((1, 256), (65, 256), (500, 500), (500, 64)):
        x = RNG.integers(-4, 5, (3, length, 1 if entry == "rows" else 4)).astype(np.float32)
        starts = range(0, length, chunk)
        x[1, length // 2 :, 0] = np.nan
        for prelude, aliases, values, choose in (
            (MORE, {"elem": "f32"}, x, np.argmax),
            (LESS, {"elem": "i32"}, np.nan_to_num(x, nan=3).astype(np.int32), np.argmin),
        ):
            expected = np.stack([k + choose(values[:, k : k + chunk], axis=1) for k in starts], axis=1)
            params = chunked(values, chunk, candidates_length=length, is_first=1)
            grid = params["count"] if entry == "rows" else items(params["count"])
            made = run(
                "argument",
                entry=entry,
                prelude=prelude,
                aliases=aliases,
                inputs={"x": values, "candidates": np.zeros(1, np.int32)},
                outputs={"y": np.zeros(expected.shape, np.int32)},
                params=params,
                workgroups=grid,
            )["y"]
            np.testing.assert_array_equal(made, expected)
            candidates = made[:, ::-1].copy()  # in any order
            params = chunked(values, length, candidates_length=len(starts), is_first=0, chunks=1)
            params["count"] = 3 * values.shape[2]
            made = run(
                "argument",
                entry=entry,
                prelude=prelude,
                aliases=aliases,
                inputs={"x": values, "candidates": candidates},
                outputs={"y": (3, 1, values.shape[2])},
                params=params,
                workgroups=params["count"] if entry == "rows" else items(params["count"]),
            )["y"]
            np.testing.assert_array_equal(made[:, 0], choose(values, axis=1))
