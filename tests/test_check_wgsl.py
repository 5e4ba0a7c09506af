"""check_wgsl: each rule on a text that breaks it, and none on kernels as good engineers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_backend import ShaderError
from gpu_backend.testing import check_wgsl
from gpu_backend.testing.compilers import reflect_library, tint_is_missing
from gpu_backend.testing.lint import RULES

XY = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
"""
LANE = "@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>"


def body(statements: str, declarations: str = "") -> str:
    """An entry point of 64 invocations with ``lane`` and ``group``."""
    return f"{XY}{declarations}\n@compute @workgroup_size(64)\nfn main({LANE}) {{\n{statements}\n}}\n"


GUARDED = "let i = group.x * 64u + lane; if (i < arrayLength(&y)) { y[i] = x[i]; }\n"
TILE = "var<workgroup> tile: array<f32, 64>;\n"

FAULTS = {
    "barrier in a branch": ("non-uniform-barrier", body(f"if (lane < 3u) {{ workgroupBarrier(); }} {GUARDED}")),
    "barrier after a return": (
        "non-uniform-barrier",
        body(f"if (x[lane] > 0.0 && lane > 2u) {{ return; }} workgroupBarrier(); {GUARDED}"),
    ),
    "barrier in a helper": (
        "non-uniform-barrier",
        body(f"if (lane == 0u) {{ wait(); }} {GUARDED}", "fn wait() { workgroupBarrier(); }"),
    ),
    "barrier in a loop of different lengths": (
        "non-uniform-barrier",
        body(f"for (var k = 0u; k < lane; k++) {{ workgroupBarrier(); }} {GUARDED}"),
    ),
    "barrier after a break of some": (
        "non-uniform-barrier",
        body(f"loop {{ if (lane > 3u) {{ break; }} workgroupBarrier(); break; }} {GUARDED}"),
    ),
    "barrier in a helper, after a return": (
        "non-uniform-barrier",
        body(f"if (lane > 2u) {{ return; }} wait(); {GUARDED}", "fn wait() { workgroupBarrier(); }"),
    ),
    "barrier behind &&": (
        "non-uniform-barrier",
        body(f"if (lane < 3u && wait()) {{ }} {GUARDED}", "fn wait() -> bool { workgroupBarrier(); return true; }"),
    ),
    "barrier by a member behind a pointer": (
        "non-uniform-barrier",
        body(f"var k: S; k.a = lane; let q = &k; if ((*q).a < 3u) {{ workgroupBarrier(); }} {GUARDED}",
             "struct S { a: u32 }"),
    ),
    "atomics without a barrier after the zeros": (
        "missing-barrier",
        body("atomicStore(&h[lane], 0u); atomicAdd(&h[u32(x[lane]) % 64u], 1u); workgroupBarrier();"
             "if (lane < arrayLength(&y)) { y[lane] = f32(atomicLoad(&h[lane])); }",
             "var<workgroup> h: array<atomic<u32>, 64>;\n"),
    ),
    "atomics without a barrier before the sums": (
        "missing-barrier",
        body("atomicStore(&h[lane], 0u); workgroupBarrier(); atomicAdd(&h[u32(x[lane]) % 64u], 1u);"
             "if (lane < arrayLength(&y)) { y[lane] = f32(atomicLoad(&h[lane])); }",
             "var<workgroup> h: array<atomic<u32>, 64>;\n"),
    ),
    "barrier by a value read back": (
        "non-uniform-barrier",
        body(f"let v = y[0]; if (v > 1.0) {{ workgroupBarrier(); }} {GUARDED}"),
    ),
    "barrier through a variable": (
        "non-uniform-barrier",
        body(f"var n = 1u; n = lane / 2u; if (n == 1u) {{ storageBarrier(); }} {GUARDED}"),
    ),
    "barrier through a pointer": (
        "non-uniform-barrier",
        body(
            f"var n = 1u; put(&n, lane); if (n == 1u) {{ workgroupBarrier(); }} {GUARDED}",
            "fn put(p: ptr<function, u32>, v: u32) { *p = v; }",
        ),
    ),
    "no barrier before a read": (
        "missing-barrier",
        body("tile[lane] = x[lane]; if (lane < 63u) { y[lane] = tile[lane + 1u]; }", TILE),
    ),
    "no barrier around a loop": (
        "missing-barrier",
        body("tile[lane] = x[lane]; workgroupBarrier(); for (var w = 32u; w > 0u; w /= 2u) "
             "{ if (lane < w) { tile[lane] += tile[lane + w]; } } if (lane == 0u) { y[group.x] = tile[0]; }", TILE),
    ),
    "no barrier after one lane's write": (
        "missing-barrier",
        body("if (lane == 0u) { tile[0] = x[0]; } if (lane < 8u) { y[lane] = tile[0]; }", TILE),
    ),
    "memory that nobody set": ("workgroup-read-before-write", body("if (lane == 0u) { y[0] = tile[0]; }", TILE)),
    "an atomic that nobody set": (
        "workgroup-read-before-write",
        body("atomicAdd(&sum, 1u); workgroupBarrier(); if (lane == 0u) { y[0] = f32(atomicLoad(&sum)); }",
             "var<workgroup> sum: atomic<u32>;\n"),
    ),
    "a store under no condition": ("unguarded-write", body("y[group.x * 64u + lane] = x[0];")),
    "a store by a helper": (
        "unguarded-write",
        body("put(lane);", "fn put(i: u32) { y[i] = 1.0; }"),
    ),
    "an atomic under no condition": (
        "unguarded-write",
        body(f"atomicAdd(&counts[lane], 1u); {GUARDED}",
             "@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;\n"),
    ),
    "a binding of nobody": (
        "unused-binding", body(GUARDED, "@group(0) @binding(7) var<storage, read> spare: array<f32>;\n")
    ),
    "nine storage buffers": (
        "default-limits",
        body(GUARDED + "".join(f"_ = b{n}[0];" for n in range(7)),
             "".join(f"@group(0) @binding({n + 2}) var<storage, read> b{n}: array<f32>;\n" for n in range(7))),
    ),
    "too much workgroup memory": (
        "default-limits",
        body("big[lane] = 1.0; workgroupBarrier(); if (lane == 0u) { y[0] = big[63]; }",
             "var<workgroup> big: array<f32, 4097>;\n"),
    ),
    "too many by an override": (
        "default-limits",
        "override T: u32 = 32u;\n" + body(GUARDED).replace("workgroup_size(64)", "workgroup_size(T, T)"),
    ),
    "too many in z": ("default-limits", body(GUARDED).replace("workgroup_size(64)", "workgroup_size(1, 1, 65)")),
    "vec3 in a struct": (
        "vec3-in-host-struct",
        body(GUARDED + "_ = p.v;", "struct P { v: vec3<f32>, n: u32 }\n@group(0) @binding(2) var<uniform> p: P;\n"),
    ),
    "vec3 in an array": (
        "vec3-in-host-struct",
        body(GUARDED + "_ = p[0];", "@group(0) @binding(2) var<storage, read> p: array<vec3f>;\n"),
    ),
    "signed remainder": ("signed-remainder", body(GUARDED + "let k = i32(lane) - 3; _ = k % 4;")),
    "signed remainder of a vector": ("signed-remainder", body(GUARDED + "var k = vec2<i32>(1, 2); k = k % vec2(3);")),
    "signed remainder, assigned": ("signed-remainder", body(GUARDED + "var k = -3; k %= 2;")),
    "nan comparison": ("nan-comparison", body(GUARDED.replace("= x[i]", "= select(x[i], 0.0, x[i] != x[i])"))),
    "tanh without bounds": ("unbounded-exponential", body(GUARDED.replace("= x[i]", "= tanh(3.0 * x[i])"))),
    "a sum in f16 by fma": (
        "f16-accumulation",
        "enable f16;\n"
        + body(GUARDED + "var s = 0.0h; for (var k = 0u; k < 9u; k++) { s = fma(1h, f16(x[k]), s); } _ = s;"),
    ),
    "a sum in f16": (
        "f16-accumulation",
        "enable f16;\n" + body(GUARDED + "var s = 0.0h; for (var k = 0u; k < 9u; k++) { s = s + f16(x[k]); } _ = s;"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_rule_finds_its_fault(name: str) -> None:
    rule, source = FAULTS[name]
    found = {finding.rule: finding for finding in check_wgsl(source)}
    assert rule in found
    assert found[rule].message
    assert found[rule].excerpt.count("\n") >= 2


GOOD = {
    "tiled matrix product": """
struct Params { M: u32, N: u32, K: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
const T = 8u;
var<workgroup> left: array<array<f32, 8>, 8>;
var<workgroup> right: array<array<f32, 8>, 8>;
@compute @workgroup_size(T, T)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) l: vec3<u32>) {
  var sum = 0.0;
  for (var k = 0u; k < p.K; k += T) {
    left[l.y][l.x] = select(0.0, a[id.y * p.K + k + l.x], id.y < p.M && k + l.x < p.K);
    right[l.y][l.x] = select(0.0, b[(k + l.y) * p.N + id.x], id.x < p.N && k + l.y < p.K);
    workgroupBarrier();
    for (var j = 0u; j < T; j++) { sum += left[l.y][j] * right[j][l.x]; }
    workgroupBarrier();
  }
  if (id.y < p.M && id.x < p.N) { c[id.y * p.N + id.x] = sum; }
}
""",
    "prefix sum with two buffers": body(
        "let i = group.x * 64u + lane; var source = 0u;\n"
        "tiles[lane] = select(0.0, x[min(i, arrayLength(&x) - 1u)], i < arrayLength(&x)); workgroupBarrier();\n"
        "for (var step = 1u; step < 64u; step *= 2u) {\n"
        "  let base = source * 64u; var v = tiles[base + lane];\n"
        "  if (lane >= step) { v += tiles[base + lane - step]; }\n"
        "  source = 1u - source; tiles[source * 64u + lane] = v; workgroupBarrier();\n"
        "}\nif (i < arrayLength(&y)) { y[i] = tiles[source * 64u + lane]; }",
        "var<workgroup> tiles: array<f32, 128>;\n",
    ),
    "bitonic sort": body(
        "tile[lane] = x[lane]; workgroupBarrier();\n"
        "for (var k = 2u; k <= 64u; k *= 2u) { for (var j = k / 2u; j > 0u; j /= 2u) {\n"
        "  let other = lane ^ j;\n  if (other > lane) {\n"
        "    let up = (lane & k) == 0u; let a = tile[lane]; let b = tile[other];\n"
        "    if ((a > b) == up) { tile[lane] = b; tile[other] = a; }\n  }\n  workgroupBarrier();\n} }\n"
        "if (lane < arrayLength(&y)) { y[lane] = tile[lane]; }",
        TILE,
    ),
    "grid-stride loop": """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
override W: u32 = 64u;
@compute @workgroup_size(W)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
  for (var i = id.x; i < arrayLength(&y); i += n.x * W) { y[i] = f32(i); }
}
""",
    "early return of whole workgroups": body(
        "if (group.x * 64u >= arrayLength(&x)) { return; }\n"
        "tile[lane] = x[min(group.x * 64u + lane, arrayLength(&x) - 1u)]; workgroupBarrier();\n"
        "if (lane == 0u) { y[group.x] = tile[63]; }",
        TILE,
    ),
    "broadcast with workgroupUniformLoad": body(
        "if (lane == 0u) { pick = u32(x[0]); }\nlet n = workgroupUniformLoad(&pick);\n"
        "if (n > 3u) { workgroupBarrier(); }\nif (lane < arrayLength(&y)) { y[lane] = f32(n); }",
        "var<workgroup> pick: u32;\n",
    ),
    "helper with an early return, before a barrier": body(
        "tile[lane] = pick(lane); workgroupBarrier(); if (lane < arrayLength(&y)) { y[lane] = tile[63u - lane]; }",
        TILE + "fn pick(i: u32) -> f32 { if (i >= arrayLength(&x)) { return 0.0; } return x[i]; }\n",
    ),
    "clamped index": body("y[min(lane, arrayLength(&y) - 1u)] = 1.0; _ = x[0];"),
    "own element, without a barrier": body(
        "tile[lane] = x[min(lane, arrayLength(&x) - 1u)]; tile[lane] *= 2.0;\n"
        "if (lane < arrayLength(&y)) { y[lane] = tile[lane]; }",
        TILE,
    ),
    "two own elements, without a barrier": body(
        "tile[2u * lane] = x[0]; tile[2u * lane + 1u] = x[1];\n"
        "if (lane < arrayLength(&y)) { y[lane] = tile[2u * lane]; }",
        "var<workgroup> tile: array<f32, 128>;\n",
    ),
    "pointer to workgroup memory": body(
        "let p = &tile; (*p)[lane] = x[min(lane, arrayLength(&x) - 1u)]; workgroupBarrier();\n"
        "if (lane == 0u) { y[0] = (*p)[3]; }",
        TILE,
    ),
    "unsigned remainder, and a whole one": body("let i = lane % 7u; if (i < arrayLength(&y)) { y[i] = x[i] % 2.0; }"),
    "vec3 by itself": body(GUARDED + "_ = p;", "@group(0) @binding(2) var<uniform> p: vec3<f32>;\n"),
    "a component of one's own vector": body(
        "t[lane] = vec4<f32>(x[0]); t[lane].x += 2.0; if (lane < arrayLength(&y)) { y[lane] = t[lane].y; }",
        "var<workgroup> t: array<vec4<f32>, 64>;\n",
    ),
    "a scan that swaps": body(
        "tile[lane] = x[min(lane, arrayLength(&x) - 1u)];\nfor (var d = 1u; d < 64u; d *= 2u) {\n workgroupBarrier();\n"
        " if (lane < 32u / d) { let a = d * (2u * lane + 1u) - 1u; let b = a + d;\n"
        "  let v = tile[a]; tile[a] = tile[b]; tile[b] += v; }\n}\nworkgroupBarrier();\n"
        "if (lane < arrayLength(&y)) { y[lane] = tile[lane]; }",
        TILE,
    ),
    "a histogram of fixed length": body(
        "atomicAdd(&h[lane], 1u); if (lane < arrayLength(&y)) { y[lane] = x[lane]; }",
        "@group(0) @binding(2) var<storage, read_write> h: array<atomic<u32>, 64>;\n",
    ),
    "tanh of products of what is bounded": body(
        GUARDED.replace(
            "y[i] = x[i];", "var c = clamp(x[i], -9.0, 9.0); y[i] = tanh(-0.5 * c) + tanh(select(0.0, c, i > 3u));"
        )
    ),
    "tanh of what is bounded before": body(
        GUARDED.replace("y[i] = x[i];", "let c = clamp(x[i], -15.0, 15.0); y[i] = tanh(c);")
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_kernels_are_left_alone(name: str) -> None:
    assert not check_wgsl(GOOD[name])


def test_findings_name_file_line_and_reader(tmp_path: Path) -> None:
    (tmp_path / "lib.wgsl").write_text("// a library\nfn odd(k: i32) -> i32 { return k % 2; }\n")
    (tmp_path / "k.wgsl").write_text("// uses: lib\n" + body(GUARDED + "_ = odd(3);"))
    (found,) = check_wgsl(tmp_path / "k.wgsl", prelude="const A = 1;\n")
    assert (found.rule, found.file, found.line, found.by) == ("signed-remainder", "lib", 2, "rules")
    assert "> lib:2" in found.excerpt
    assert str(found).startswith("lib:2: [signed-remainder] signed remainder: k % 2 (rules)\n")


def test_what_is_no_wgsl_is_told_by_the_compilers() -> None:
    found = check_wgsl(body(GUARDED + "let a = ;"))
    assert {finding.rule for finding in found} == {"syntax"}
    assert {finding.by for finding in found} == ({"naga"} if tint_is_missing() else {"naga", "tint"})
    assert all(finding.line == 8 for finding in found)
    found = check_wgsl(body(GUARDED + "let a: u32 = 1.5;"))
    assert "naga" in {finding.by for finding in found}
    assert all(finding.line == 8 for finding in found)


@pytest.mark.parametrize(
    "text",
    [
        "alias a = b; alias b = a; @group(0) @binding(0) var<storage> x: a; @compute @workgroup_size(1) fn m() {_=x;}",
        "const A = B; const B = A; @compute @workgroup_size(A) fn main() {}",
        "@compute fn main() {}",
        "@compute @workgroup_size() fn main() {}",
        "@group(0) @binding() var<storage> x: array<f32>; @compute @workgroup_size(1) fn main() { _ = x[0]; }",
        "@group(0) @binding(0) var<storage> x: array; @compute @workgroup_size(1) fn main() { _ = x[0]; }",
        "@compute @workgroup_size(1/0) fn main() {}",
        "const A = 1 << 100000000000; @compute @workgroup_size(A) fn main() {}",
    ],
)
def test_nonsense_is_a_finding(text: str) -> None:
    assert "syntax" in {finding.rule for finding in check_wgsl(text)}


def test_arguments_of_check_wgsl_are_checked() -> None:
    with pytest.raises(ShaderError, match="no override W; there are none"):
        check_wgsl(body(GUARDED), overrides={"W": 3})
    if reflect_library():
        with pytest.raises(TypeError, match="example: run_wgsl takes no foo here"):
            check_wgsl(body(GUARDED), example={"foo": 1})


@pytest.mark.skipif(bool(tint_is_missing()), reason=tint_is_missing() or "")
def test_tint_finds_what_naga_does_not() -> None:
    rule, source = FAULTS["barrier in a branch"]
    by = {finding.by for finding in check_wgsl(source, allow=[rule])}
    assert by == {"tint"}


def test_rules_are_left_out_by_argument_and_by_comment() -> None:
    source = body(GUARDED + "\nlet k = -3;\n_ = k % 2;")
    assert len(check_wgsl(source)) == 1
    assert not check_wgsl(source, allow=["signed-remainder"])
    assert not check_wgsl(source.replace("_ = k % 2;", "_ = k % 2; // wgsl-allow: signed-remainder"))
    assert not check_wgsl(source.replace("_ = k", "// wgsl-allow: nan-comparison, signed-remainder\n_ = k"))
    assert check_wgsl(source.replace("_ = k % 2;", "_ = k % 2; // wgsl-allow: nan-comparison"))
    with pytest.raises(ValueError, match="allow: no rule signed; there are syntax, non-uniform-barrier"):
        check_wgsl(source, allow=["signed"])


def test_every_rule_is_tested() -> None:
    assert {rule for rule, _ in FAULTS.values()} | {"syntax", "race"} == set(RULES)
