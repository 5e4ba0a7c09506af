"""Kernels that move elements between regions, pad, and cut triangles, against numpy."""

from __future__ import annotations

import numpy as np
from kernel_cases import RNG, Run, items, kernel, normal

WORD = 2**32


@kernel("region.forward")
def region(run: Run) -> None:
    x = RNG.integers(0, WORD, (5, 7), dtype=np.uint32)
    expected = np.zeros((4, 9), np.uint32)
    expected[1:4, 8:0:-2] = x[4:1:-1, 1:5]
    made = run(
        "region",
        inputs={"x": x},
        outputs={"y": np.zeros((4, 9), np.uint32)},
        params={
            "shape": [4, 3, *[1] * 6],
            "x_strides": [1, WORD - 7, *[0] * 6],
            "y_strides": [WORD - 2, 9, *[0] * 6],
            "size": 12,
            "rank": 2,
            "x_offset": 4 * 7 + 1,
            "y_offset": 9 + 8,
        },
        workgroups=items(12),
    )
    np.testing.assert_array_equal(made["y"], expected)


@kernel("pad.forward", "pad.backward")
def pad(run: Run, entry: str) -> None:
    for mode, numpy_mode in (("reflect", "reflect"), ("replicate", "edge")):
        x = normal(3, 5, 4)
        index = np.pad(np.arange(5), (4, 2), numpy_mode)
        dy = normal(3, 11, 4)
        dx = np.zeros((3, 5, 4))
        np.add.at(dx, (slice(None), index), dy.astype(np.float64))
        size = 3 * (11 if entry == "forward" else 5) * 4
        made = run(
            "pad",
            entry=entry,
            inputs={"x": x.view(np.uint32)} if entry == "forward" else {"dy": dy},
            outputs={"y": (3, 11, 4)} if entry == "forward" else {"dx": (3, 5, 4)},
            params={"size": size, "length": 5, "inner": 4, "before": 4, "after": 2},
            overrides={"reflects": mode == "reflect"},
            workgroups=items(size),
        )
        if entry == "forward":
            np.testing.assert_array_equal(made["y"].view(np.float32), x[:, index])
        else:
            np.testing.assert_allclose(made["dx"], dx, rtol=1e-5, atol=1e-6)


@kernel("triangle.forward")
def triangle(run: Run) -> None:
    x = RNG.integers(1, WORD, (3, 7, 5), dtype=np.uint32)
    for diagonal in (-9, -2, 0, 3, 9):
        for upper, cut in ((False, np.tril), (True, np.triu)):
            made = run(
                "triangle",
                inputs={"x": x},
                outputs={"y": x.shape},
                params={"size": x.size, "rows": 7, "cols": 5, "diagonal": diagonal},
                overrides={"upper": upper},
                workgroups=items(x.size),
            )
            np.testing.assert_array_equal(made["y"], cut(x, diagonal))
