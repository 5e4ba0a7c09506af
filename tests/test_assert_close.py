"""assert_close: verdicts, bounds and the message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpu_backend.testing import assert_close, ulp_distance
from gpu_backend.testing.accuracy import BOUNDS, Precision

ONE = np.float32(1.0)
NEXT = np.nextafter(ONE, np.float32(2))
NAN, INF = float("nan"), float("inf")


def passes(actual: Any, expected: Any, **how: Any) -> bool:
    try:
        assert_close(actual, expected, **how)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("actual", "expected", "how", "verdict"),
    [
        ([1.0], [1.0 + 4 * 2.0**-23], {}, True),
        ([1.0], [1.0 + 5 * 2.0**-23], {}, False),
        ([1.0], [1.0 + 2.0**-23], {"ulp": 1}, True),
        ([1.0], [1.0 + 2.0**-22], {"ulp": 1}, False),
        ([100.0], [101.0], {"rtol": 0.01}, True),
        ([100.0], [101.1], {"rtol": 0.01}, False),
        ([0.0], [0.1], {"atol": 0.1}, True),
        ([0.0], [0.11], {"atol": 0.1}, False),
        ([0.0], [0.11], {"atol": 0.1, "rtol": 1.0}, True),
        ([NAN], [NAN], {}, True),
        ([NAN], [1.0], {}, False),
        ([1.0], [NAN], {}, False),
        ([NAN, 1.0], [1.0, NAN], {"nan": "ignore"}, True),
        ([NAN], [NAN], {"nan": "never"}, False),
        ([INF], [INF], {}, True),
        ([INF], [-INF], {}, False),
        ([INF], [1e38], {}, False),
        ([3.4028235e38], [INF], {}, False),
        ([INF], [3.4028236e38], {}, True),
        ([-INF], [1e39], {}, False),
        ([1.0], [INF], {"rtol": 1e-3}, False),
        ([-INF], [INF], {"rtol": 1e-3}, False),
        ([1.0], [INF], {"tolerance": "wgsl:exp", "args": [INF]}, False),
        ([1.0000001], [1.0], {"tolerance": "wgsl:sign"}, False),
        ([-88.03], [-8.67], {"tolerance": "wgsl:asinh", "args": [-2900.0]}, True),
        ([1.0, 2.0], [1.0, 2.5], {"atol": np.array([0.0, 0.5])}, True),
        ([1.0, 2.6], [1.0, 2.0], {"atol": np.array([0.0, 0.5])}, False),
        ([0.0], [1e-40], {}, True),
        ([0.0], [1e-40], {"subnormals": "keep", "ulp": 4}, False),
        ([1e-40], [0.0], {"ulp": 4}, False),
        ([0.0], [2e-38], {"ulp": 4}, False),
    ],
)
def test_verdicts(actual: list[float], expected: list[float], how: dict[str, Any], verdict: bool) -> None:
    assert passes(np.array(actual, np.float32), np.array(expected), **how) is verdict


def test_half_precision_has_its_own_ulp() -> None:
    assert passes(np.float16(1.0), 1.0 + 2.0**-10, ulp=1)
    assert not passes(np.float16(1.0), 1.0 + 2.0**-9, ulp=1)
    assert passes(np.float16(INF), 65520.0)
    assert not passes(np.float16(INF), 1000.0)


def test_whole_numbers_are_equal_or_not() -> None:
    assert passes(np.array([2**32 - 1], np.uint32), [2**32 - 1])
    assert not passes(np.array([16777217], np.int32), [16777216])
    assert not passes(np.array([2**63], np.uint64), np.array([2**63 + 1], np.uint64))
    assert passes(np.array([True, False]), [1, 0])
    assert not passes(np.array([1, 2], np.int32), [1.5, 2.0], rtol=1.0)


def test_shapes_must_agree_and_may_be_empty() -> None:
    assert passes(np.zeros((0, 3), np.float32), np.zeros((0, 3)))
    assert passes(np.float32(2.0), 2.0)
    with pytest.raises(AssertionError, match=r"shapes differ: \(3,\), expected \(3, 1\)"):
        assert_close(np.zeros(3, np.float32), np.zeros((3, 1)))


def test_the_message_shows_the_worst_how_many_and_where() -> None:
    expected = np.arange(1.0, 2001.0).reshape(20, 100)
    actual = expected.astype(np.float32)
    actual[3, 50:] += 1
    actual[7, 2] = -5
    with pytest.raises(AssertionError) as raised:
        assert_close(actual, expected)
    lines = str(raised.value).splitlines()
    assert lines[0] == "51 of 2000 elements are not within 4 ulp"
    assert lines[1].startswith("worst at [7, 2]: -5.0, expected 703.0 (error 708, ")
    assert lines[2] == "at [3, 50], [3, 51], [3, 52], [3, 53], [3, 54] and 46 more"
    picture = [line for line in lines if line.startswith("  |")]
    assert len(picture) == 16
    assert sum(set(line) & {"#", "+"} != set() for line in picture) == 2
    assert all(len(line) == 4 + 64 for line in picture)


def test_a_run_of_wrong_elements_is_told_as_a_range() -> None:
    actual = np.zeros(100, np.float32)
    actual[90:] = 1
    with pytest.raises(AssertionError, match=r"at \[90\] to \[99\]"):
        assert_close(actual, np.zeros(100))
    with pytest.raises(AssertionError, match=r"0\.0, expected nan"):
        assert_close(np.float32(0), NAN)


def test_ulp_distance() -> None:
    assert ulp_distance(ONE, NEXT) == 1
    assert ulp_distance(np.float32(-0.0), np.float32(0.0)) == 0
    tiny = np.nextafter(np.float32(0), ONE)
    assert ulp_distance(-tiny, tiny) == 2
    assert np.isnan(ulp_distance(np.float32(NAN), ONE))


@pytest.mark.parametrize(
    ("name", "x", "bound"),
    [
        ("exp", 10.0, (3 + 20) * 2.0**-23 * 2**14),  # exp(10) lies between 2^14 and 2^15
        ("log", 1.5, 2.0**-21),
        ("log", 8.0, 3 * 2.0**-22),  # log(8) is 2.08
        ("sin", 3.0, 2.0**-11),
        ("atan", 1.0, 4096 * 2.0**-24),  # 0.785
        ("inverseSqrt", 4.0, 2 * 2.0**-24),
        ("abs", 3.0, 0.0),
        ("sqrt", 64.0, 2 * 2.0**-26 * 64 + 2.5 * 2.0**-20),  # 1 / 8 and 8
    ],
)
def test_bounds_of_the_specification(name: str, x: float, bound: float) -> None:
    """WGSL specification, "Accuracy of Concrete Floating Point Expressions", f32."""
    exact = {"inverseSqrt": lambda v: 1 / np.sqrt(v), "atan": np.arctan}.get(name, getattr(np, name, None))
    y = np.asarray(exact(x))  # type: ignore[misc]
    assert BOUNDS[name](Precision(np.dtype(np.float32)), y, (np.asarray(x),)) == pytest.approx(bound)


def test_a_tolerance_by_name() -> None:
    x = np.linspace(-20, 20, 101)
    exact = np.exp(x)
    assert passes(exact.astype(np.float32), exact, tolerance="wgsl:exp", args=x)
    off = (exact * (1 + 40 * 2.0**-23)).astype(np.float32)
    assert not passes(off, exact, tolerance="wgsl:exp", args=x)
    assert passes(np.full(1, 1e3, np.float32), np.sin([100.0]), tolerance="wgsl:sin", args=100.0), "no bound out there"
    with pytest.raises(ValueError, match="the bound of exp depends on its arguments"):
        assert_close(np.float32(1), 1.0, tolerance="wgsl:exp")
    with pytest.raises(ValueError, match="pow takes 2 arguments; args has 1"):
        assert_close(np.float32(1), 1.0, tolerance="wgsl:pow", args=1.0)
    with pytest.raises(ValueError, match=r"args: an argument of shape \(3,\) does not go with results of \(2,\)"):
        assert_close(np.ones(2, np.float32), np.ones(2), tolerance="wgsl:exp", args=np.ones(3))
    with pytest.raises(ValueError, match="subnormals='foo'; it is 'flush' or 'keep'"):
        assert_close(np.float32(1), 1.0, subnormals="foo")
    with pytest.raises(TypeError, match="assert_close expects numbers, not <U1"):
        assert_close(np.float32(1), "1")
    with pytest.raises(ValueError, match="tolerance='wgsl:gamma'; it is 'wgsl:' and one of abs, acos"):
        assert_close(np.float32(1), 1.0, tolerance="wgsl:gamma")


def test_the_built_ins_of_this_adapter_are_within_their_bounds(run_wgsl: Any) -> None:
    """The bounds are met by real adapters, and are no wider than they have to be by orders of magnitude."""
    functions = {
        "exp": (np.exp, -80, 80), "log": (np.log, 1e-3, 1e3), "sin": (np.sin, -3.1, 3.1), "cos": (np.cos, -3.1, 3.1),
        "tanh": (np.tanh, -10, 10), "sqrt": (np.sqrt, 0, 100), "atan": (np.arctan, -50, 50), "tan": (np.tan, -1.5, 1.5),
        "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1), "sinh": (np.sinh, -10, 10), "cosh": (np.cosh, -10, 10),
        "asinh": (np.arcsinh, -50, 50), "acosh": (np.arccosh, 1, 50), "atanh": (np.arctanh, -0.99, 0.99),
        "exp2": (np.exp2, -100, 100), "log2": (np.log2, 1e-3, 1e3),
    }  # fmt: skip
    for name, (function, low, high) in functions.items():
        x = np.linspace(low, high, 500).astype(np.float32)
        source = (
            "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
            "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
            "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
            f"  if (id.x < arrayLength(&y)) {{ y[id.x] = {name}(x[id.x]); }}\n}}\n"
        )
        made = run_wgsl(source, inputs={"x": x}, outputs={"y": 500}, size=500, sanitize=False)["y"]
        exact = function(x.astype(np.float64))
        assert_close(made, exact, tolerance=f"wgsl:{name}", args=x)
        wrong = made + np.float32(0.02) * np.maximum(np.abs(made), 1)
        assert not passes(wrong, exact, tolerance=f"wgsl:{name}", args=x), name
