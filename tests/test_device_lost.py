"""When a device goes: errors, never zeros; a fresh one; forked children; what wgpu refuses; two threads that train."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device, DeviceError, DeviceLostError, ShaderError, memory, shader
from gpu_backend.array import write
from gpu_backend.device import GPUDevice
from gpu_backend.ops import update


@pytest.fixture
def spare(adapter: GPUDevice) -> Iterator[GPUDevice]:
    """A device of the test's own, which may be destroyed."""
    device = GPUDevice(adapter.adapter)
    yield device
    device.destroy()


USES: dict[str, Any] = {
    "numpy": lambda x: x.numpy(),
    "op": lambda x: gb.add(x, 1.0),
    "clone": gb.clone,
    "reshape op": lambda x: gb.reshape(x, shape=(3, 1)),
    "array": lambda x: gb.array([1.0], device=x.device),
    "full": lambda x: gb.full((3,), 1.0, device=x.device),
    "empty": lambda x: gb.empty(5000, device=x.device),
    "small": lambda x: gb.empty(2, device=x.device),
    "nothing": lambda x: gb.empty((0, 3), device=x.device),
    "tensor": lambda x: ad.tensor(x),
    "copy_": lambda x: ad.Tensor(x).copy_(ad.Tensor(x.reshape(3))),
    "assign": lambda x: update.assign(x, x),
    "in place": lambda x: update.accumulate(x, x),
    "first use of an op": lambda x: gb.divide(x, 2.0),
    "upload": lambda x: write(x, np.zeros(3, np.float32)),
    "kernel": lambda x: x.device.kernel("copy", "gather"),
    "trim": lambda x: memory.trim(x.device),
    "synchronize": lambda x: x.device.recorder.synchronize(),
    "to": lambda x: x.to("host"),
    "download_async": lambda x: x.download_async(),
}


@pytest.mark.parametrize("how", ["by us", "by the driver"])
def test_every_use_of_a_lost_device_raises(how: str, spare: GPUDevice) -> None:
    """P-PO04: recorded work, arrays that were read before, new arrays; no zeros, no abort."""
    x = gb.array([1.0, 2.0, 3.0], device=spare)
    assert gb.add(x, 1.0).tolist() == [2.0, 3.0, 4.0]
    recorded = gb.multiply(x, 2.0)
    pending = x.download_async()
    if how == "by us":
        spare.destroy()
    else:
        spare.gpu.destroy()
        with pytest.raises(DeviceLostError, match=r"the device was lost.*gpu_backend.reset_device\(x.device\) opens a"):
            pending.numpy()  # mapped already: to touch it would abort the process
        assert pending.done
    for name, use in USES.items():
        with pytest.raises(DeviceLostError):
            print(name, use(x))
    with pytest.raises(DeviceLostError):
        recorded.numpy()
    with pytest.raises(DeviceLostError):
        pending.numpy()
    assert "lost" in repr(x)
    assert "lost" in repr(ad.Tensor(x))
    assert memory.stats(spare).submits_in_flight == 0
    assert gb.array([1.0], device="host").tolist() == [1.0]


@pytest.mark.parametrize("use", ["empty", "op", "kernel", "first use of an op", "upload", "trim"])
def test_a_loss_is_noticed_wherever_it_shows_first(use: str, spare: GPUDevice) -> None:
    x = gb.array([1.0, 2.0, 3.0], device=spare)
    gb.add(x, 1.0).numpy()
    gb.multiply(x, 2.0)
    spare.gpu.destroy()
    if use == "op":
        gb.add(x, 1.0)  # recorded: the loss shows when it is submitted
        with pytest.raises(DeviceLostError):
            spare.recorder.flush()
    else:
        with pytest.raises(DeviceLostError):
            USES[use](x)
    with pytest.raises(DeviceLostError):
        gb.exp(x)


RESET = """
import numpy as np
import autodiff as ad, gpu_backend as gb
from autodiff import nn

old = gb.device()
named = gb.device(old.name)
x = gb.array([1.0, 2.0])
model = nn.Linear(2, 1)
y = gb.add(x, 1.0)
old.destroy()
try:
    y.numpy()
except gb.DeviceLostError as error:
    print(error)
fresh = gb.reset_device()
assert fresh is not old and fresh is gb.device() is gb.device(old.name) is gb.device(old.kind) is gb.reset_device(old)
assert gb.add(gb.array([1.0]), 1.0).tolist() == [2.0]
for use in (x.numpy, lambda: gb.exp(x), lambda: model(ad.tensor([[1.0, 2.0]]))):
    try:
        use()
        print("no error")
    except (gb.DeviceLostError, gb.DeviceError) as error:
        pass
model = nn.Linear(2, 1)
print(model(ad.tensor([[1.0, 2.0]])).shape)
healthy = gb.reset_device()
assert healthy is not fresh and gb.device() is healthy
try:
    fresh.recorder.flush()
except gb.DeviceLostError:
    print("replaced")
with gb.default_device("host"):
    assert gb.reset_device() is gb.device("host")
with gb.default_device(old.name):
    newest = gb.reset_device()
assert gb.device() is newest and gb.exp(gb.array([0.0])).tolist() == [1.0]
assert gb.reset_device(healthy) is newest and gb.device() is newest
"""


def test_reset_gives_a_fresh_device_in_place_of_the_old(adapter: GPUDevice) -> None:
    done = run(RESET, GPU_BACKEND_DEVICE=adapter.name)
    assert done.returncode == 0, done.stderr
    assert "DEVICE LOST" not in done.stderr, "a loss that was asked for is no error"
    assert done.stdout.splitlines() == [
        f"the device {adapter.name} was destroyed, and every array on it. "
        "gpu_backend.reset_device(x.device) opens a fresh one",
        "(1, 1)",
        "replaced",
    ]


FORK = """
import multiprocessing, os, sys
import numpy as np
import gpu_backend as gb
from gpu_backend import memory
from gpu_backend.array import write

x = gb.array([1.0, 2.0])
idle = gb.array([3.0, 4.0])  # in no recorded work, so that nothing is flushed for it
y = gb.add(x, 1.0)

def squares(n):
    return float(np.square(np.arange(n)).sum())

def use(queue):
    zeros = np.zeros(2, np.float32)
    uses = (x.numpy, lambda: gb.add(x, 1.0), lambda: gb.array([1.0]), memory.trim, gb.reset_device)
    native = type(x.device.gpu.queue).write_buffer
    type(x.device.gpu.queue).write_buffer = lambda *a: queue.put("the driver was touched")
    for f in (*uses, lambda: write(idle, zeros)):
        try:
            queue.put(f"no error: {f()}")
        except gb.DeviceLostError as error:
            queue.put(str(error)[:66])
    type(x.device.gpu.queue).write_buffer = native
    queue.put(gb.add(gb.array([1.0], device="host"), 1.0).tolist())
    queue.put(repr(x)[:10])

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        print(pool.map(squares, [3, 4]))
    queue = fork.SimpleQueue()
    child = fork.Process(target=use, args=(queue,))
    child.start()
    child.join(60)
    print(child.exitcode)
    while not queue.empty():
        print(queue.get())
    sys.stdout.flush()  # or the child would print it again
    child = os.fork()
    if not child:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(y.tolist())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork_numpy_works_and_our_arrays_raise(adapter: GPUDevice) -> None:
    """Workers that use numpy alone are fine; a GPU array in a child raises; the parent goes on."""
    done = run(FORK, GPU_BACKEND_DEVICE=adapter.name)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["[5.0, 14.0]", "0"]
    assert lines[2:8] == ["this process was forked from one that had opened a GPU, whose devi"] * 6
    assert lines[8:] == ["[2.0]", "Array(lost", "7", "[2.0, 3.0]"]


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    merged = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", program], env=merged, capture_output=True, text=True, check=False, timeout=100
    )


BROKEN = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn forward(@builtin(global_invocation_id) id: vec3<u32>) {
  y[id.x] = undeclared;
}
"""


def test_a_shader_that_does_not_compile_is_an_exception_and_the_next_op_works(adapter: GPUDevice) -> None:
    """P-PO05: label, message and numbered lines."""
    with pytest.raises(ShaderError, match=r"(?s)broken.forward.*undeclared.*> broken:6      y") as raised:
        adapter.pipelines.compile(shader.parse("broken", BROKEN, ""), "forward", {}, "broken.forward")
    assert raised.value.label == "broken.forward"
    assert gb.exp(gb.array([0.0], device=adapter)).tolist() == [1.0]


def test_what_wgpu_refuses_is_an_exception_and_the_next_op_works(adapter: GPUDevice) -> None:
    """P-PO05: a grid past the limit, a buffer of the wrong size, both told by wgpu at the flush or before."""
    import wgpu

    x = gb.array(np.ones(8, np.float32), device=adapter)
    y = gb.empty(8, device=adapter)
    kernel = adapter.kernel("gradient", "accumulate")
    dropped = gb.empty(3000, device=adapter)
    adapter.recorder.flush()
    adapter.recorder.max_groups_per_axis = 10**6
    try:
        adapter.recorder.record(kernel, 70_000, x=dropped, y=y, size=8, first=0, bound=0.0)
        del dropped
        with pytest.raises(DeviceError, match=r"(?s)flush \d+ was refused, 1 dispatch dropped.*65535"):
            adapter.recorder.flush()
    finally:
        adapter.recorder.max_groups_per_axis = 65535
    memory.trim(adapter)
    stats = memory.stats(adapter)
    assert stats.reserved_bytes == stats.in_use_bytes
    assert stats.pending_destroy == 0
    assert gb.sum(x).item() == 8.0
    buffer = y.storage.buffer
    whole, buffer.nbytes = buffer.nbytes, 2**20
    try:
        with pytest.raises(wgpu.GPUError, match=r"(?i)range|size|bound"):
            adapter.recorder.bind_groups.create(kernel, [x.storage.buffer, buffer], adapter.recorder._uniforms)
    finally:
        buffer.nbytes = whole
    assert gb.add(x, 1.0).numpy().sum() == 16.0


def weights_after_training(device: Device, seed: int, steps: int = 25) -> list[np.ndarray[Any, Any]]:
    ad.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = nn.Sequential(nn.Linear(5, 8, device=device), nn.Tanh(), nn.Linear(8, 3, device=device))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        x, target = random.standard_normal((6, 5)), random.integers(0, 3, 6)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x, device=device)), target)
        loss.backward()
        optimizer.step()
        if step % 5 == seed % 5:
            loss.item()
    return [p.numpy() for p in model.parameters()]


def test_two_threads_train_two_models_on_one_device(device: Device) -> None:
    """Bit-equal to training one after the other."""
    alone = {seed: weights_after_training(device, seed) for seed in (1, 2)}
    together: dict[int, list[np.ndarray[Any, Any]]] = {}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [
            threading.Thread(target=lambda seed=seed: together.update({seed: weights_after_training(device, seed)}))
            for seed in (1, 2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for seed, weights in alone.items():
        for one, other in zip(weights, together[seed], strict=True):
            np.testing.assert_array_equal(one, other)
