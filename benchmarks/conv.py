"""A convolutional training step, and its convolutions alone: on the device, with its backward on the host, in PyTorch.

    python benchmarks/conv.py [rounds]

The step is a LeNet's, on a batch of 64 images of 28 x 28: conv 1-32, relu, pool, conv 32-64, relu, pool, dense 128, 10
classes, kernels of 3 x 3, Adam. A round runs every candidate once, in random order, until its loss is read, so that a
noisy minute hurts all alike; the ratios are medians of those within rounds. Below, each kernel of its larger
convolution, a depthwise one, and the small image of P-AP05, with their arithmetic per second. The aim, eager, with Mesa
25 on two cores, is 200 ms; on such a machine jax-js with jit takes 380, tinygrad's WebGPU device with its JIT 494 (Mesa
22.3.6), PyTorch 16 to 27.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend.device import GPUDevice
from gpu_backend.ops.conv_kernels import convolve, input_gradient, weight_gradient
from gpu_backend.ops.convolution_geometry import convolution_geometry

Step = Callable[[Any, Any], float]
BATCH = 64


def lenet() -> nn.Module:
    """The model."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128, activation="relu"),
        nn.Linear(128, 10),
    )


def make_step(is_compiled: bool = False, backward: str = "device") -> Step:
    """A training step of a fresh model, whose convolutions' gradients are made on the device or on the host."""
    ad.manual_seed(0)
    model = lenet()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = ad.compiled(step) if is_compiled else step

    def timed(x: Any, target: Any) -> float:
        with gb.fallback("conv2d.backward", backward):
            return float(run(ad.tensor(x), ad.tensor(target)))

    return timed


def torch_step() -> Step:
    """The same step in PyTorch on the processor, eager."""
    import torch

    layers = torch.nn
    torch.manual_seed(0)
    model = layers.Sequential(
        layers.Conv2d(1, 32, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2),
        layers.Conv2d(32, 64, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2),
        layers.Flatten(), layers.Linear(64 * 7 * 7, 128), layers.ReLU(), layers.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, target: Any) -> float:
        optimizer.zero_grad()
        loss = layers.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(target).long())
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def compare(candidates: dict[str, Step], rounds: int) -> None:
    """Print the times of each step, and their ratios to the first."""
    numbers = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 2):
        x = numbers.standard_normal((BATCH, 1, 28, 28), np.float32)
        target = numbers.integers(0, 10, BATCH, np.int32)
        for name in random.sample(sorted(candidates), len(candidates)):
            start = time.perf_counter()
            candidates[name](x, target)
            if number >= 2:
                times[name].append(1e3 * (time.perf_counter() - start))
    base = times[next(iter(times))]
    for name, own in times.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(own, base, strict=True))
        print(f"{name:32} best {min(own):7.1f} ms, median {statistics.median(own):7.1f}, ratio {ratio:5.2f}")


def kernels(device: GPUDevice, rounds: int) -> None:
    """Print what single convolutions take."""
    numbers = np.random.default_rng(0)
    one = gb.array([0.0], device=device)
    for name, x_shape, weight_shape, groups in (
        ("conv 32-64 of the step", (BATCH, 32, 14, 14), (64, 32, 3, 3), 1),
        ("depthwise, 64 channels", (16, 64, 28, 28), (64, 1, 3, 3), 64),
        ("P-AP05: 3-20 on 30 x 30", (1, 3, 30, 30), (20, 3, 3, 3), 1),
    ):
        g = convolution_geometry("conv2d", 2, x_shape, weight_shape, 1, 1, 1, groups)
        x, weight, dy = (
            gb.array(numbers.standard_normal(shape, np.float32), device=device)
            for shape in (x_shape, weight_shape, g.made_shape)
        )
        for part, run in {
            "forward": lambda: convolve("conv2d", g, x, weight),  # noqa: B023
            "dx": lambda: input_gradient("conv2d", g, dy, weight),  # noqa: B023
            "dweight": lambda: weight_gradient("conv2d", g, x, dy),  # noqa: B023
        }.items():
            best = float("inf")
            for _ in range(rounds):
                device.recorder.synchronize()
                start = time.perf_counter()
                made = run()
                one.numpy()
                best = min(best, time.perf_counter() - start)
                del made
            print(f"{name:26} {part:8} best {1e3 * best:7.2f} ms, {2e-9 * g.work / best:5.1f} GFLOP/s")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    device = ad.device()
    print(device)
    if not isinstance(device, GPUDevice):
        raise SystemExit("there is no adapter to measure")
    candidates = {
        "eager": make_step(),
        "compiled": make_step(is_compiled=True),
        "eager, conv2d.backward on host": make_step(backward="host"),
    }
    if importlib.util.find_spec("torch"):
        candidates["PyTorch on the processor, eager"] = torch_step()
    compare(candidates, rounds)
    kernels(device, rounds)


if __name__ == "__main__":
    main()
