"""A reduction: one workgroup makes one element, so ``workgroups`` says how many, by the size of a workgroup."""

import numpy as np
import pytest

from gpu_backend.testing import assert_close


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("workgroup", [64, 128])
def test_block_sums(run_wgsl, size, workgroup):
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    blocks = -(-size // workgroup)
    result = run_wgsl(
        "sum.wgsl",
        inputs={"x": x},
        outputs={"sums": blocks, "blocks": np.uint32(0)},
        overrides={"WORKGROUP": workgroup},
        workgroups=blocks,
    )
    padded = np.pad(x, (0, blocks * workgroup - size)).astype(np.float64)
    assert_close(result["sums"], padded.reshape(blocks, workgroup).sum(axis=1), atol=1e-5)
    assert result["blocks"] == blocks
