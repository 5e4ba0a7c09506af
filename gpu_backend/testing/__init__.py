"""Tests of compute shaders: run WGSL on numpy arrays, compare, look for faults that no value shows.

    from gpu_backend.testing import assert_close, run_wgsl

    result = run_wgsl("saxpy.wgsl", inputs={"x": x}, outputs={"y": y}, params={"n": x.size, "a": 2.0}, size=x.size)
    assert_close(result["y"], 2.0 * x + y)

The same is a pytest plugin, loaded by itself where ``shadertape`` is installed; see ``docs/testing-shaders.md``.
"""

from __future__ import annotations

from ..syntax.layout import LayoutError as LayoutError
from .check import check_wgsl as check_wgsl
from .closeness import assert_close as assert_close
from .closeness import ulp_distance as ulp_distance
from .run import Result as Result
from .run import run_wgsl as run_wgsl
from .sanitizer import CHECKS as CHECKS
from .sanitizer import Finding as Finding
from .sanitizer import SanitizerError as SanitizerError
