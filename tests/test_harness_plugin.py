"""The pytest plugin, as pytest runs it: fixture, options, ini twins, markers, header, what is checked after a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

import gpu_backend as gb
from gpu_backend.adapter import Adapter

NOWHERE = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json", "GPU_BACKEND_DEVICE": ""}
HEAD = '''
import numpy as np
import pytest
from gpu_backend.testing import assert_close

DOUBLE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= arrayLength(&y)) { return; }
  y[id.x] = 2.0 * x[id.x];
}
"""
LONG = DOUBLE.replace(">= arrayLength", "> arrayLength")
X = np.arange(100, dtype=np.float32)

def double(run_wgsl, source=DOUBLE, **more):
    result = run_wgsl(source, inputs={"x": X}, outputs={"y": 100}, size=100, **more)
    assert_close(result["y"], 2 * X)
    return result
'''
Make = Callable[[str], None]


@pytest.fixture
def suite(pytester: pytest.Pytester, wgsl_adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Writes a test file behind the shaders above. CI is not set, which would change a default."""
    monkeypatch.delenv("CI", raising=False)
    del wgsl_adapter

    def make(body: str) -> None:
        pytester.makepyfile(test_shaders=HEAD + body)

    return make


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)


def test_a_test_in_a_few_lines_and_a_header(pytester: pytest.Pytester, suite: Make, wgsl_adapter: Adapter) -> None:
    suite("def test_double(run_wgsl):\n    assert double(run_wgsl).adapter\n")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    lines = result.outlines
    header = next(line for line in lines if line.startswith("wgsl: "))
    assert wgsl_adapter.summary in header
    assert "features" in header
    assert any("invocations-per-workgroup 256" in line and "sanitizer on" in line for line in lines)


def test_the_sanitizer_is_on_unless_told_otherwise(pytester: pytest.Pytester, suite: Make) -> None:
    suite(
        "def test_long(run_wgsl):\n    double(run_wgsl, LONG)\n"
        "@pytest.mark.wgsl(sanitize=False)\ndef test_marked(run_wgsl):\n    double(run_wgsl, LONG)\n"
        "@pytest.mark.wgsl(allow=['past_end'])\ndef test_allowed(run_wgsl):\n    double(run_wgsl, LONG)\n"
        "def test_argument(run_wgsl):\n    double(run_wgsl, LONG, sanitize=False)\n"
    )
    result = run(pytester)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*y was written past its end: shape (100,), 400 bytes; first at element 100*"])
    run(pytester, "--wgsl-sanitize=off").assert_outcomes(passed=4)
    pytester.makeini("[pytest]\nwgsl_sanitize = off\n")
    run(pytester).assert_outcomes(passed=4)
    run(pytester, "--wgsl-sanitize=on").assert_outcomes(passed=3, failed=1)


def test_a_marker_with_a_wrong_name_is_told(pytester: pytest.Pytester, suite: Make) -> None:
    suite("@pytest.mark.wgsl(sanitise=False)\ndef test_it(run_wgsl):\n    double(run_wgsl)\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*marker wgsl: no sanitise*"])
    suite("@pytest.mark.wgsl(False)\ndef test_it(run_wgsl):\n    double(run_wgsl)\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*marker wgsl: (False,) needs a name*"])


def test_all_adapters_run_each_test_and_the_id_shows_which(pytester: pytest.Pytester, suite: Make) -> None:
    suite("def test_double(run_wgsl):\n    double(run_wgsl)\ndef test_plain():\n    pass\n")
    count = len(gb.adapters())
    result = run(pytester, "--wgsl-adapter=all", "-v")
    result.assert_outcomes(passed=count + 1)
    first = gb.adapters()[0].name.split()[0].lower()
    result.stdout.fnmatch_lines([f"*test_double[[]{first}*PASSED*"])
    name = gb.adapters()[0].name
    run(pytester, f"--wgsl-adapter={name[:5]}", f"--wgsl-adapter={name}").assert_outcomes(passed=3)
    run(pytester, f"--wgsl-adapter={name}").assert_outcomes(passed=2)
    pytester.makeini("[pytest]\nwgsl_adapter = no such adapter\n")
    run(pytester).assert_outcomes(passed=1, skipped=1)
    run(pytester, "--wgsl-adapter=nor this one").assert_outcomes(passed=1, errors=1)
    run(pytester, "--wgsl-adapter=software", "--wgsl-adapter=all").assert_outcomes(passed=count + 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the Vulkan loader can be told to find nothing")
@pytest.mark.parametrize(
    ("options", "environment", "outcome"),
    [
        ((), {}, {"skipped": 1}),
        (("--wgsl-require-adapter",), {}, {"errors": 1}),
        ((), {"CI": "true"}, {"errors": 1}),
    ],
)
def test_without_an_adapter(
    options: tuple[str, ...],
    environment: dict[str, str],
    outcome: dict[str, int],
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Skipped at a desk, an error where it is required, as in CI."""
    monkeypatch.delenv("CI", raising=False)
    for name, value in {**NOWHERE, **environment}.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile(test_shaders=HEAD + "def test_double(run_wgsl):\n    double(run_wgsl)\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs", *options)
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(["wgsl: no adapter", "*no GPU adapter here*"])


def test_markers_skip_what_does_not_fit(pytester: pytest.Pytester, suite: Make, wgsl_adapter: Adapter) -> None:
    suite(
        "@pytest.mark.requires_feature('no-such-feature')\ndef test_feature(run_wgsl):\n    double(run_wgsl)\n"
        "@pytest.mark.software_only\ndef test_software(run_wgsl):\n    double(run_wgsl)\n"
        "@pytest.mark.hardware_only\ndef test_hardware(run_wgsl):\n    double(run_wgsl)\n"
        "@pytest.mark.hardware_only\ndef test_fixture(wgsl_adapter):\n    assert wgsl_adapter.kind == 'hardware'\n"
    )
    result = run(pytester, "-rs", "--strict-markers")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["*has no no-such-feature"])
    other = "hardware" if wgsl_adapter.kind == "software" else "software"
    result.stdout.fnmatch_lines([f"*is {wgsl_adapter.kind}, the test is for {other}"])


def test_buffers_that_stay_fail_the_test(pytester: pytest.Pytester, suite: Make) -> None:
    suite(
        "KEPT = []\n"
        "def keep():\n"
        "    import wgpu\n"
        "    gpu = wgpu.gpu.request_adapter_sync().request_device_sync()\n"
        "    KEPT.append(gpu.create_buffer(size=16, usage=wgpu.BufferUsage.STORAGE))\n"
        "def test_leak(run_wgsl):\n    keep()\n"
        "@pytest.mark.wgsl(leaks=False)\ndef test_meant(run_wgsl):\n    keep()\n"
        "def test_clean(run_wgsl):\n    double(run_wgsl)\n"
    )
    # In a process of its own: garbage of other tests that is collected meanwhile would hide a buffer that stays.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["1 GPU buffer of this test still live after it"])


def test_errors_that_wgpu_only_logs_fail_the_test(pytester: pytest.Pytester, suite: Make) -> None:
    suite(
        "import logging\n"
        "def test_logged(run_wgsl):\n    logging.getLogger('wgpu').error('a validation error, uncaptured')\n"
        "@pytest.mark.wgsl(errors=False)\ndef test_meant(run_wgsl):\n    logging.getLogger('wgpu').error('meant')\n"
    )
    result = run(pytester)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["the device reported, outside any call:", "a validation error, uncaptured"])


def test_a_lost_device_does_not_fail_the_next_test(pytester: pytest.Pytester, suite: Make) -> None:
    suite(
        "from gpu_backend import DeviceLostError\n"
        "from gpu_backend.testing.runner import runner_for\n"
        "from gpu_backend.testing.runner import Bench\n"
        "@pytest.mark.wgsl(errors=False)\n"
        "def test_between_calls(run_wgsl, wgsl_adapter):\n"
        "    double(run_wgsl)\n"
        "    runner_for(wgsl_adapter).gpu.destroy()\n"
        "    double(run_wgsl)\n"
        "@pytest.mark.wgsl(errors=False)\n"
        "def test_on_the_way(run_wgsl, monkeypatch):\n"
        "    def dispatch(self, *rest):\n"
        "        self.runner.gpu.destroy()\n"
        "        return plain(self, *rest)\n"
        "    plain = Bench.dispatch\n"
        "    monkeypatch.setattr(Bench, 'dispatch', dispatch)\n"
        "    with pytest.raises(DeviceLostError, match='was lost; the next call opens a new one'):\n"
        "        double(run_wgsl)\n"
        "def test_next(run_wgsl):\n    double(run_wgsl)\n"
    )
    run(pytester).assert_outcomes(passed=3)


def test_a_broken_shader_shows_its_lines(pytester: pytest.Pytester, suite: Make) -> None:
    suite("def test_broken(run_wgsl):\n    double(run_wgsl, DOUBLE.replace('2.0 * x', '2.0 * z'))\n")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no definition in scope for identifier: `z`*", "*> shader:7 *y[[]id.x] = 2.0 * z*"])


def test_paths_are_looked_for_beside_the_test(pytester: pytest.Pytester, suite: Make) -> None:
    suite("def test_file(run_wgsl):\n    double(run_wgsl, 'shaders/double.wgsl')\n")
    folder = pytester.mkdir("shaders")
    source = HEAD.split('"""')[1]
    (folder / "double.wgsl").write_text(source)
    run(pytester, str(pytester.path / "test_shaders.py")).assert_outcomes(passed=1)


def test_bench_measures_gpu_time(
    pytester: pytest.Pytester, suite: Make, wgsl_adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # pytest-benchmark measures nothing there
    suite(
        "def test_double(run_wgsl):\n    double(run_wgsl)\n    double(run_wgsl)\ndef test_none(run_wgsl):\n    pass\n"
    )
    result = run(pytester, "--wgsl-bench", "--benchmark-json=out.json", "-W", "error")
    result.assert_outcomes(passed=2)
    import json

    measured = json.loads((pytester.path / "out.json").read_text())["benchmarks"]
    assert [one["name"] for one in measured] == ["test_double"]
    assert measured[0]["extra_info"]["clock"] == ("gpu" if "timestamp-query" in wgsl_adapter.features else "wall")
    assert 0 < measured[0]["stats"]["median"] < 0.1
    assert measured[0]["stats"]["rounds"] == 50


def test_it_works_under_xdist(pytester: pytest.Pytester, suite: Make) -> None:
    suite("@pytest.mark.parametrize('n', range(4))\ndef test_double(run_wgsl, n):\n    double(run_wgsl)\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    result.assert_outcomes(passed=4)
    assert sum(line.startswith("wgsl: limits") for line in result.outlines) == 1


def test_wgpu_is_imported_only_for_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_it():\n    assert 'wgpu' not in sys.modules\n")
    environment = {**os.environ}
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert not any(line.startswith("wgsl:") for line in result.outlines)
    assert environment == dict(os.environ)
