"""Kernels that map, move, choose and convert elements, against numpy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from kernel_cases import RNG, N, Run, extents, items, kernel, normal, quads, strides

from gpu_backend.testing import assert_close

UNARY = (
    "// uses: lib/activation, lib/trigonometric\nalias elem = f32;\nalias result = f32;\n"
    "fn value(x: f32) -> f32 {{ return {0}_value(x); }}\nfn slope(v: f32) -> f32 {{ return {0}_slope(v); }}\n"
)


@kernel("unary.forward")
def unary_forward(run: Run) -> None:
    x = np.append(normal(N - 3) * 3, np.array([0.0, np.inf, -50.0], np.float32))
    for name, function in (("tanh", np.tanh), ("exp", np.exp), ("relu", lambda v: np.maximum(v, 0))):
        made = run(
            "unary",
            prelude=UNARY.format(name),
            inputs={"x": x},
            outputs={"y": N},
            params={"size": N, "first": 0.0, "second": 0.0, "third": 0.0},
            workgroups=quads(N),
            entry="forward",
        )
        assert_close(made["y"], function(x.astype(np.float64)), rtol=1e-5, atol=1e-7)


@kernel("unary.backward")
def unary_backward(run: Run) -> None:
    saved, dy = np.tanh(normal(N)), normal(N)
    made = run(
        "unary",
        prelude=UNARY.format("tanh"),
        inputs={"saved": saved, "dy": dy},
        outputs={"dx": N},
        params={"size": N, "first": 0.0, "second": 0.0, "third": 0.0},
        workgroups=quads(N),
        entry="backward",
    )
    assert_close(made["dx"], dy * (1 - saved.astype(np.float64) ** 2), rtol=1e-5, atol=1e-6)


def binary(run: Run, name: str, entry: str, elem: str, a: Any, b: Any, dy: Any = None, number: float = 0) -> Any:
    """``a`` may be None: it is then the number."""
    shape = np.broadcast_shapes(*(v.shape for v in (a, b) if v is not None))
    result = "u32" if name == "less" else elem
    library = "comparison" if name == "less" else "arithmetic"
    prelude = f"// uses: lib/{library}\nalias elem = {elem};\nalias result = {result};\n"
    prelude += f"fn value(p: elem, q: elem) -> result {{ return {name}_value(p, q); }}\n"
    for side in ("left", "right"):
        body = f"{name}_{side}(p, q)" if dy is not None else "0.0"
        prelude += f"fn {side}(p: elem, q: elem) -> f32 {{ return {body}; }}\n"
    params = {"shape": extents(shape), "size": prod(shape), "rank": len(shape), "number": number, "constant": 0.0}
    inputs = {}
    for side, array in (("a", a), ("b", b)):
        params[f"{side}_mode"] = 2 if array is None else int(array.shape != shape)
        params[f"{side}_strides"] = [0] * 8 if array is None else strides(shape, array.shape)
        inputs[side] = np.zeros(4, b.dtype) if array is None else array
    outputs = {"y": shape} if dy is None else {"dx": shape}
    if dy is not None:
        inputs["dy"] = dy
    return run(
        "binary",
        prelude=prelude,
        entry=entry,
        inputs=inputs,
        outputs=outputs,
        params=params,
        workgroups=quads(prod(shape)),
    )[next(iter(outputs))]


@kernel("binary.forward")
def binary_forward(run: Run) -> None:
    a, b = normal(7, 1, 9), normal(5, 9)
    assert_close(binary(run, "add", "forward", "f32", a, b), a.astype(np.float64) + b, ulp=1)
    a, b = normal(N), normal(N)
    assert_close(binary(run, "divide", "forward", "f32", a, b), a / b.astype(np.float64), tolerance="wgsl:divide")
    assert_close(binary(run, "subtract", "forward", "f32", None, b, number=2.5), 2.5 - b.astype(np.float64), ulp=1)
    m, n = (RNG.integers(-(2**31), 2**31, N).astype(np.int32) for _ in range(2))
    np.testing.assert_array_equal(binary(run, "multiply", "forward", "i32", m, n), m * n)
    b[5] = np.nan
    np.testing.assert_array_equal(binary(run, "less", "forward", "f32", a, b), a < b)


@kernel("binary.left_backward", "binary.right_backward")
def binary_backward(run: Run, entry: str) -> None:
    a, b, dy = normal(6, 9), normal(9), normal(6, 9)
    expected = {"left_backward": dy / b.astype(np.float64), "right_backward": -dy * (a / b.astype(np.float64) ** 2)}
    assert_close(binary(run, "divide", entry, "f32", a, b, dy), expected[entry], rtol=1e-5)


@kernel("where.forward")
def where_forward(run: Run) -> None:
    condition, a = (RNG.random((6, 1)) < 0.5).astype(np.uint32), normal(6, 11)
    params = {
        "shape": extents((6, 11)),
        "condition_strides": strides((6, 11), (6, 1)),
        "a_strides": strides((6, 11), (6, 11)),
        "b_strides": [0] * 8,
        "size": 66,
        "rank": 2,
        "a_is_number": 0,
        "b_is_number": 1,
        "a_number": 0,
        "b_number": 77,
    }
    made = run(
        "where",
        inputs={"condition": condition, "a": a.view(np.uint32), "b": np.zeros(4, np.uint32)},
        outputs={"y": (6, 11)},
        params=params,
        workgroups=quads(66),
    )
    np.testing.assert_array_equal(made["y"], np.where(condition != 0, a.view(np.uint32), 77))


@kernel("cast.forward")
def cast_forward(run: Run) -> None:
    floats = np.array([0.0, -0.9, 1.9, 3e9, -3e9, 5e9, np.nan, np.inf, -np.inf], np.float32)
    whole = np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32)
    ends = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1)}
    for source, goal, name, x, expected in (
        (
            "f32",
            "i32",
            "float32_to_int32",
            floats,
            np.clip(np.nan_to_num(np.trunc(floats.astype(np.float64))), *ends["i32"]),
        ),
        (
            "f32",
            "u32",
            "float32_to_uint32",
            floats,
            np.clip(np.nan_to_num(np.trunc(floats.astype(np.float64))), *ends["u32"]),
        ),
        ("f32", "u32", "to_bool", floats, floats != 0),
        ("i32", "f32", "to_float32", whole, whole),
        ("i32", "u32", "integer_to_uint32", whole, whole.view(np.uint32)),
    ):
        prelude = f"fn convert(x: source) -> goal {{ return {name}(x); }}\n"
        made = run(
            "cast",
            prelude=prelude,
            aliases={"source": source, "goal": goal},
            inputs={"x": x},
            outputs={"y": x.size},
            params={"size": x.size},
            workgroups=quads(x.size),
        )
        assert_close(made["y"], expected, ulp=0)


def copy_params(**known: Any) -> dict[str, Any]:
    return {"shape": [1] * 8, "strides": [0] * 8, "size": 0, "rank": 0, "number": 0, **known}


@kernel("copy.gather")
def copy_gather(run: Run) -> None:
    x = RNG.integers(0, 2**32, (3, 5, 7), dtype=np.uint32)
    expected = x.transpose(2, 0, 1)
    steps = [s // 4 for s in expected.strides[::-1]] + [0] * 5
    made = run(
        "copy",
        entry="gather",
        inputs={"x": x},
        outputs={"y": (7, 3, 5)},
        workgroups=quads(105),
        params=copy_params(shape=extents((7, 3, 5)), strides=steps, size=105, rank=3),
    )
    np.testing.assert_array_equal(made["y"], expected)


@kernel("copy.duplicate")
def copy_duplicate(run: Run) -> None:
    x = RNG.integers(0, 2**32, N, dtype=np.uint32)
    made = run(
        "copy", entry="duplicate", inputs={"x": x}, outputs={"y": N}, params=copy_params(size=N), workgroups=quads(N)
    )
    np.testing.assert_array_equal(made["y"], x)


@kernel("copy.fill")
def copy_fill(run: Run) -> None:
    made = run(
        "copy", entry="fill", outputs={"y": N}, params=copy_params(size=N, number=0xDEADBEEF), workgroups=quads(N)
    )
    np.testing.assert_array_equal(made["y"], np.full(N, 0xDEADBEEF, np.uint32))


@kernel("copy.transpose")
def copy_transpose(run: Run) -> None:
    for shape in ((2, 5, 7), (3, 8, 4), (1, 1, 9)):
        batch, rows, cols = shape
        x = RNG.integers(0, 2**32, shape, dtype=np.uint32)
        blocks = batch * -(-rows // 4) * -(-cols // 4)
        made = run(
            "copy",
            entry="transpose",
            inputs={"x": x},
            outputs={"y_words": (batch, cols, rows)},
            params=copy_params(shape=[rows, cols, batch, *[1] * 5]),
            workgroups=items(blocks),
        )
        np.testing.assert_array_equal(made["y_words"], x.transpose(0, 2, 1))


GATE = (
    "// uses: lib/activation\nfn gate(b: f32) -> f32 { return silu_value(b); }\n"
    "fn gate_slope(b: f32) -> f32 { return silu_slope(b); }\n"
)


@kernel("gated.forward", "gated.backward")
def gated(run: Run, entry: str) -> None:
    x, dy = normal(5, 2, 41), normal(5, 41)
    a, b = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)
    s = 1 / (1 + np.exp(-b))
    outputs: dict[str, Any] = {"y": (5, 41)} if entry == "forward" else {"dx": (5, 2, 41)}
    inputs = {"x": x} if entry == "forward" else {"x": x, "dy": dy}
    made = run(
        "gated",
        entry=entry,
        prelude=GATE,
        inputs=inputs,
        outputs=outputs,
        params={"size": 205, "half": 41},
        workgroups=items(205),
    )
    if entry == "forward":
        assert_close(made["y"], a * b * s, rtol=1e-5, atol=1e-6)
    else:
        expected = np.stack([dy * b * s, dy * a * s * (1 + b * (1 - s))], axis=1)
        assert_close(made["dx"], expected, rtol=1e-5, atol=1e-6)


TERNARY = "".join(
    f"fn {name}(p: f32, q: f32, r: f32) -> f32 {{{{ return {{0}}_{name}(p, q, r); }}}}\n"
    for name in ("value", "first", "second", "third")
)


@kernel("ternary.forward", "ternary.first_backward", "ternary.second_backward", "ternary.third_backward")
def ternary(run: Run, entry: str) -> None:
    a, b, dy = normal(6, 11), normal(11), normal(6, 11)
    p, q, r = a.astype(np.float64), b.astype(np.float64), 0.25
    params = {"shape": extents((6, 11)), "size": 66, "rank": 2, "constant": -1.5}
    for place, array in (("a", a), ("b", b), ("c", None)):
        params[f"{place}_strides"] = [0] * 8 if array is None else strides((6, 11), array.shape)
        params[f"{place}_is_number"] = array is None
        params[f"{place}_number"] = 0.25
    inputs = {"a": a, "b": b, "c": a}
    if entry != "forward":
        inputs["dy"] = dy
    expected = {
        "lerp": {"forward": p + r * (q - p), "first": dy * (1 - r), "second": dy * r, "third": dy * (q - p)},
        "addcmul": {"forward": p - 1.5 * q * r, "first": dy, "second": dy * -1.5 * r, "third": dy * -1.5 * q},
    }
    for name, values in expected.items():
        made = run(
            "ternary",
            entry=entry,
            prelude=TERNARY.format(name),
            inputs=inputs,
            outputs={"y": (6, 11)},
            params=params,
            workgroups=items(66),
        )
        wanted = np.broadcast_to(values[entry.removesuffix("_backward")], (6, 11))
        assert_close(made["y"], wanted, rtol=1e-5, atol=1e-6)


@kernel("half.widen")
def half_widen(run: Run) -> None:
    halves = np.arange(2**16, dtype=np.uint16)  # all there are, but of the many NaN only the quiet ones
    halves[(halves & 0x7FFF) > 0x7C00] |= 0x200
    made = run(
        "half",
        entry="widen",
        inputs={"words": halves.view(np.uint32)},
        outputs={"y": 2**16},
        params={"size": 2**16},
        workgroups=items(2**15),
    )
    np.testing.assert_array_equal(made["y"], halves.view(np.float16).astype(np.float32))


@kernel("half.narrow")
def half_narrow(run: Run) -> None:
    edges = np.array(
        [0, -0.0, 65504, 65519.99, 65520, 1e9, np.inf, np.nan, 2**-24, 2**-25, 2**-26, -(2**-14)], np.float32
    )
    middles = np.arange(1, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float32) * np.float32(1 + 2**-11)
    x = np.concatenate([edges, middles, normal(N) * 1e-6, normal(N) * 100])
    x = x[: x.size - 1 + x.size % 2]  # an odd number: the last word is half full
    made = run(
        "half",
        entry="narrow",
        inputs={"x": x},
        outputs={"y_words": (x.size + 1) // 2},
        params={"size": x.size},
        workgroups=items((x.size + 1) // 2),
    )
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(made["y_words"].view(np.float16)[: x.size], expected)
