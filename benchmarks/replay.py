"""What a compiled training step costs, beside the same step run eagerly.

    python benchmarks/replay.py

For each model: median wall time of a step whose loss is read, and median host time of a call whose loss is not, eager
and compiled taken in turn in one run, with models of their own. For the encoding: host microseconds per dispatch of a
whole replay, and of a bare loop over the same dispatches through wgpu-native's functions, the encoder and the submit
included in both. Targets: at most 1.3 times the bare loop; host time at most a fifth of eager's for the tiny model.
"""

from __future__ import annotations

import itertools
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


def make_step(widths: list[int], make_optimizer: Callable[[Any], optim.Optimizer]) -> Step:
    """A training step of a perceptron with relu between its layers."""
    ad.manual_seed(0)
    last = widths[-1]
    layers = [nn.Linear(a, b, activation=None if b == last else "relu") for a, b in itertools.pairwise(widths)]
    model = nn.Sequential(*layers)
    optimizer = make_optimizer(list(model.parameters()))

    def step(x: Any, target: Any) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x)), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def compare(name: str, widths: list[int], batch: int, make_optimizer: Any, rounds: int) -> None:
    """Print wall and host times of a model, eager and compiled, from steps taken in turn."""
    random = np.random.default_rng(0)
    batches = [
        (random.standard_normal((batch, widths[0]), np.float32), random.integers(0, widths[-1], batch).astype(np.int32))
        for _ in range(8)
    ]
    steps = {"eager": make_step(widths, make_optimizer), "compiled": ad.compiled(make_step(widths, make_optimizer))}
    wall: dict[str, list[float]] = {kind: [] for kind in steps}
    host: dict[str, list[float]] = {kind: [] for kind in steps}
    for number in range(rounds + 3):
        x, target = batches[number % 8]
        losses = []
        for kind, step in steps.items():
            start = time.perf_counter()
            losses.append(step(x, target).item())
            middle = time.perf_counter()
            loss = step(x, target)
            end = time.perf_counter()
            loss.item()
            if number >= 3:
                wall[kind].append(middle - start)
                host[kind].append(end - middle)
        assert losses[0] == losses[1], "the two models part ways"
    stats = steps["compiled"].stats()  # type: ignore[attr-defined]
    assert (stats.captures, stats.replays) == (1, 2 * rounds + 5), stats
    kernels = stats.kernels // stats.replays
    print(f"{name}: {kernels} kernels, encoded through {stats.encoding} functions")
    for label, times in (("wall, loss read", wall), ("host, loss not read", host)):
        eager, compiled = (1e3 * statistics.median(times[kind]) for kind in ("eager", "compiled"))
        note = f"; the best of other systems {PEERS[name]:g} ms" if label.startswith("wall") else ""
        print(f"  {label:<20} eager {eager:8.3f} ms, compiled {compiled:8.3f} ms, ratio {compiled / eager:.2f}{note}")


def encoding(device: GPUDevice, rounds: int = 400) -> None:
    """Print host microseconds per dispatch of a replay beside a bare loop over the same dispatches."""
    from wgpu.backends.wgpu_native import ffi, lib

    step = ad.compiled(make_step([16, 32, 4], lambda p: optim.SGD(p, lr=0.01)))
    x, target = np.zeros((8, 16), np.float32), np.zeros(8, np.int32)
    step(x, target)
    plan = next(iter(step._recent.values())).traced.plan
    calls = [
        call for segment in plan.segments for part in segment.parts if isinstance(part, Pass) for call in part.calls
    ]  # type: ignore[union-attr]
    rows = [
        (c.kernel.pipeline._internal, c.group._internal, ffi.new("uint32_t[]", [c.offset]), c.x, c.y) for c in calls
    ]
    queue, raw = device.gpu.queue._internal, device.gpu._internal
    times: dict[str, list[float]] = {"replay": [], "bare": []}
    given = [ad.tensor(x).array, ad.tensor(target).array]
    for _ in range(rounds):
        device.recorder.synchronize()
        start = time.perf_counter()
        with device.lock:
            plan.replay(given, [])
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
    if isinstance(device, GPUDevice):
        encoding(device)
    compare("16-32-4, batch 8, SGD", [16, 32, 4], 8, lambda p: optim.SGD(p, lr=0.01), 300)
    wide = [784, 512, 512, 10]
    compare("784-512-512-10, batch 128, SGD", wide, 128, lambda p: optim.SGD(p, lr=0.01), 12)
    compare("784-512-512-10, batch 128, Adam", wide, 128, lambda p: optim.Adam(p, lr=0.001), 12)


if __name__ == "__main__":
    main()
