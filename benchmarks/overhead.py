"""Host time of recording, and cache misses of a training loop.

    python benchmarks/overhead.py

Prints the microseconds the host spends on one elementwise op with its backward, submit and wait left out (median of
1,000), those of a read-back of 4 bytes by each way to the queue, taken in turn, and the bind-group and pipeline misses
of steps 4 to 50 of an MLP with equal shapes. Targets: at most 60; none; 0.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim
from gpu_backend.device import GPUDevice
from gpu_backend.submission import PublicSubmissions


def pair_microseconds(device: GPUDevice, repeats: int = 1000) -> tuple[float, float, float]:
    """Median and best host time to record ``y = tanh(x)`` and its backward, pair after pair; and the median host time
    of encoding and submitting one dispatch, from flushes of 200."""
    x = ad.tensor(np.ones(64, np.float32), requires_grad=True)
    gradient = ad.tensor(np.ones(64, np.float32))
    pairs, flushes = [], []
    for round_ in range(repeats // 100 + 1):
        for _ in range(100):
            x.grad = None
            start = time.perf_counter()
            y = x.tanh()
            y.backward(gradient)
            pairs.append(time.perf_counter() - start)
        if not round_:
            pairs.clear()  # the first round compiles
        start = time.perf_counter()
        device.recorder.flush()
        flushes.append((time.perf_counter() - start) / 200)
    return 1e6 * statistics.median(pairs), 1e6 * min(pairs), 1e6 * statistics.median(flushes)


def read_microseconds(device: GPUDevice, rounds: int = 300) -> dict[str, float]:
    """Median time to read 4 bytes back, nothing recorded: through wgpu-native's functions, through the public API."""
    x = ad.tensor(1.0)
    recorder = device.recorder
    ways = [recorder.submissions, PublicSubmissions(device.gpu)]
    times: dict[str, list[float]] = {way.kind: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            way.count = recorder.submissions.count
            recorder.submissions = way
            start = time.perf_counter()
            x.item()
            times[way.kind].append(time.perf_counter() - start)
    recorder.submissions = ways[0]
    return {kind: 1e6 * statistics.median(seconds) for kind, seconds in times.items()}


def misses_per_step(device: GPUDevice, steps: int = 50) -> list[tuple[int, int]]:
    """Bind-group and pipeline misses of each step of an MLP with batches of equal shape."""
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = optim.AdamW(model.parameters())
    random = np.random.default_rng(0)
    rows = []
    for _ in range(steps):
        before = device.recorder.bind_groups.misses, device.pipelines.misses
        x, t = random.standard_normal((32, 64), np.float32), random.integers(0, 10, 32)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x)), t)
        loss.backward()
        optimizer.step()
        loss.item()
        rows.append((device.recorder.bind_groups.misses - before[0], device.pipelines.misses - before[1]))
    return rows


def main() -> None:
    device = ad.device()
    if not isinstance(device, GPUDevice):
        raise SystemExit("this benchmark wants an adapter; see `shadertape info`")
    print(device.summary)
    median, best, flush = pair_microseconds(device)
    print(f"one elementwise op and its backward, recorded: median {median:.1f} us, best {best:.1f} us (target 60)")
    print(f"encoding and submitting, per dispatch: {flush:.1f} us")
    reads = read_microseconds(device)
    ratio = reads["native"] / reads["public"]
    print(
        f"a read-back of 4 bytes: native {reads['native']:.0f} us, public {reads['public']:.0f} us, {ratio:.2f} times"
    )
    rows = misses_per_step(device)
    print(f"misses of step 1, 2, 3 (bind groups, pipelines): {rows[:3]}")
    bind_groups, pipelines = (sum(column) for column in zip(*rows[3:], strict=True))
    print(f"misses of steps 4 to 50: {bind_groups} bind groups, {pipelines} pipelines (target 0)")


if __name__ == "__main__":
    main()
