"""run_wgsl: what goes in and comes out, and errors that name the thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness_cases import XY, Run, X, elementwise, findings

from gpu_backend import DeviceError, ShaderError
from gpu_backend.adapter import Adapter
from gpu_backend.testing import LayoutError, assert_close
from gpu_backend.testing import run_wgsl as run_plainly
from gpu_backend.testing.runner import runner_for

# what goes in, what comes out


def test_results_by_name_with_time_and_adapter(run_wgsl: Run, wgsl_adapter: Adapter) -> None:
    result = run_wgsl(elementwise("y[i] = 2.0 * x[i];"), inputs={"x": X}, outputs={"y": (10, 20)}, size=200)
    assert list(result) == ["y"]
    np.testing.assert_array_equal(result["y"], 2 * X.reshape(10, 20))
    assert result.adapter == wgsl_adapter.summary
    assert result.workgroups == (4, 1, 1)
    has_timestamps = "timestamp-query" in wgsl_adapter.features
    assert (result.gpu_seconds is not None) is has_timestamps
    assert not has_timestamps or 0 < result.gpu_seconds < 1


def test_the_plain_function_is_the_same(run_wgsl: Run) -> None:
    arguments: Any = {"inputs": {"x": X}, "outputs": {"y": 200}, "size": 200}
    source = elementwise("y[i] = x[i] * x[i];")
    np.testing.assert_array_equal(run_plainly(source, **arguments)["y"], run_wgsl(source, **arguments)["y"])


@pytest.mark.parametrize("sanitize", [True, False])
def test_types_of_all_kinds(run_wgsl: Run, sanitize: bool) -> None:
    source = """
struct Particle { position: vec3<f32>, mass: f32, id: u32, }
struct State { count: atomic<u32>, spin: vec2<i32>, data: array<vec3<f32>>, }
@group(0) @binding(3) var<storage, read> particles: array<Particle>;
@group(1) @binding(0) var<storage, read_write> state: State;
@group(1) @binding(1) var<storage, read_write> total: atomic<i32>;
@group(2) @binding(5) var<uniform> first: vec4<f32>;
@group(2) @binding(6) var<uniform> second: array<vec4<u32>, 2>;
@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&particles)) { return; }
  let p = particles[i];
  state.data[i] = p.position * p.mass + first.xyz + vec3<f32>(f32(second[1].w));
  atomicAdd(&state.count, p.id);
  atomicSub(&total, 1);
}
"""
    rng = np.random.default_rng(0)
    position, mass, ids = rng.random((11, 3)), rng.random(11), np.arange(11)
    result = run_wgsl(
        source,
        inputs={"particles": {"position": position, "mass": mass, "id": ids}},
        outputs={"state": {"count": 5, "spin": (1, -2), "data": np.zeros((11, 3))}, "total": np.int32(3)},
        params={"first": (1, 2, 3, 4), "second": np.arange(8)},
        size=11,
        sanitize=sanitize,
    )
    exact = position.astype(np.float32) * mass.astype(np.float32)[:, None] + [1, 2, 3] + 7
    assert_close(result["state"]["data"], exact)
    assert result["state"]["count"] == 5 + ids.sum()
    assert result["state"]["spin"].tolist() == [1, -2]
    assert result["total"] == 3 - 11


def test_vectors_need_not_be_filled(run_wgsl: Run) -> None:
    """Seven numbers in array<vec4>: the eighth is none of ours."""
    source = XY.replace("array<f32>", "array<vec4<f32>>")
    source += (
        "@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) {\n"
        "  for (var c = 0u; c < min(7u - 4u * id.x, 4u); c++) { y[id.x][c] = 2.0 * x[id.x][c]; }\n}\n"
    )
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(run_wgsl(source, inputs={"x": x}, outputs={"y": 7}, workgroups=2)["y"], 2 * x)
    whole = source.replace("min(7u - 4u * id.x, 4u)", "4u")
    assert set(findings(run_wgsl, whole, inputs={"x": x}, outputs={"y": 7}, size=None, workgroups=2)) >= {"past_end"}


@pytest.mark.requires_feature("shader-f16")
def test_half_precision(run_wgsl: Run) -> None:
    source = "enable f16;\n" + elementwise("y[i] = x[i] + x[i];").replace("array<f32>", "array<f16>")
    x = np.linspace(-3, 3, 77).astype(np.float16)
    result = run_wgsl(source, inputs={"x": x}, outputs={"y": 77}, size=77)["y"]
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, x + x)
    assert "past_end" in findings(
        run_wgsl, source.replace("id.x < arr", "id.x <= arr"), inputs={"x": x}, outputs={"y": 77}
    )


def test_aliases_libraries_overrides_and_prelude(run_wgsl: Run, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "more.wgsl").write_text(
        "// uses: lib/most\nfn more(v: elem) -> elem { return most(v) + elem(1); }\n"
    )
    (tmp_path / "lib" / "most.wgsl").write_text("fn most(v: elem) -> elem { return v * elem(FACTOR); }\n")
    body = "// uses: lib/more\noverride FACTOR: u32 = 2u;\n" + elementwise("y[i] = more(x[i]) - SHIFT;")
    (tmp_path / "k.wgsl").write_text(body.replace("f32", "elem"))
    for elem, dtype in (("f32", np.float32), ("i32", np.int32)):
        x = np.arange(70).astype(dtype)
        made = run_wgsl(
            tmp_path / "k.wgsl",
            inputs={"x": x},
            outputs={"y": 70},
            size=70,
            aliases={"elem": elem},
            overrides={"FACTOR": 5},
            libraries=["const SHIFT: elem = elem(3);\n"],
        )["y"]
        np.testing.assert_array_equal(made, 5 * x + 1 - 3)


def test_one_of_several_entry_points(run_wgsl: Run) -> None:
    source = elementwise("y[i] = 1.0;") + "@compute @workgroup_size(1) fn other() { y[0] = x[0]; }\n"
    assert run_wgsl(source, entry="other", inputs={"x": X}, outputs={"y": 1}, workgroups=1)["y"][0] == 1.0
    with pytest.raises(ShaderError, match="which entry point; there are main, other"):
        run_wgsl(source, inputs={"x": X}, outputs={"y": 1}, workgroups=1)


def test_grids_of_three_axes(run_wgsl: Run) -> None:
    source = XY + (
        "@compute @workgroup_size(4, 2, 2)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        "  if (any(id >= vec3<u32>(7u, 5u, 3u))) { return; }\n"
        "  let i = (id.z * 5u + id.y) * 7u + id.x;\n  y[i] = x[i] + 1.0;\n}\n"
    )
    x = np.random.default_rng(0).random((3, 5, 7)).astype(np.float32)
    result = run_wgsl(source, inputs={"x": x}, outputs={"y": x.shape}, size=(7, 5, 3))
    np.testing.assert_array_equal(result["y"], x + np.float32(1))
    assert result.workgroups == (2, 3, 2)


def test_nothing_to_do(run_wgsl: Run) -> None:
    """Empty arrays are bound as something, and written by nobody."""
    empty = np.zeros(0, np.float32)
    result = run_wgsl(elementwise("y[i] = x[i];"), inputs={"x": empty}, outputs={"y": 0}, workgroups=1)
    assert result["y"].shape == (0,)


# texts and values of other people


def test_sizes_by_overrides_are_bounded(run_wgsl: Run) -> None:
    source = "override T: u32 = 8u;\n" + elementwise("y[i] = x[i];").replace("size(64)", "size(T, T)")
    given: Any = {"inputs": {"x": X}, "outputs": {"y": 200}, "size": 200}
    run_wgsl(source, **given, overrides={"T": np.int64(11)})
    with pytest.raises(ShaderError, match="main has 1024 invocations a workgroup; 256 are granted"):
        run_wgsl(source, **given, overrides={"T": 32})
    with pytest.raises(ShaderError, match="a workgroup of 0 x 0 x 1"):
        run_wgsl(source, **given, overrides={"T": 0})
    with pytest.raises(LayoutError, match="override T is a number or a bool, not str"):
        run_wgsl(source, **given, overrides={"T": "8"})


@pytest.mark.parametrize("size", ["(A + A) * 2", "(2 * (A + A))", "((A + 2) * 1)", "u32(ceil(10.0 / 3.0))"])
def test_workgroup_sizes_by_expressions(size: str, run_wgsl: Run) -> None:
    source = "const A = 2u;\n" + elementwise("y[i] = x[i] + 1.0;").replace("size(64)", f"size({size})")
    np.testing.assert_array_equal(run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200)["y"], X + 1)


def test_overrides_with_a_number(run_wgsl: Run) -> None:
    source = "@id(7) override W: u32 = 4u;\n" + elementwise("y[i] = x[i] + f32(min(W, 2u));").replace(
        "size(64)", "size(W)"
    )
    for overrides in ({}, {"W": 16}):
        made = run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200, overrides=overrides)["y"]
        np.testing.assert_array_equal(made, X + 2)


def test_structs_that_are_all_array_and_arrays_of_arrays_of_structs(run_wgsl: Run) -> None:
    source = """
struct L { data: array<f32>, }
struct E { a: u32, b: f32, }
@group(0) @binding(0) var<storage, read> x: L;
@group(0) @binding(1) var<storage, read_write> y: array<array<E, 2>>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= arrayLength(&y)) { return; }
  for (var k = 0u; k < 2u; k++) { y[id.x][k] = E(k, x.data[id.x]); }
}
"""
    made = run_wgsl(source, inputs={"x": {"data": X[:3]}}, outputs={"y": (3, 2)}, size=3)["y"]
    assert made["a"].tolist() == [[0, 1]] * 3
    assert made["b"].tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    again = run_wgsl(source, inputs={"x": {"data": X[:3]}}, outputs={"y": made}, size=3)["y"]
    assert again.tolist() == made.tolist()
    with pytest.raises(LayoutError, match=r"y: an array of array<E, 2> has a shape that ends in \(2,\), not \(3,\)"):
        run_wgsl(source, inputs={"x": {"data": X[:3]}}, outputs={"y": 3}, size=3)


def test_directives_move_to_the_front_and_comments_stay(run_wgsl: Run) -> None:
    source = (
        "/* licence */ diagnostic(off, derivative_uniformity); diagnostic(off, subgroup_uniformity);\n"
        "/*\nenable nosuchthing;\n*/\n" + elementwise("y[i] = x[i] * SCALE;")
    )
    made = run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200, libraries=["const SCALE = 3.0;"])["y"]
    np.testing.assert_array_equal(made, 3 * X)
    with pytest.raises(TypeError, match="libraries is a list of files or texts, not one text"):
        run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200, libraries="const SCALE = 3.0;")


def test_a_uniform_named_like_its_member(run_wgsl: Run) -> None:
    source = (
        "struct P { n: u32, }\n@group(0) @binding(2) var<uniform> n: P;\n"
        + elementwise("y[i] = x[i] + f32(n.n) + f32(select(0u, 1u, i > 999u));")
        + "fn unused(a: u32) -> u32 { return a; }\n"
    )
    for params in ({"n": 5}, {"n": {"n": 5}}):
        made = run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200, params=params)["y"]
        np.testing.assert_array_equal(made, X + 5)


def test_a_function_named_like_a_built_in(run_wgsl: Run) -> None:
    source = "fn select(a: f32) -> f32 { return a + 1.0; }\n" + elementwise("y[i] = select(x[i]);")
    np.testing.assert_array_equal(
        run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=np.prod([200]))["y"], X + 1
    )


def test_matrices_are_not_taken_for_their_transposes(run_wgsl: Run) -> None:
    source = (
        "@group(0) @binding(0) var<uniform> m: mat4x3<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(1) fn main() { for (var k = 0u; k < 12u; k++) { y[k] = m[k / 3u][k % 3u]; } }\n"
    )
    columns = np.arange(12.0).reshape(4, 3)
    for params in (columns, columns.reshape(-1)):
        made = run_wgsl(source, params={"m": params}, outputs={"y": 12}, workgroups=1)["y"]
        np.testing.assert_array_equal(made, np.arange(12))
    with pytest.raises(LayoutError, match=r"m: mat4x3<f32> takes an array of \(4, 3\), not of \(3, 4\)"):
        run_wgsl(source, params={"m": columns.T}, outputs={"y": 12}, workgroups=1)


# errors


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"inputs": {}}, LayoutError, "shader: inputs and outputs: x missing. It takes x, y"),
        ({"inputs": {"x": X, "z": X}}, LayoutError, "no z here. It takes x, y"),
        ({"outputs": {"y": -1}}, LayoutError, r"y: the shape \(-1,\) has a negative extent"),
        ({"outputs": {"y": None}}, LayoutError, "y: array<f32> has no length of its own; pass a shape"),
        (
            {"outputs": {"y": 200, "x": 200}, "inputs": {}},
            LayoutError,
            "x is an output, but the shader declares it read-only",
        ),
        ({"inputs": {"x": ["a"]}}, LayoutError, "x: the shader has float32, the array <U1"),
        ({"params": {"n": 1}}, LayoutError, "params were given, but the entry point reads no uniform"),
        ({"overrides": {"W": 3}}, ShaderError, "no override W; there are none"),
        ({"entry": "go"}, ShaderError, "no entry point 'go'; there are main"),
        ({"size": None}, ValueError, "pass either size=, the number of invocations, or workgroups="),
        ({"workgroups": 3}, ValueError, "pass either size=, the number of invocations, or workgroups="),
        ({"size": 0}, ValueError, r"size=\(0,\): a grid of 0 x 1 x 1 workgroups runs nothing"),
        ({"size": 3.0}, ValueError, r"size is one to three whole numbers, not 3\.0"),
        ({"size": ()}, ValueError, r"size is one to three whole numbers, not \(\)"),
        ({"size": (1, 1, 1, 1)}, ValueError, "size is one to three whole numbers"),
        ({"inputs": {"x": X, "y": X}, "outputs": {"y": 3}}, LayoutError, "y has a content in inputs"),
        ({"inputs": {"x": [[1, 2], [3]]}}, LayoutError, "x: setting an array element with a sequence"),
        ({"size": 64 * 65536}, DeviceError, "65536 x 1 x 1 workgroups: an axis holds at most 65535"),
        ({"features": ["no-such-feature"]}, DeviceError, "has no no-such-feature"),
        ({"adapter": "no such adapter"}, DeviceError, "no adapter fits 'no such adapter'"),
        ({"outputs": {"y": 2**40}}, DeviceError, "y: .* bytes are more than the"),
    ],
)
def test_bad_input_is_named(changed: dict[str, Any], error: type[Exception], message: str, run_wgsl: Run) -> None:
    arguments = {"inputs": {"x": X}, "outputs": {"y": 200}, "size": 200, **changed}
    with pytest.raises(error, match=message):
        run_wgsl(elementwise("y[i] = x[i];"), **arguments)
    made = run_wgsl(elementwise("y[i] = x[i];"), inputs={"x": X}, outputs={"y": 200}, size=200)["y"]
    np.testing.assert_array_equal(made, X)


def test_a_broken_shader_shows_its_file_and_lines(run_wgsl: Run, tmp_path: Path) -> None:
    """P-PO05: the compiler's words, the lines around by their own file, and the next call works."""
    (tmp_path / "bad.wgsl").write_text(elementwise("y[i] = x[i];").replace("let i = id.x;", "let i = id.x + 1.0;"))
    with pytest.raises(ShaderError) as raised:
        run_wgsl(tmp_path / "bad.wgsl", inputs={"x": X}, outputs={"y": 200}, size=200, prelude="const A = 1;\n")
    assert raised.value.label == "bad.wgsl"
    (marked,) = (line.split() for line in raised.value.excerpt.splitlines() if line.startswith(">"))
    assert marked == [">", "bad.wgsl:6", "let", "i", "=", "id.x", "+", "1.0;"]
    with pytest.raises(FileNotFoundError, match=r"no shader nothing\.wgsl"):
        run_wgsl("nothing.wgsl", inputs={"x": X}, outputs={"y": 200}, size=200)
    run_wgsl(elementwise("y[i] = x[i];"), inputs={"x": X}, outputs={"y": 200}, size=200)


def test_a_texture_is_refused_by_name(run_wgsl: Run) -> None:
    source = (
        "@group(0) @binding(0) var picture: texture_2d<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(1) fn main() { y[0] = textureLoad(picture, vec2<i32>(0, 0), 0).x; }\n"
    )
    with pytest.raises(ShaderError, match="picture: only buffers can be bound here"):
        run_wgsl(source, outputs={"y": 1}, workgroups=1)


def test_programs_are_compiled_once(run_wgsl: Run, wgsl_adapter: Adapter) -> None:
    """Sizes, orders and contents change; the texts do not."""
    runner = runner_for(wgsl_adapter)
    source = elementwise("y[i] = 5.0 * x[i];")
    for size in (1, 63, 64, 65, 200):
        run_wgsl(source, inputs={"x": X[:size]}, outputs={"y": size}, size=size)
    ours = [key for key in runner._programs if "5.0 * x[i]" in key[0]]
    assert len(ours) == 2  # as it is, and rewritten
