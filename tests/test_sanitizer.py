"""The sanitizer: what it finds, what it leaves alone, and the orders under which it looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness_cases import XY, Run, X, elementwise, findings

from gpu_backend.adapter import Adapter
from gpu_backend.testing import CHECKS, SanitizerError
from gpu_backend.testing.instrument import Order


def test_what_was_never_written_is_told_with_indices(run_wgsl: Run) -> None:
    found = findings(run_wgsl, elementwise("y[i] = x[i];", "i < 195u && i != 7u"))
    assert found == {"unwritten": "y: 6 of 200 elements were never written: [7], [195], [196], [197], [198] and 1 more"}


def test_a_kernel_may_write_the_poison_itself(run_wgsl: Run) -> None:
    """NaN is a value like others: two runs with two poisons tell what was written."""
    source = elementwise("y[i] = bitcast<f32>(0x7fd17fd1u);", "i < arrayLength(&y) && x[0] == x[0]")
    result = run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200)
    assert np.isnan(result["y"]).all()


def test_stores_behind_the_end_are_told_with_binding_and_offset(run_wgsl: Run) -> None:
    message = findings(run_wgsl, elementwise("y[i] = x[i]; if (i == 3u) { y[i + 210u] = 1.0; }"))["past_end"]
    assert message.startswith("y was written past its end: shape (200,), 800 bytes; first at element 213 (byte 85")


def test_reads_behind_the_end_that_matter_name_the_input(run_wgsl: Run) -> None:
    found = findings(run_wgsl, elementwise("y[i] = x[i] + x[i + 1u];"))
    assert found == {"read_past_end": "y depends on what lies behind the end of x (shape (200,)), at [199]"}
    source = elementwise("let unused = x[i + 1u]; y[i] = select(unused, x[i], i < 200u);")
    run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, size=200)  # reads it, and does not care


def test_outputs_that_are_read_before_they_are_written(run_wgsl: Run) -> None:
    assert "stale" in findings(run_wgsl, elementwise("y[i] = y[i] + x[i];"))
    made = run_wgsl(elementwise("y[i] = y[i] + x[i];"), inputs={"x": X}, outputs={"y": X}, size=200)
    np.testing.assert_array_equal(made["y"], 2 * X)


def test_inputs_that_change(run_wgsl: Run) -> None:
    source = elementwise("x[i] = 3.0; y[i] = x[i];").replace("var<storage, read> x", "var<storage, read_write> x")
    assert "x was given as an input and changed at [0], [1], [3]" in findings(run_wgsl, source)["input"]


def test_a_result_that_hangs_on_the_order_of_workgroups(run_wgsl: Run) -> None:
    x = np.arange(6400, dtype=np.float32)
    source = elementwise("y[i % 64u] = x[i];", "i < arrayLength(&x)")
    message = findings(run_wgsl, source, inputs={"x": x}, outputs={"y": 64}, size=6400)["group_order"]
    assert "depends on the order of the workgroups" in message


def test_a_result_that_hangs_on_the_order_of_invocations(run_wgsl: Run) -> None:
    source = XY + (
        "var<workgroup> last: u32;\n@compute @workgroup_size(64)\n"
        "fn main(@builtin(local_invocation_index) lane: u32) {\n"
        "  last = lane;\n  workgroupBarrier();\n  y[lane] = f32(last) + x[lane];\n}\n"
    )
    found = findings(run_wgsl, source, outputs={"y": 64}, size=None, workgroups=1)
    assert "the invocations of a workgroup (reversed)" in found["lane_order"]


def test_another_workgroup_size(run_wgsl: Run) -> None:
    source = "override WIDTH: u32 = 32u;\n" + elementwise("y[i] = f32(WIDTH) + 0.0 * x[i];").replace(
        "size(64)", "size(WIDTH)"
    )
    found = findings(run_wgsl, source)
    assert "y is another with WIDTH = 16 instead of 32: 32.0 and 16.0" in found["workgroup_size"]
    run_wgsl(source, inputs={"x": X}, outputs={"y": 200}, workgroups=7)  # as many groups as are said: nothing to vary
    found = findings(run_wgsl, source, size=None, workgroups=lambda extent: -(-200 // extent[0]))
    assert set(found) == {"workgroup_size"}


def test_what_is_allowed_is_no_finding(run_wgsl: Run) -> None:
    x = np.arange(6400, dtype=np.float32)
    source = elementwise("y[i % 64u] = x[i];", "i < arrayLength(&x)")
    arguments: Any = {"inputs": {"x": x}, "outputs": {"y": 64}, "size": 6400}
    with pytest.raises(SanitizerError, match=r"if that is meant: allow=\(.*'group_order'"):
        run_wgsl(source, **arguments)
    run_wgsl(source, **arguments, allow=("repeat",))  # what is not repeated has no order to compare
    with pytest.raises(ValueError, match=r"allow: no check order; there are unwritten, past_end"):
        run_wgsl(source, **arguments, allow=("order",))
    assert set(CHECKS) >= {"group_order", "repeat"}


IDS = {
    "global": ("@builtin(global_invocation_id) id: vec3<u32>,", "id"),
    "group and local": (
        "@builtin(workgroup_id) g: vec3<u32>, // a comment, with a comma\n@builtin(local_invocation_id) l: vec3<u32>\n",
        "g * vec3<u32>(4u, 2u, 1u) + l",
    ),
    "index": (
        "@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) k: u32",
        "g * vec3<u32>(4u, 2u, 1u) + vec3<u32>(k % 4u, k / 4u, 0u)",
    ),
    "struct": ("ids: Ids", "ids.whole"),
    "struct and more": ("ids: Ids, @builtin(num_workgroups) n: vec3<u32>", "ids.whole + 0u * n"),
}


@pytest.mark.parametrize("name", IDS)
def test_every_way_to_know_where_one_is(name: str, run_wgsl: Run) -> None:
    """Rewritten for every order, an invocation still does its own work, and all of the work is done."""
    parameters, place = IDS[name]
    source = XY + (
        "struct Ids { @builtin(global_invocation_id) whole: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>, }\n"
        f"@compute @workgroup_size(4, 2)\nfn main({parameters}) {{\n  let p = {place};\n"
        "  if (p.x >= 9u || p.y >= 7u) { return; }\n  let i = p.y * 9u + p.x;\n  y[i] = x[i] + f32(i);\n}\n"
    )
    x = np.ones((7, 9), np.float32)
    made = run_wgsl(source, inputs={"x": x}, outputs={"y": (7, 9)}, size=(9, 7))["y"]
    np.testing.assert_array_equal(made, x + np.arange(63).reshape(7, 9))


def test_orders_are_permutations() -> None:
    for count in (1, 2, 3, 4, 5, 7, 16, 100, 1001):
        for a, b in (Order.reversed(count), Order.shuffled(count)):
            assert sorted((a * i + b) % count for i in range(count)) == list(range(count))
    assert [(a * i + b) % 4 for i in range(4) for a, b in [Order.reversed(4)]] == [3, 2, 1, 0]


@pytest.mark.parametrize("order", [Order(), Order(groups=Order.reversed(12)), Order(lanes=Order.reversed(8))])
def test_the_order_is_the_one_that_was_asked_for(order: Order, run_wgsl: Run, wgsl_adapter: Adapter) -> None:
    """Each invocation writes down, at its raw place, who it was told to be."""
    del run_wgsl
    from gpu_backend.testing.run import prepare

    source = (
        "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
        "@compute @workgroup_size(4, 2)\n"
        "fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) k: u32) {\n"
        "  if (arrayLength(&y) > 0u) { y[(g.y * 3u + g.x) * 8u + k] = harness_raw; }\n}\n"
    )
    raw = "(harness_raw_g.y * 3u + harness_raw_g.x) * 8u + harness_raw_k"
    dispatch = prepare(source.replace("harness_raw;", "k;"), outputs={"y": 96}, workgroups=(3, 4), adapter=wgsl_adapter)
    from dataclasses import replace

    from gpu_backend.testing.instrument import instrument

    made = instrument(dispatch.source, "main", dispatch.bindings)
    text = replace(made.source.text, whole=made.source.text.whole.replace("8u + k] = k;", f"8u + k] = {raw};"))
    told = replace(made.source, text=text)
    from gpu_backend.testing.runner import Bench

    with Bench(dispatch.runner) as bench:
        bench.create("y", 4096, is_uniform=False)
        bench.create(made.control.name, made.nbytes, is_uniform=True)
        bench.write(made.control.name, made.content({"y": 96}, order))
        bindings = [*dispatch.bindings, made.control]
        program = dispatch.runner.program(told, "main", bindings, {})
        contents, _ = bench.dispatch(program, bindings, (3, 4, 1), ["y"])
    raw_of = contents["y"].view(np.uint32)[:96]  # by the place that was told, the raw place
    a, b = order.groups
    c, d = order.lanes
    for raw_place in range(96):
        group, lane = divmod(raw_place, 8)
        told_place = (a * group + b) % 12 * 8 + (c * lane + d) % 8
        assert raw_of[told_place] == raw_place


def test_pointers_of_one_name_tell_each_its_own_length(run_wgsl: Run) -> None:
    source = XY + (
        "@compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        "  var n = 0u; { let p = &y; n = arrayLength(p); } { let p = &x; n += 100u * arrayLength(p); }\n"
        "  if (id.x < arrayLength(&y)) { y[id.x] = f32(n); }\n}\n"
    )
    made = run_wgsl(source, inputs={"x": X[:3]}, outputs={"y": 10}, size=10)["y"]
    np.testing.assert_array_equal(made, np.full(10, 310))


@pytest.mark.parametrize("elem", ["f32", "i32", "u32"])
@pytest.mark.parametrize("combine", ["min", "max"])
def test_minima_and_maxima_with_what_was_there(run_wgsl: Run, combine: str, elem: str) -> None:
    x = np.arange(1, 65)
    source = elementwise(f"y[i] = {combine}(y[i], x[i]);").replace("f32", elem)
    given = {"inputs": {"x": x}, "outputs": {"y": 64}, "size": 64}
    assert "stale" in findings(run_wgsl, source, **given)
    tail = XY.replace("f32", elem) + (
        f"var<workgroup> s: array<{elem}, 64>;\n@compute @workgroup_size(64)\n"
        "fn main(@builtin(local_invocation_index) lane: u32) {\n  s[lane] = x[lane];\n  workgroupBarrier();\n"
        "  for (var w = 32u; w > 0u; w /= 2u) {\n"
        f"    if (lane < w) {{ s[lane] = {combine}(s[lane], s[lane + w]); }}\n    workgroupBarrier();\n  }}\n"
        "  if (lane == 0u) { y[0] = s[0]; }\n}\n"
    )
    given = {"inputs": {"x": x[:40]}, "outputs": {"y": 1}, "size": None, "workgroups": 1}
    assert "read_past_end" in findings(run_wgsl, tail, **given)


def test_names_that_look_like_subgroups_change_nothing(run_wgsl: Run) -> None:
    source = elementwise("quads[i] = quads[(i + 199u) % 200u] + x[i];").replace("(&y)", "(&quads)")
    source = source.replace("read_write> y", "read_write> quads")
    with pytest.raises(SanitizerError) as raised:
        run_wgsl(source, inputs={"x": X}, outputs={"quads": X}, size=200)
    assert {finding.check for finding in raised.value.findings} & {"group_order", "lane_order", "repeat"}


def test_stores_far_behind_a_small_buffer(run_wgsl: Run) -> None:
    assert "past_end" in findings(run_wgsl, elementwise("y[i] = x[i]; if (i == 0u) { y[9000] = 1.0; }"))


def test_a_length_that_hangs_on_the_workgroup_size_is_told_as_that(run_wgsl: Run) -> None:
    source = (
        "override W: u32 = 64u;\n"
        + XY
        + (
            "@compute @workgroup_size(W)\n"
            "fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
            "  if (lane == 0u) { y[g.x] = x[g.x * W]; }\n}\n"
        )
    )
    assert set(findings(run_wgsl, source, outputs={"y": 4})) == {"workgroup_size"}
