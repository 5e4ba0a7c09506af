"""What a compiled training step costs, beside the same step run eagerly.

    python benchmarks/replay.py

For each model, from steps of eager and compiled twins taken in random order in one run, the device idle before each:
the median host time until the call returns, until its work is submitted, and the wall time until the loss is read. For
the encoding: host microseconds per dispatch to encode and submit a replay, and of a bare loop over the same dispatches
through wgpu-native's functions, the encoder and the submit included in both. Targets: at most 1.3 times the bare loop;
host time at most a fifth of eager's for the tiny model; wall time never above eager's.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim
from gpu_backend.device import GPUDevice
from gpu_backend.encoding import Pass

Step = Callable[..., ad.Tensor]

# Milliseconds of the fastest of other systems on two cores with Mesa 25.0.7: jax-js with jit, on Dawn, for the first,
# torchvulkan for the others.
PEERS = {"16-32-4, batch 8, SGD": 0.88, "784-512-512-10, batch 128, SGD": 55.0, "784-512-512-10, batch 128, Adam": 70.0}


def make_step(widths: list[int], make_optimizer: Callable[[Any], optim.Optimizer], criterion: Any) -> Step:
    """A training step of a perceptron with relu between its layers."""
    ad.manual_seed(0)
    last = widths[-1]
    layers = [nn.Linear(a, b, activation=None if b == last else "relu") for a, b in itertools.pairwise(widths)]
    model = nn.Sequential(*layers)
    optimizer = make_optimizer(list(model.parameters()))

    def step(x: Any, target: Any) -> ad.Tensor:
        optimizer.zero_grad()
        loss = criterion(model(ad.tensor(x)), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def compare(device: GPUDevice, name: str, widths: list[int], batch: int, make_optimizer: Any, rounds: int) -> None:
    """Print host and wall times of a model, eager and compiled."""
    numbers = np.random.default_rng(0)
    batches = [
        (numbers.standard_normal((batch, widths[0]), np.float32), numbers.integers(0, widths[-1], batch, np.int32))
        for _ in range(8)
    ]
    plain, twin = (make_step(widths, make_optimizer, F.cross_entropy) for _ in range(2))
    steps = {"eager": plain, "compiled": ad.compiled(twin)}
    times: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in steps}
    for number in range(rounds + 3):
        losses = {}
        for kind in random.sample(sorted(steps), 2):
            device.recorder.synchronize()
            start = time.perf_counter()
            loss = steps[kind](*batches[number % 8])
            called = time.perf_counter()
            device.recorder.flush()
            submitted = time.perf_counter()
            losses[kind] = loss.item()
            end = time.perf_counter()
            if number >= 3:
                times[kind].append((called - start, submitted - start, end - start))
        assert losses["eager"] == losses["compiled"], "the two models part ways"
    stats = steps["compiled"].stats()  # type: ignore[attr-defined]
    assert (stats.captures, stats.replays) == (1, rounds + 2), stats
    print(f"{name}: {stats.kernels // stats.replays} kernels, encoded through {stats.encoding} functions")
    for column, label in enumerate(("host, call", "host, until submitted", "wall, loss read")):
        eager, compiled = (1e3 * statistics.median(t[column] for t in times[kind]) for kind in ("eager", "compiled"))
        best = 1e3 * min(t[column] for t in times["compiled"])
        note = f"; the best of other systems {PEERS[name]:g} ms" if column == 2 else ""
        print(
            f"  {label:<22} eager {eager:7.3f} ms, compiled {compiled:7.3f} (best {best:.3f}), "
            f"ratio {compiled / eager:.2f}{note}"
        )


def encoding(device: GPUDevice, rounds: int = 400) -> None:
    """Print host microseconds per dispatch to encode and submit a replay, and those of a bare loop over the same."""
    from wgpu.backends.wgpu_native import ffi, lib

    step = ad.compiled(make_step([16, 32, 4], lambda p: optim.SGD(p, lr=0.01), F.mse))
    step(np.zeros((8, 16), np.float32), np.zeros((8, 4), np.float32))
    plan = next(iter(step._recent.values())).traced.plan
    calls = [
        call for segment in plan.segments for part in segment.parts if isinstance(part, Pass) for call in part.calls
    ]  # type: ignore[union-attr]
    rows = [
        (c.kernel.pipeline._internal, c.group._internal, ffi.new("uint32_t[]", [c.offset]), c.x, c.y) for c in calls
    ]
    queue, raw = device.gpu.queue._internal, device.gpu._internal
    times: dict[str, list[float]] = {"replay": [], "bare": []}
    (segment,) = plan.segments
    for _ in range(rounds):
        device.recorder.synchronize()
        start = time.perf_counter()
        with device.lock:
            device.recorder.submit_parts(segment.parts, len(rows))
        times["replay"].append(time.perf_counter() - start)
        device.recorder.synchronize()
        start = time.perf_counter()
        encoder = lib.wgpuDeviceCreateCommandEncoder(raw, ffi.NULL)
        compute = lib.wgpuCommandEncoderBeginComputePass(encoder, ffi.NULL)
        for pipeline, group, offsets, gx, gy in rows:
            lib.wgpuComputePassEncoderSetPipeline(compute, pipeline)
            lib.wgpuComputePassEncoderSetBindGroup(compute, 0, group, 1, offsets)
            lib.wgpuComputePassEncoderDispatchWorkgroups(compute, gx, gy, 1)
        lib.wgpuComputePassEncoderEnd(compute)
        commands = lib.wgpuCommandEncoderFinish(encoder, ffi.NULL)
        lib.wgpuQueueSubmit(queue, 1, ffi.new("WGPUCommandBuffer[]", [commands]))
        times["bare"].append(time.perf_counter() - start)
        lib.wgpuComputePassEncoderRelease(compute)
        lib.wgpuCommandBufferRelease(commands)
        lib.wgpuCommandEncoderRelease(encoder)
    replay, bare = (1e6 * statistics.median(times[kind]) / len(rows) for kind in ("replay", "bare"))
    print(
        f"host time per dispatch of {len(rows)}: replay {replay:.2f} us, bare loop {bare:.2f} us, {replay / bare:.2f}"
    )


def main() -> None:
    device = ad.device()
    print(device)
    if not isinstance(device, GPUDevice):
        raise SystemExit("there is no adapter, so nothing is replayed")
    encoding(device)
    compare(device, "16-32-4, batch 8, SGD", [16, 32, 4], 8, lambda p: optim.SGD(p, lr=0.01), 400)
    wide = [784, 512, 512, 10]
    compare(device, "784-512-512-10, batch 128, SGD", wide, 128, lambda p: optim.SGD(p, lr=0.01), 60)
    compare(device, "784-512-512-10, batch 128, Adam", wide, 128, lambda p: optim.Adam(p, lr=0.001), 60)


if __name__ == "__main__":
    main()
