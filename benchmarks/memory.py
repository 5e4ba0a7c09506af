"""Memory over time: a long training, batches of changing size, many small ops without a read.

    python benchmarks/memory.py [flat|batches|tiny ...]        all three by default

Prints bytes in use and reserved by the pool, and the growth of the process, each beside its target:

- flat: an MLP, 10,000 steps: in use and reserved after step 10,000 as after step 100; less than 20 MB of growth of the
  process after step 500
- batches: sizes 1 to 32 in turn for 500 steps: reserved at most twice the peak in use
- tiny: 20,000 small ops, a submit at least for each thousand, no read: less than 300 MB of growth of the process
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim
from gpu_backend import memory

MEGABYTE = 1e6


def process_bytes() -> int:
    """Resident bytes of this process; where /proc is missing, the largest there ever were."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def training(steps: int, batch: Callable[[int], int], widths: tuple[int, ...], reads: int) -> Iterator[int]:
    """An MLP with AdamW on random data, one step after the other; every ``reads`` steps the loss is read."""
    ad.manual_seed(0)
    layers = [nn.Linear(a, b, activation="relu") for a, b in itertools.pairwise(widths[:-1])]
    model = nn.Sequential(*layers, nn.Linear(*widths[-2:]))
    optimizer = optim.AdamW(model.parameters())
    random = np.random.default_rng(0)
    for step in range(1, steps + 1):
        count = batch(step)
        x, t = random.standard_normal((count, widths[0]), np.float32), random.integers(0, widths[-1], count)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x)), t)
        loss.backward()
        optimizer.step()
        if step % reads == 0:
            loss.item()
        yield step


def flat(steps: int = 10_000) -> None:
    start = time.perf_counter()
    marks = {}
    for step in training(steps, lambda step: 32, (64, 128, 128, 10), reads=10):
        if step in (100, 500, 1000, steps):
            stats = memory.stats()
            marks[step] = stats.in_use_bytes, stats.reserved_bytes, process_bytes()
    seconds = time.perf_counter() - start
    print(f"flat: an MLP 64-128-128-10, batch 32, AdamW, {steps} steps in {seconds:.0f} s")
    for step, (in_use, reserved, process) in marks.items():
        print(f"  step {step:6}: in use {in_use:,}, reserved {reserved:,}, process {process / MEGABYTE:.1f} MB")
    same = marks[steps][:2] == marks[100][:2]
    print(f"  step {steps} as step 100: {'yes' if same else 'NO'} (target yes)")
    growth = (marks[steps][2] - marks[500][2]) / MEGABYTE
    print(f"  growth of the process after step 500: {growth:.1f} MB (target: less than 20)")


def batches(steps: int = 500) -> None:
    for widths in ((256, 256, 256, 10), (16,) * 20):
        memory.reclaim()
        memory.reset_peak()
        most = 0
        for _ in training(steps, lambda step: 1 + (step - 1) % 32, widths, reads=1):
            most = max(most, memory.stats().reserved_bytes)
        peak = memory.stats().peak_bytes
        print(
            f"batches: 1 to 32 in turn, {steps} steps of an MLP of {len(widths) - 1} layers from {widths[0]} features"
        )
        print(f"  reserved at most {most:,}, peak in use {peak:,}: {most / peak:.2f} times (target: at most 2)")


def tiny(count: int = 20_000) -> None:
    memory.reclaim()
    device = ad.device()
    x = ad.tensor(np.zeros(64, np.float32))
    for submit_each in (False, True):
        for _ in range(1000):
            x = x + 1.0
        x.numpy()
        before, start = process_bytes(), time.perf_counter()
        for _ in range(count):
            x = x + 1.0
            if submit_each:
                device.recorder.flush()
        growth = (process_bytes() - before) / MEGABYTE
        seconds = time.perf_counter() - start
        how = "a submit for each" if submit_each else "submits at the cap"
        flight = memory.stats().submits_in_flight
        print(f"tiny: {count} additions without a read, {how}: {seconds:.1f} s, {flight} submits in flight at the end")
        print(
            f"  growth of the process {growth:.1f} MB (target: less than 300), in use {memory.stats().in_use_bytes:,}"
        )
        assert x.numpy()[0] == (count + 1000) * (1 + submit_each)


def main() -> None:
    print(ad.device().summary)
    for name in sys.argv[1:] or ("flat", "batches", "tiny"):
        {"flat": flat, "batches": batches, "tiny": tiny}[name]()


if __name__ == "__main__":
    main()
