"""Shaders with one fault each, and their right twins: every fault is found, every twin passes everything.

``FOUND_BY`` says which checks find a fault on every adapter; the table of docs/testing-shaders.md says the same.
``value``: the results differ from numpy's. ``layout``: the host's struct does not fit. Else a check of the sanitizer or
a rule of ``check_wgsl``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_backend import DeviceError, ShaderError
from gpu_backend.adapter import Adapter
from gpu_backend.testing import LayoutError, SanitizerError, assert_close, check_wgsl
from gpu_backend.testing.compilers import reflect_library

SHADERS = Path(__file__).parent / "shaders"
DOCS = Path(__file__).parent.parent / "docs" / "testing-shaders.md"
RNG = np.random.default_rng(0)
X = RNG.standard_normal(1000).astype(np.float32)
SPECIAL = np.array([0.0, -0.5, 3.0, 90.0, -200.0, 1e30], np.float32)


@dataclass
class Case:
    """How a shader is run, and what has to come out."""

    expected: dict[str, Any]
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    close: dict[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] = ()


def elementwise(function: Callable[[Any], Any], x: Any = X, **close: Any) -> Case:
    return Case({"y": function(x)}, {"x": x}, {"y": x.shape}, {"size": x.size}, close)


def by_group(function: Callable[[Any], Any], x: Any = X) -> list[Any]:
    return [function(x[start : start + 64].astype(np.float64)) for start in range(0, x.size, 64)]


def per_group(function: Callable[[Any], Any], x: Any = X) -> Case:
    return Case({"y": by_group(function, x)}, {"x": x}, {"y": 16}, {"workgroups": 16}, {"rtol": 1e-4, "atol": 1e-5})


WHOLE = np.arange(1000, dtype=np.float32)
LONG = np.arange(12800, dtype=np.float32)
INDEX = np.array([0, 99, 100, 150, 5], np.uint32)
TABLE = RNG.standard_normal(100).astype(np.float32)
BINS = RNG.integers(0, 80, 1000).astype(np.uint32)
LARGE = np.array([3, 2**31 + 5, 2**32 - 1, 7], np.uint32)
SIGNED = np.arange(-20, 20, dtype=np.int32)
SCALES = np.array([2.0, 3.0, 5.0], np.float32)
MATRIX = RNG.standard_normal((5, 9)).astype(np.float32)
HOST_PARAMS = np.array((100, 2.0, 1.0), [("n", "<u4"), ("scale", "<f4"), ("shift", "<f4")])
HOST_VEC3 = np.array((100, (2.0, 0.0, 0.0), 1.0), [("n", "<u4"), ("direction", "<f4", 3), ("shift", "<f4")])

CASES: dict[str, Case] = {
    "off_by_one_guard": elementwise(lambda x: 2 * x),
    "no_guard": elementwise(lambda x: 2 * x),
    "write_past_end": elementwise(lambda x: 2 * x),
    "partial_write": elementwise(lambda x: 2 * x, X[:62]),
    "read_past_end": elementwise(lambda x: x + np.append(x[1:], x[-1])),
    "stale_accumulation": elementwise(lambda x: 2 * x),
    "tanh_overflow": elementwise(lambda x: np.tanh(x.astype(np.float64)), SPECIAL, atol=1e-5),
    "nan_comparison": elementwise(lambda x: np.nan_to_num(x), np.array([1.0, np.nan, 2.0], np.float32)),
    "unused_binding": Case({"y": 3 * X}, {"x": X, "bias": X}, {"y": X.shape}, {"size": X.size}),
    "too_many_invocations": elementwise(lambda x: 2 * x, X[:200]),
    "unchecked_index": Case(
        {"y": np.where(INDEX < 100, TABLE[np.minimum(INDEX, 99)], 0)},
        {"table": TABLE, "index": INDEX},
        {"y": 5},
        {"size": 5},
    ),
    "missing_barrier": per_group(np.sum),
    "missing_first_barrier": per_group(np.sum),
    "non_uniform_barrier": per_group(np.sum),
    "barrier_after_return": per_group(np.sum),
    "uninitialized_workgroup_memory": per_group(np.sum),
    "unmasked_tail": per_group(np.sum),
    "wrong_tree_width": per_group(np.sum),
    "max_identity": per_group(np.max, -np.abs(X) - 1),
    "overwritten_shared_value": Case(
        {"y": np.repeat(SCALES, 64) * X[:192]},
        {"scale": SCALES, "x": X[:192]},
        {"y": 192},
        {"workgroups": 1},
    ),
    "shared_parameters": Case(
        {"y": np.repeat(np.arange(1, 17), 64)[:1000] * X, "parameters": np.arange(1.0, 17.0)},
        {"x": X},
        {"y": 1000, "parameters": 16},
        {"workgroups": 16},
    ),
    "barrier_across_workgroups": Case(
        {"y": np.full(200, LONG.sum(dtype=np.float64))}, {"x": LONG}, {"y": 200}, {"workgroups": 200}, {"rtol": 1e-5}
    ),
    "in_place_stencil": Case({"y": np.roll(X, 1) + np.roll(X, -1)}, {"x": X}, {"y": X}, {"size": 1000}),
    "workgroup_order": Case({"y": LONG[-1:]}, {"x": LONG}, {"y": 1}, {"workgroups": 200}),
    "lost_update": Case(
        {"counts": np.bincount(BINS % 8)}, {"values": BINS}, {"counts": np.zeros(8, np.uint32)}, {"size": 1000}
    ),
    "atomic_on_float_bits": Case(
        {"total": np.array([np.float32(499500.0).view(np.uint32)])},
        {"x": WHOLE},
        {"total": np.zeros(1, np.uint32)},
        {"size": 1000},
    ),
    "wrong_uniform_layout": Case({"y": 2 * np.arange(100.0) + 1}, {}, {"y": 100}, {"size": 100, "params": HOST_PARAMS}),
    "wrong_stride": Case(
        {"y": MATRIX.T}, {"x": MATRIX}, {"y": (9, 5)}, {"size": (9, 5), "params": {"rows": 5, "cols": 9}}
    ),
    "signed_remainder": elementwise(lambda x: x % 7, SIGNED),
    "f16_accumulation": Case(
        {"y": np.array([4096.0])},
        {"x": np.ones(4096, np.float16)},
        {"y": 1},
        {"workgroups": 1},
        features=("shader-f16",),
    ),
    "assumed_workgroup_size": elementwise(lambda x: x + 1),
    "integer_overflow": Case(
        {"y": ((LARGE.astype(np.uint64) + LARGE[::-1]) // 2).astype(np.uint32)},
        {"a": LARGE, "b": LARGE[::-1]},
        {"y": 4},
        {"size": 4},
    ),
    "changed_input": elementwise(lambda x: np.maximum(x, 0)),
}

FOUND_BY = {
    "off_by_one_guard": {"past_end"},
    "no_guard": {"past_end", "unguarded-write"},
    "write_past_end": {"past_end", "unwritten", "value"},
    "partial_write": {"unwritten", "value"},
    "read_past_end": {"read_past_end"},
    "stale_accumulation": {"stale", "value"},
    "tanh_overflow": {"unbounded-exponential"},
    "nan_comparison": {"nan-comparison"},
    "unused_binding": {"unused-binding", "value"},
    "too_many_invocations": {"default-limits", "syntax"},
    "unchecked_index": {"read_past_end"},
    "missing_barrier": {"missing-barrier", "value"},
    "missing_first_barrier": {"missing-barrier", "value"},
    "non_uniform_barrier": {"non-uniform-barrier"},
    "barrier_after_return": {"non-uniform-barrier"},
    "uninitialized_workgroup_memory": {"workgroup-read-before-write"},
    "unmasked_tail": {"read_past_end"},
    "wrong_tree_width": {"value"},
    "max_identity": {"value"},
    "overwritten_shared_value": {"value"},
    "shared_parameters": {"unwritten", "value"},
    "barrier_across_workgroups": {"group_order"},
    "in_place_stencil": {"group_order", "value"},
    "workgroup_order": {"group_order"},
    "lost_update": {"value"},
    "atomic_on_float_bits": {"value"},
    "wrong_uniform_layout": {"layout", "vec3-in-host-struct"},
    "wrong_stride": {"past_end", "unwritten", "value"},
    "signed_remainder": {"signed-remainder", "value"},
    "f16_accumulation": {"f16-accumulation"},
    "assumed_workgroup_size": {"workgroup_size"},
    "integer_overflow": {"value"},
    "changed_input": {"input"},
}


def arguments(name: str, twin: str) -> dict[str, Any]:
    """What a shader is run with. The host of the wrong uniform has the same mistake."""
    case = CASES[name]
    found = {"inputs": dict(case.inputs), "outputs": case.outputs, **case.more}
    if (name, twin) == ("wrong_uniform_layout", "wrong"):
        found["params"] = HOST_VEC3
    if (name, twin) == ("unused_binding", "wrong"):
        del found["inputs"]["bias"]
    return found


def run(run_wgsl: Callable[..., Any], name: str, twin: str, **changed: Any) -> None:
    """Run a shader and compare with numpy."""
    case = CASES[name]
    result = run_wgsl(SHADERS / f"{name}.{twin}.wgsl", **arguments(name, twin), **changed)
    for binding, expected in case.expected.items():
        assert_close(result[binding], expected, **case.close)


def finders(run_wgsl: Callable[..., Any], name: str) -> set[str]:
    """Everything that finds the fault of a wrong shader."""
    path = SHADERS / f"{name}.wrong.wgsl"
    found = {finding.rule for finding in check_wgsl(path)}
    with contextlib.suppress(LayoutError, ShaderError):  # told below
        found |= {finding.rule for finding in check_wgsl(path, example=arguments(name, "wrong"))}
    for sanitize in (True, False):
        try:
            run(run_wgsl, name, "wrong", sanitize=sanitize)
        except SanitizerError as error:
            found |= {finding.check for finding in error.findings}
        except LayoutError:
            found.add("layout")
        except AssertionError:
            found.add("value")
        except (ShaderError, DeviceError):
            found.add("refused")
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_fault_is_found(name: str, run_wgsl: Callable[..., Any]) -> None:
    found = finders(run_wgsl, name)
    assert found >= FOUND_BY[name]


@pytest.mark.parametrize("name", CASES)
def test_the_right_twin_passes_everything(name: str, run_wgsl: Callable[..., Any], wgsl_adapter: Adapter) -> None:
    missing = set(CASES[name].features) - wgsl_adapter.features
    if missing:
        pytest.skip(f"{wgsl_adapter.name} has no {', '.join(missing)}")
    assert not check_wgsl(SHADERS / f"{name}.right.wgsl", example=arguments(name, "right"))
    run(run_wgsl, name, "right")


def test_every_shader_of_the_folder_has_a_case_and_a_line_in_the_docs() -> None:
    files = {path.name.split(".")[0] for path in SHADERS.iterdir()}
    assert files == CASES.keys() == FOUND_BY.keys()
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    for name, found in FOUND_BY.items():
        row = next(line for line in lines if line.startswith(f"| `{name}`"))
        told = set(re.findall(r"`([\w-]+)`", row))
        assert found <= told, row


@pytest.mark.parametrize("name", ["missing_barrier", "missing_first_barrier", "lost_update"])
def test_wgsl_reflect_finds_races_where_it_is_installed(name: str) -> None:
    if not reflect_library():
        pytest.skip("node or the npm package wgsl_reflect is not installed")
    wrong, right = (
        check_wgsl(SHADERS / f"{name}.{twin}.wgsl", example=arguments(name, twin)) for twin in ("wrong", "right")
    )
    assert "race" in {finding.rule for finding in wrong}
    assert not right
    assert "wgsl_reflect" not in right.skipped
