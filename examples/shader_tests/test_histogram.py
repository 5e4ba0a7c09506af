"""Atomics: whole numbers, so the order of the workgroups does not matter, and the sanitizer agrees."""

import numpy as np


def test_histogram(run_wgsl):
    values = np.random.default_rng(0).integers(0, 300, 5000).astype(np.uint32)
    zeros = np.zeros(256, np.uint32)
    result = run_wgsl("histogram.wgsl", inputs={"values": values}, outputs={"counts": zeros}, size=5000)
    np.testing.assert_array_equal(result["counts"], np.bincount(values, minlength=300)[:256])
