"""Every entry point of ``wgsl/``, alone, through the shader harness: against numpy in float64, sanitized, and checked
by both compilers. The cases stand in the files ``kernels_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels_convolution
import kernels_elementwise
import kernels_images
import kernels_linear_algebra
import kernels_movement
import kernels_pooling
import kernels_reductions
import kernels_rows
import kernels_sequence
import kernels_training
import pytest
from kernel_cases import ROOT, TESTS

import wgsl
from gpu_backend.ops.reduction import monoid
from gpu_backend.syntax.module import Module
from gpu_backend.testing import check_wgsl

CASES = (
    kernels_convolution,
    kernels_elementwise,
    kernels_images,
    kernels_linear_algebra,
    kernels_movement,
    kernels_pooling,
    kernels_reductions,
    kernels_rows,
    kernels_sequence,
    kernels_training,
)  # importing them has filled TESTS
FILES = [name for name in wgsl.names() if not name.startswith("lib/")]


@pytest.mark.parametrize("name", TESTS)
def test_kernel(name: str, run_wgsl: Callable[..., Any]) -> None:
    TESTS[name](lambda file, **arguments: run_wgsl(ROOT / f"{file}.wgsl", **arguments))


def test_every_entry_point_has_a_test() -> None:
    entries = {f"{file}.{entry}" for file in FILES for entry in Module(wgsl.read(file)).entries}
    assert entries == set(TESTS)


def unary_prelude(elem: str, result: str, library: str, name: str, slope: str = "0.0", extra: str = "") -> str:
    return (
        f"// uses: lib/{library}\nalias elem = {elem};\nalias result = {result};\n"
        f"fn value(x: elem) -> result {{ return {name}_value(x{extra}); }}\n"
        f"fn slope(v: f32) -> f32 {{ return {slope}; }}\n"
    )


def binary_prelude(library: str, name: str, elem: str, result: str, slopes: bool) -> str:
    sides = "".join(
        f"fn {side}(p: elem, q: elem) -> f32 {{ return {f'{name}_{side}(p, q)' if slopes else '1.0'}; }}\n"
        for side in ("left", "right")
    )
    head = f"// uses: lib/{library}\nalias elem = {elem};\nalias result = {result};\n"
    return f"{head}fn value(p: elem, q: elem) -> result {{ return {name}_value(p, q); }}\n{sides}"


PRELUDES = {
    "unary": [
        # A library is checked whole, whatever function is asked of it.
        unary_prelude(
            "f32", "f32", "scalar", "clip", "clip_slope(v, params.first, 1.0)", ", params.first, params.second"
        ),
        unary_prelude("f32", "u32", "scalar", "isnan"),
        unary_prelude("f32", "f32", "exponential", "asinh", "asinh_slope(v)"),
        unary_prelude("f32", "f32", "trigonometric", "sin", "sin_slope(v)"),
        unary_prelude("f32", "f32", "activation", "gelu", "gelu_slope(v)"),
        unary_prelude("i32", "i32", "whole", "abs"),
        unary_prelude("u32", "u32", "whole", "signbit"),
    ],
    "binary": [
        *(binary_prelude("arithmetic", "multiply", elem, elem, elem == "f32") for elem in ("f32", "i32", "u32")),
        *(binary_prelude("comparison", "less", elem, "u32", False) for elem in ("f32", "i32", "u32")),
        *(binary_prelude("bitwise", "bitwise_right_shift", elem, elem, False) for elem in ("i32", "u32")),
        *(binary_prelude("whole_division", "power", elem, elem, False) for elem in ("i32", "u32")),
        binary_prelude("division", "remainder", "f32", "f32", True),
        binary_prelude("reduction_pairs", "ratio", "f32", "f32", False),
        *(binary_prelude("pairs", name, "f32", "f32", True) for name in ("power", "atan2", "logaddexp")),
    ],
    "gated": [kernels_elementwise.GATE],
    "ternary": [kernels_elementwise.TERNARY.format(name) for name in ("lerp", "addcmul")],
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
        monoid(kind, elem) + "fn finish(v: elem) -> elem { return v; }\n"
        for kind, elem in (
            *((kind, elem) for kind in ("sum", "product", "max", "min") for elem in ("f32", "i32", "u32")),
            ("any", "u32"),
            ("all", "u32"),
        )
    ],
    "scan": [monoid(kind, elem) for kind in ("sum", "product") for elem in ("f32", "i32", "u32")],
    "argument": [
        f"alias elem = f32;\n{kernels_reductions.MORE}",
        *(f"alias elem = {elem};\n{kernels_reductions.LESS}" for elem in ("i32", "u32")),
    ],
    "batch_norm": [kernels_images.AFFINE],
    "layer_norm": [kernels_sequence.AFFINE],
    "matmul": kernels_linear_algebra.ACTIVATIONS,
    "matmul_tiled": kernels_linear_algebra.ACTIVATIONS,
}


@pytest.mark.parametrize("file", FILES)
def test_check_wgsl_has_nothing_to_say(file: str) -> None:
    """K4, P-WN15, P-WN19, P-PO06: naga, Tint where it is installed, and the rules."""
    for prelude in PRELUDES.get(file, [""]):
        assert not check_wgsl(ROOT / f"{file}.wgsl", prelude=prelude)
