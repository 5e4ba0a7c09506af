"""Matrix products: our kernels, a naive one, numpy, and the tiles that were considered, interleaved in one run.

    python benchmarks/matmul.py [sizes ...]        256 and 1024 by default

Each row is the best and the median of several rounds; a round runs every candidate once, so that a noisy minute hurts
all alike. The kernel of wgsl/matmul.wgsl, "blocked", is chosen by these figures: its 8 x 8 block is written out as four
4 x 4 matrices, since compilers keep those in registers and arrays often not. "tiled" is wgsl/matmul_tiled.wgsl, through
workgroup memory, which is for hardware: the line below the table says how many times as long it takes here. The last
table measures the two ways to read a transposed right operand, which set ROWS_WORTH_A_TRANSPOSED_COPY in
gpu_backend.ops.matmul_kernels.py.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpu_backend as gb
from gpu_backend import shader
from gpu_backend.array import Array, allocate
from gpu_backend.device import MATMUL_KERNELS, GPUDevice
from gpu_backend.spec import float32

ROUNDS = 7
TILES = ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (2, 3), (2, 4))
Candidate = Callable[[], Any]


def interleaved(candidates: dict[str, Candidate], wait: Candidate, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each candidate in each round, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_ in range(rounds + 1):
        for name, candidate in candidates.items():
            start = time.perf_counter()
            result = candidate()
            wait()
            if round_:
                times[name].append(time.perf_counter() - start)
            del result
    return times


def waiter(device: GPUDevice) -> Candidate:
    """A function that returns when the device has done all that was recorded."""
    scalar = gb.array([0.0], device=device)
    return scalar.numpy


def tile(device: GPUDevice, rows: int, columns: int, entry: str = "tile") -> Callable[[Array, Array], Array]:
    """A kernel of matmul_tiles.wgsl with a block of 4 rows by 4 columns times these numbers."""
    text = (Path(__file__).parent / "matmul_tiles.wgsl").read_text()
    prelude = f"const ROW_BLOCKS = {rows}u;\nconst COLUMN_BLOCKS = {columns}u;\n"
    name = f"{entry} {4 * rows} x {4 * columns}"
    kernel = device.pipelines.compile(shader.parse("matmul_tiles", text, prelude), entry, {}, name)

    def run(a: Array, b: Array) -> Array:
        M, K = a.shape
        N = b.shape[1]
        y = allocate((M, N), float32, device, name)
        high, wide = (8, 8) if entry == "naive" else (32 * rows, 32 * columns)
        column_groups, row_groups = -(-N // wide), -(-M // high)
        device.recorder.record(
            kernel, row_groups * column_groups, a=a, b=b, y=y, M=M, N=N, K=K, column_groups=column_groups
        )
        return y

    return run


def ours(device: GPUDevice, kind: str) -> Callable[[Array, Array], Array]:
    """``matmul`` with one of its kernels."""

    def run(a: Array, b: Array) -> Array:
        before, device.matmul_kernel = device.matmul_kernel, kind
        try:
            return gb.matmul(a, b)
        finally:
            device.matmul_kernel = before

    return run


def report(size: int, device: GPUDevice) -> None:
    random = np.random.default_rng(0)
    x, z = (random.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    a, b = gb.array(x, device=device), gb.array(z, device=device)
    wanted = x @ z
    kernels = {f"tile {4 * r} x {4 * c}": tile(device, r, c) for r, c in TILES}
    kernels["naive"] = tile(device, 1, 1, "naive")
    for kind in MATMUL_KERNELS:
        kernels[kind] = ours(device, kind)
    for name, kernel in kernels.items():
        np.testing.assert_allclose(kernel(a, b).numpy(), wanted, atol=1e-3 * size**0.5, err_msg=name)
    candidates: dict[str, Candidate] = {name: (lambda k=kernel: k(a, b)) for name, kernel in kernels.items()}
    candidates["numpy"] = lambda: x @ z
    times = interleaved(candidates, waiter(device))
    print(f"\n{size} x {size} x {size}")
    print(f"  {'':14} {'best ms':>9} {'median ms':>10} {'GFLOP/s':>8} {'of naive':>9} {'of numpy':>9}")
    best = {name: min(t) for name, t in times.items()}
    for name in sorted(best, key=lambda name: best[name]):
        rate = 2 * size**3 / best[name] / 1e9
        median = 1e3 * statistics.median(times[name])
        print(
            f"  {name:14} {1e3 * best[name]:9.2f} {median:10.2f} {rate:8.2f} "
            f"{best['naive'] / best[name]:9.2f} {best['numpy'] / best[name]:9.3f}"
        )
    ratios = [tiled / blocked for tiled, blocked in zip(times["tiled"], times["blocked"], strict=True)]
    print(f"  tiled / blocked: {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} by round")


def report_transposed(device: GPUDevice) -> None:
    """y = x w^T, blocked: down the columns of w, or through a transposed copy of it."""
    print("\nx (rows, 512) times w (512, 512) transposed, best ms")
    print(f"  {'rows':>5} {'down the columns':>17} {'transposed copy':>16}")
    w = gb.array(np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32), device=device)
    device.matmul_kernel = "blocked"
    module: Any = importlib.import_module("gpu_backend.ops.matmul_kernels")
    for rows in (8, 16, 32, 64, 128, 256):
        x = gb.array(np.ones((rows, 512), np.float32), device=device)

        def product(threshold: int, x: Array = x) -> Array:
            module.ROWS_WORTH_A_TRANSPOSED_COPY = threshold
            return gb.matmul(x, w, transpose_b=True)

        times = interleaved({"columns": lambda: product(10**9), "copy": lambda: product(0)}, waiter(device))
        print(f"  {rows:5} {1e3 * min(times['columns']):17.2f} {1e3 * min(times['copy']):16.2f}")


def main() -> None:
    device = gb.device()
    if not isinstance(device, GPUDevice):
        raise SystemExit("this benchmark wants an adapter; see `shadertape info`")
    print(device.summary)
    for size in [int(argument) for argument in sys.argv[1:]] or [256, 1024]:
        report(size, device)
    report_transposed(device)


if __name__ == "__main__":
    main()
