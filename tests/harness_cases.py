"""What tests of ``run_wgsl`` have in common: elementwise shaders, and the findings of the sanitizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu_backend.testing import SanitizerError

Run = Callable[..., Any]
XY = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
"""
X = np.arange(1.0, 201.0, dtype=np.float32)


def elementwise(expression: str, guard: str = "id.x < arrayLength(&y)") -> str:
    return XY + (
        "@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        f"  let i = id.x;\n  if ({guard}) {{ {expression} }}\n}}\n"
    )


def findings(run: Run, source: str, **arguments: Any) -> dict[str, str]:
    """What the sanitizer finds, by check."""
    with pytest.raises(SanitizerError) as raised:
        run(source, **{"inputs": {"x": X}, "outputs": {"y": X.size}, "size": X.size, **arguments})
    return {finding.check: finding.message for finding in raised.value.findings}
