"""Kernels of matrix products, against float64."""

from __future__ import annotations

import numpy as np
from kernel_cases import Run, kernel, normal

from gpu_backend.testing import assert_close

ACTIVATIONS = [f"fn activate(x: f32) -> f32 {{ return {name}_value(x); }}\n" for name in ("identity", "relu", "tanh")]


@kernel("matmul.forward", "matmul.bias_forward")
def blocked(run: Run, entry: str) -> None:
    product(run, "matmul", entry)


@kernel("matmul_tiled.forward", "matmul_tiled.bias_forward")
def tiled(run: Run, entry: str) -> None:
    product(run, "matmul_tiled", entry)


def product(run: Run, file: str, entry: str) -> None:
    for (batches, m, n, k), constants, parts in (
        ((2, 9, 13, 7), {}, 1),
        ((1, 8, 16, 12), {"a_packed": True, "b_packed": True, "a_transposed": True}, 1),
        ((1, 10, 5, 6), {"a_transposed": True, "b_transposed": True}, 1),
        ((1, 3, 4, 1100), {}, 1),
        ((1, 3, 5, 20), {}, 3),
        ((2, 70, 66, 40), {"b_transposed": True}, 2),
    ):
        if parts > 1 and entry == "bias_forward":
            continue
        a, b, bias = normal(batches, m, k), normal(batches, k, n), normal(n)
        row_groups, column_groups = -(-m // 64), -(-n // 64)
        params = {
            "M": m,
            "N": n,
            "K": k,
            "batches": batches,
            "parts": parts,
            "k_chunk": -(-k // parts),
            "a_stride": m * k,
            "b_stride": k * n,
            "row_groups": row_groups,
            "column_groups": column_groups,
            "first_group": 0,
        }
        inputs = {
            "a": a.swapaxes(1, 2) if constants.get("a_transposed") else a,
            "b": b.swapaxes(1, 2) if constants.get("b_transposed") else b,
        }
        if entry == "bias_forward":
            inputs["bias"] = bias
        made = run(
            file,
            entry=entry,
            prelude="fn activate(x: f32) -> f32 { return relu_value(x); }\n",
            inputs=inputs,
            outputs={"y": (parts * batches, m, n)},
            overrides=constants,
            params=params,
            workgroups=parts * batches * row_groups * column_groups,
        )
        cuts = [slice(start, start + -(-k // parts)) for start in range(0, k, -(-k // parts))]
        exact = np.concatenate([a[..., cut].astype(np.float64) @ b[:, cut] for cut in cuts])
        exact = np.maximum(exact + (bias if entry == "bias_forward" else 0), 0)
        # The rounding of a sum grows with its terms, which nearly cancel in some elements.
        assert_close(made["y"], exact, rtol=1e-5, atol=2e-6 * k**0.5)
