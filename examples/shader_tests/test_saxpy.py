"""The smallest test, one with hypothesis, and one that measures."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gpu_backend.testing import assert_close, check_wgsl
from gpu_backend.testing.strategies import float_arrays, sizes


def test_saxpy(run_wgsl):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    result = run_wgsl("saxpy.wgsl", inputs={"x": x}, outputs={"y": y}, params={"n": 1000, "a": 2.0}, size=1000)
    assert_close(result["y"], 2.0 * x + y)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=float_arrays(sizes(workgroup=64, max_size=300), bound=1e6))
def test_saxpy_of_any_length(run_wgsl, x):
    arguments = {"inputs": {"x": x}, "outputs": {"y": x}, "params": {"n": x.size, "a": 0.5}, "size": x.size}
    exact = 0.5 * x.astype(np.float64) + x
    # A product below the smallest normal number, 1.2e-38, may be flushed to 0.
    assert_close(run_wgsl("saxpy.wgsl", **arguments)["y"], exact, ulp=2, atol=1.2e-38)


def test_the_shader_passes_the_rules(request):
    assert not check_wgsl("saxpy.wgsl", folder=request.path.parent)


@pytest.mark.parametrize("size", [2**10, 2**16])
def test_saxpy_is_measured_with_wgsl_bench(run_wgsl, size):
    x = np.ones(size, np.float32)
    run_wgsl("saxpy.wgsl", inputs={"x": x}, outputs={"y": x}, params={"n": size, "a": 2.0}, size=size)
