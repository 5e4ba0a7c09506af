"""Every entry point of ``wgsl/``, alone, through the shader harness: against numpy in float64, sanitized, and checked
by both compilers. The cases stand in ``kernels_elementwise``, ``kernels_rows``, ``kernels_sequence`` and
``kernels_training``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels_elementwise
import kernels_rows
import kernels_sequence
import kernels_training
import pytest
from kernel_cases import ROOT, TESTS

import wgsl
from gpu_backend.syntax.module import Module
from gpu_backend.testing import check_wgsl

CASES = (kernels_elementwise, kernels_rows, kernels_sequence, kernels_training)  # importing them has filled TESTS
FILES = [name for name in wgsl.names() if not name.startswith("lib/")]


@pytest.mark.parametrize("name", TESTS)
def test_kernel(name: str, run_wgsl: Callable[..., Any]) -> None:
    TESTS[name](lambda file, **arguments: run_wgsl(ROOT / f"{file}.wgsl", **arguments))


def test_every_entry_point_has_a_test() -> None:
    entries = {f"{file}.{entry}" for file in FILES for entry in Module(wgsl.read(file)).entries}
    assert entries == set(TESTS)


PRELUDES = {
    "unary": [
        kernels_elementwise.UNARY.format(name) for name in ("negative", "exp", "log", "sqrt", "tanh", "sigmoid", "relu")
    ],
    "binary": [
        f"alias elem = {elem};\nalias result = {'u32' if name in ('less', 'equal', 'not_equal') else elem};\n"
        f"fn value(p: elem, q: elem) -> result {{ return {name}_value(p, q); }}\n"
        f"fn left(p: elem, q: elem) -> f32 {{ return {'divide_left(p, q)' if name == 'divide' else '1.0'}; }}\n"
        f"fn right(p: elem, q: elem) -> f32 {{ return {'divide_right(p, q)' if name == 'divide' else '1.0'}; }}\n"
        for elem in ("f32", "i32", "u32")
        for name in ("add", "subtract", "multiply", "divide", "less", "equal", "not_equal")
        if (elem, name) != ("u32", "divide")
    ],
    "cast": [
        f"alias source = {source};\nalias goal = {goal};\nfn convert(x: source) -> goal {{ return {name}(x); }}\n"
        for source, goal, name in (
            ("f32", "i32", "float32_to_int32"),
            ("f32", "u32", "float32_to_uint32"),
            ("i32", "f32", "to_float32"),
            ("u32", "u32", "to_bool"),
            ("i32", "u32", "integer_to_uint32"),
            ("u32", "i32", "integer_to_int32"),
        )
    ],
    "reduction": [
        f"alias elem = {elem};\nfn combine(a: elem, b: elem) -> elem {{ return {combine}; }}\n"
        f"fn start() -> elem {{ return {start}; }}\nfn finish(v: elem) -> elem {{ return v; }}\n"
        for elem, combine, start in (
            ("f32", "a + b", "0.0"),
            ("f32", "larger(a, b)", "-infinity()"),
            ("i32", "max(a, b)", "-2147483648"),
            ("u32", "a + b", "0u"),
        )
    ],
    "layer_norm": [kernels_sequence.AFFINE],
    "matmul": [f"fn activate(x: f32) -> f32 {{ return {name}_value(x); }}\n" for name in ("identity", "relu", "tanh")],
}


@pytest.mark.parametrize("file", FILES)
def test_check_wgsl_has_nothing_to_say(file: str) -> None:
    """K4, P-WN15, P-WN19, P-PO06: naga, Tint where it is installed, and the rules."""
    for prelude in PRELUDES.get(file, [""]):
        assert not check_wgsl(ROOT / f"{file}.wgsl", prelude=prelude)
