"""The tree of a WGSL text, what its names mean, and where its types lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wgsl
from gpu_backend.syntax import tree
from gpu_backend.syntax.layout import LayoutError, layout_of
from gpu_backend.syntax.module import Module, literal
from gpu_backend.syntax.parser import parse
from gpu_backend.syntax.tokens import SyntaxFault, tokens

EVERYTHING = """
enable f16;
diagnostic(off, derivative_uniformity);
alias elem = f32; // a comment
/* another /* nested */ one */
const K: u32 = 1u << 4u;
@id(7) override W: u32 = K * 2u;
@id(3) override H = 2;
struct Params { n: u32, @align(16) scale: elem, @size(32) m: mat2x2<f32>, }
@group(0) @binding(0) var<uniform> params: Params;
@group(1) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
var<workgroup> shared_part: array<atomic<u32>, W / 2u>;
var<private> seed = 3u;
const_assert K > 3u;

@must_use fn helper(p: ptr<function, array<f32, 4>>, q: vec2<f32>) -> f32 {
  (*p)[0] += q.x;
  let pick = array(1.0, 2.0)[1];
  return select(pick, f32(a_less(1 < 2, 3 > (2))), true);
}
fn a_less(x: bool, y: bool) -> i32 { if x && !y { return 1; } else if (y) { return 2; } else { return 3; } }
@compute @workgroup_size(W, H)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32,) {
  var local: array<f32, 4>;
  for (var i = 0u; i < params.n; i++) { seed >>= 1u; if (seed >= 1u) { continue; } }
  loop { if id.x > 3 { break; } continuing { seed += 1; break if seed > 9u; } }
  while (seed < 2u) { seed *= 2u; }
  switch (i32(seed)) { case 1, 2: { y[id.x] = vec4f(0x1.8p3, 1e-3f, .5, 1.h); } default: { } case default, 5 { } }
  _ = helper(&local, vec2(1.0));
  atomicAdd(&shared_part[lane], 1);
  y[id.x].x = bitcast<f32>(0xFFu >> 2u); { let y = 3; _ = y; }
  ;
}
"""


def test_the_whole_grammar_of_a_compute_shader() -> None:
    module = Module(EVERYTHING)
    assert module.entries == ["main"]
    assert [directive.kind for directive in module.directives] == ["enable", "diagnostic", "const_assert"]
    assert module.workgroup_size("main", {}) == (32, 2, 1)
    assert module.workgroup_size("main", {"W": 8, "H": 4}) == (8, 4, 1)
    assert [one.name for one in module.reachable("main")] == ["main", "helper", "a_less"]
    assert module.globals_of("main") == {"params", "y", "seed", "shared_part"}
    assert [(b.name, b.group, b.number, b.space, b.writable) for b in module.bindings] == [
        ("params", 0, 0, "uniform", False),
        ("y", 1, 2, "storage", True),
    ]
    kinds = {type(node) for one in module.functions.values() for node in tree.walk(one.body)}
    assert {tree.Loop, tree.Switch, tree.BreakIf, tree.Jump, tree.Member, tree.Index, tree.Unary} <= kinds


def test_offsets_are_those_of_the_text() -> None:
    module = Module(EVERYTHING)
    for function in module.functions.values():
        assert EVERYTHING[function.body.start] == "{"
        assert EVERYTHING[function.body.end - 1] == "}"
        for node in tree.walk(function.body):
            if isinstance(node, tree.Name):
                assert EVERYTHING[node.start :].startswith(node.name)
            if isinstance(node, tree.Call):
                assert EVERYTHING[node.end - 1] == ")"
            if isinstance(node, tree.Index):
                assert EVERYTHING[node.end - 1] == "]"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a >> 2u & b == c", "((a >> 2u) & (b == c))"),
        ("-a.x[1] * !b", "((-a.x[1]) * (!b))"),
        ("a < b || c >= d && e", "((a < b) || ((c >= d) && e))"),
        ("vec2<f32>(a, b).y", "vec2(a, b).y"),
        ("a<b", "(a < b)"),
        ("f(array<vec2<u32>, 4>(), g > h)", "f(array(), (g > h))"),
        ("*p + &q", "((*p) + (&q))"),
    ],
)
def test_precedence_and_templates(text: str, written: str) -> None:
    (function,) = parse(f"fn f() {{ let x = {text}; }}")
    assert isinstance(function, tree.Function)
    declaration = function.body.statements[0]
    assert isinstance(declaration, tree.Declaration)
    assert spell(declaration.value) == written


def spell(node: Any) -> str:
    match node:
        case tree.Binary():
            return f"({spell(node.left)} {node.operator} {spell(node.right)})"
        case tree.Unary():
            return f"({node.operator}{spell(node.operand)})"
        case tree.Call():
            return f"{node.function.name}({', '.join(map(spell, node.arguments))})"
        case tree.Index():
            return f"{spell(node.base)}[{spell(node.index)}]"
        case tree.Member():
            return f"{spell(node.base)}.{node.name}"
        case tree.Literal():
            return node.text
    return str(node.name)


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("fn f( { }", "expected a name, found '{'", "{"),
        ("fn f() { let x = ; }", "expected an expression, found ';'", ";"),
        ("fn f() { x + 1; }", "expected a statement", "+"),
        ("var<storage> x: array<f32", "expected ',' or '>', found 'the end of the text'", ""),
        ("struct S { a f32 }", "expected ':', found 'f32'", "f32"),
        ("fn f() { let a = $; }", "no WGSL token begins with '$'", "$"),
        ("/* open", "this comment has no end", "/*"),
        ("while", "expected a declaration, found 'while'", "while"),
    ],
)
def test_faults_say_what_was_expected_and_where(text: str, message: str, at: str) -> None:
    with pytest.raises(SyntaxFault, match=message.replace("$", r"\$")) as raised:
        parse(text)
    assert text[raised.value.start :].startswith(at)


def test_every_shader_of_the_package_parses() -> None:
    for name in wgsl.names():
        text = wgsl.read(name)
        assert parse(text)
        assert tokens(text)[-1].kind == "end"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("0x1Fu", 31),
        ("1.5f", 1.5),
        ("2h", 2.0),
        ("1e3", 1000.0),
        ("0x1.8p1", 3.0),
        ("true", True),
        ("7i", 7),
    ],
)
def test_literals(text: str, value: Any) -> None:
    assert literal(text) == value
    assert type(literal(text)) is type(value)


def test_values_known_before_a_run() -> None:
    module = Module("const A = 7; override B: u32 = u32(A) % 4u; override C: f32; const D = select(1, 2, A > 3);")
    assert module.evaluate(tree.Name(0, 1, "B")) == 3
    assert module.evaluate(tree.Name(0, 1, "B"), {"B": 9}) == 9
    assert module.evaluate(tree.Name(0, 1, "D")) == 2
    with pytest.raises(SyntaxFault, match="override C has no default and got no value"):
        module.evaluate(tree.Name(0, 1, "C"))


NESTED = """
struct Inner { a: u32, v: vec3<f32>, m: mat3x3<f32>, }
struct Wide { b: f32, @size(20) c: u32, @align(32) d: vec2<i32>, }
struct All {
  n: u32, inner: Inner, list: array<Inner, 2>, wide: Wide, r: mat2x3<f32>, q: array<vec3<f32>, 3>, last: vec3<f32>,
  tail: f32,
}
@group(0) @binding(0) var<storage, read> all: All;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
  y[0] = f32(all.n);
  y[1] = f32(all.inner.a);
  for (var i = 0u; i < 3u; i++) { y[2u + i] = all.inner.v[i]; }
  for (var i = 0u; i < 9u; i++) { y[5u + i] = all.inner.m[i / 3u][i % 3u]; }
  y[14] = f32(all.list[1].a);
  for (var i = 0u; i < 3u; i++) { y[15u + i] = all.list[1].v[i]; }
  for (var i = 0u; i < 9u; i++) { y[18u + i] = all.list[1].m[i / 3u][i % 3u]; }
  y[27] = all.wide.b;
  y[28] = f32(all.wide.c);
  y[29] = f32(all.wide.d.x);
  y[30] = f32(all.wide.d.y);
  for (var i = 0u; i < 6u; i++) { y[31u + i] = all.r[i / 3u][i % 3u]; }
  for (var i = 0u; i < 9u; i++) { y[37u + i] = all.q[i / 3u][i % 3u]; }
  for (var i = 0u; i < 3u; i++) { y[46u + i] = all.last[i]; }
  y[49] = all.tail;
}
"""


def test_the_layout_is_that_of_the_compiler(run_wgsl: Callable[..., Any]) -> None:
    """Every member, written by the host and read by the shader. WGSL specification, "Memory Layout"."""

    def inner(first: int) -> dict[str, Any]:
        return {"a": first, "v": np.arange(1, 4) + first, "m": np.arange(4, 13).reshape(3, 3) + first}

    value = {
        "n": 1,
        "inner": inner(10),
        "list": [inner(100), inner(200)],
        "wide": {"b": 0.5, "c": 301, "d": (302, -303)},
        "r": np.arange(400, 406).reshape(2, 3),
        "q": np.arange(500, 509).reshape(3, 3),
        "last": (600, 601, 602),
        "tail": 700,
    }
    made = run_wgsl(NESTED, inputs={"all": value}, outputs={"y": 50}, workgroups=1)["y"].tolist()
    expected = [1, *range(10, 23), *range(200, 213), 0.5, 301, 302, -303, *range(400, 406), *range(500, 509)]
    assert made == [*expected, 600, 601, 602, 700]


def test_offsets_and_sizes() -> None:
    module = Module(NESTED)
    layout = layout_of(module, module.globals["all"].type)  # type: ignore[arg-type]
    assert {field.name: field.offset for field in layout.fields} == {
        "n": 0, "inner": 16, "list": 96, "wide": 256, "r": 320, "q": 352, "last": 400, "tail": 412,
    }  # fmt: skip
    assert layout.size == 416
    packed = layout.pack(layout.unpack(np.arange(416, dtype=np.uint32).astype(np.uint8)), "all")
    assert packed.size == 416


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("u32", 1.5, "p: the shader has uint32, the array float64"),
        ("u32", -1, "p: -1 to -1 does not fit uint32"),
        ("vec4<f32>", (1, 2), r"p: vec4<f32> takes an array of \(4,\), not of \(2,\)"),
        ("f32", "x", "p: the shader has float32, the array <U1"),
    ],
)
def test_values_that_do_not_fit_are_named(declared: str, value: Any, message: str) -> None:
    module = Module(f"@group(0) @binding(0) var<uniform> p: {declared};")
    with pytest.raises(LayoutError, match=message):
        layout_of(module, module.globals["p"].type).pack(value, "p")  # type: ignore[arg-type]


def test_members_that_are_missing_or_too_many_are_named() -> None:
    module = Module("struct S { a: u32, b: f32 } @group(0) @binding(0) var<uniform> p: S;")
    layout = layout_of(module, module.globals["p"].type)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"p: b missing; no c here\. It takes a, b"):
        layout.pack({"a": 1, "c": 2}, "p")
    with pytest.raises(LayoutError, match="p: S takes a dict or a structured array, not int"):
        layout.pack(3, "p")
    host = np.array((1, 2.0), [("a", "<u8"), ("b", "<f4")])
    with pytest.raises(LayoutError, match=r"p\.b: the shader reads it at byte 4, the host has it at 8"):
        layout.pack(host, "p")
    with pytest.raises(SyntaxFault, match="bool is no type that the host can share"):
        layout_of(module, tree.Name(0, 0, "bool"))
