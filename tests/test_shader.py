"""Reading shader text, and the rules that every shader of the project keeps."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gpu_backend as gb
import wgsl
from gpu_backend import ShaderError, shader
from gpu_backend.array import allocate
from gpu_backend.device import GPUDevice
from gpu_backend.spec import float32


@pytest.mark.parametrize("file", wgsl.names())
def test_every_shader_keeps_the_style_sheet(file: str) -> None:
    text = wgsl.read(file)
    code = re.sub(r"//[^\n]*", "", text)
    assert text.startswith("//"), "a header comment"
    assert "vec3<f32>" not in code
    assert not re.search(r"fn main\b", code)
    assert not re.search(r"\b(\w+) != \1\b", code), "NaN is told by its bits"
    if file.startswith("lib/"):
        assert text.startswith("// Provides: ")
        assert "@group" not in code


def test_bindings_belong_to_the_entry_points_that_use_them() -> None:
    parsed = shader.load("unary", "fn value(x: f32) -> f32 { return x; }\nfn slope(v: f32) -> f32 { return v; }\n")
    assert [b.name for b in parsed.bindings("forward")] == ["params", "x", "y"]
    assert [b.name for b in parsed.bindings("backward")] == ["params", "dy", "saved", "dx"]
    assert [b.writable for b in parsed.bindings("backward")] == [False, False, False, True]


def test_faults_in_a_text_are_named() -> None:
    with pytest.raises(ShaderError, match=r"unary: no entry point 'main'; there are forward, backward"):
        shader.load("unary").bindings("main")
    with pytest.raises(FileNotFoundError, match="no shader 'nothing'; there are adam, argument, batch_norm, binary"):
        shader.load("nothing")
    with pytest.raises(ShaderError, match=r"Params.direction: vec3<f32> is no number"):
        shader.parse("bad", "struct Params { direction: vec3<f32>, }")
    with pytest.raises(ShaderError, match="Params takes 512 bytes; at most 256 fit"):
        shader.parse("bad", "struct Params { table: array<vec4<u32>, 32>, }")
    twice = (
        "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
        "@group(0) @binding(0) var<storage, read_write> b: array<f32>;\n"
        "@compute @workgroup_size(1) fn go() { b[0] = a[0]; }\n"
    )
    with pytest.raises(ShaderError, match="go uses a and b, both at binding 0"):
        shader.parse("bad", twice)


ECHO = """// Writes back every field of Params.
struct Params {
  n: u32,
  shape: array<vec4<u32>, 2>,
  scale: f32,
  low: i32,
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn echo() {
  y[0] = f32(params.n);
  for (var i = 0u; i < 8u; i++) { y[1u + i] = f32(params.shape[i / 4u][i % 4u]); }
  y[9] = params.scale;
  y[10] = f32(params.low);
}
"""


@pytest.mark.parametrize("rank", range(7))
def test_params_arrive_as_the_shader_reads_them(rank: int, adapter: GPUDevice) -> None:
    """P-LM07: padding and array stride of the uniform address space."""
    kernel = adapter.pipelines.compile(shader.parse("echo", ECHO), "echo", {}, "echo")
    y = allocate((11,), float32, adapter, "echo")
    shape = tuple(range(3, 3 + rank)) + (0,) * (8 - rank)
    adapter.recorder.record(kernel, 1, y=y, n=rank, shape=shape, scale=0.5, low=-7)
    assert y.tolist() == [rank, *shape, 0.5, -7]


def test_a_call_with_wrong_names_says_which(adapter: GPUDevice) -> None:
    x = gb.array(np.ones(4, np.float32), device=adapter)
    kernel = adapter.kernel("copy", "duplicate")
    with pytest.raises(
        ShaderError, match=r"copy\.duplicate.*: size, y missing; no length, out here. It takes number, rank"
    ):
        adapter.recorder.record(kernel, 1, x=x, out=x, shape=(), strides=(), length=4, rank=0, number=0)


def test_a_written_buffer_may_not_be_bound_twice(adapter: GPUDevice) -> None:
    x = gb.array(np.ones(4, np.float32), device=adapter)
    kernel = adapter.kernel("gradient", "accumulate")
    with pytest.raises(ShaderError, match="y is written and bound a second time"):
        adapter.recorder.record(kernel, 1, x=x, y=x, size=4, first=0, bound=0.0)


def test_a_broken_shader_shows_its_lines_and_the_next_op_works(adapter: GPUDevice) -> None:
    """P-PO05: the label, the message, numbered lines around the fault."""
    broken = shader.parse("broken", ECHO.replace("f32(params.low)", "params.low"))
    with pytest.raises(ShaderError) as raised:
        adapter.pipelines.compile(broken, "echo", {}, "broken.echo[f32]")
    text = str(raised.value)
    assert text.startswith("broken.echo[f32]: ")
    assert re.search(r"> broken:15\s+y\[10\] = params.low;", text)
    assert gb.add(gb.array([1.0], device=adapter), 1.0).tolist() == [2.0]


def test_an_unknown_override_is_named(adapter: GPUDevice) -> None:
    with pytest.raises(ShaderError, match="no override WIDTH; there are WORKGROUP"):
        adapter.pipelines.compile(shader.load("copy"), "fill", {"WIDTH": 3}, "fill")
