"""Two dimensions, pixels of four numbers, and a border."""

import numpy as np
import pytest

from gpu_backend.testing import assert_close


@pytest.mark.parametrize(("height", "width"), [(1, 1), (8, 8), (7, 9), (30, 17)])
def test_blur(run_wgsl, height, width):
    image = np.random.default_rng(0).random((height, width, 4), np.float32)
    result = run_wgsl(
        "blur.wgsl",
        inputs={"image": image},
        outputs={"blurred": (height, width, 4)},
        params={"width": width, "height": height},
        size=(width, height),
    )
    padded = np.pad(image.astype(np.float64), ((1, 1), (1, 1), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    assert_close(result["blurred"], windows.mean(axis=(-2, -1)), ulp=8)
