"""Ops on the host in the middle of work on an adapter: by choice, for want of a kernel, because a pipeline fails."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import host_call, memory, ops, profiler
from gpu_backend.device import GPUDevice
from gpu_backend.fallback_table import broken_kernels, read_environment, table
from gpu_backend.op_table import TABLE, Row, on
from gpu_backend.op_table.run import check
from gpu_backend.shader import load

pytestmark = pytest.mark.filterwarnings("ignore::gpu_backend.HostFallbackWarning")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = table.modes
    yield
    assert table.modes == before, "a test left a mode behind"


COMPUTING = [pytest.param(row, id=row.op.name) for row in TABLE if not row.op.is_view]


@pytest.mark.parametrize("row", COMPUTING)
def test_every_op_runs_on_the_host(row: Row, gpu: GPUDevice) -> None:
    """Forward and backward, against float64 as its kernels are; the sources keep their elements (M3)."""
    sample = next((s for s in row.samples if s.id not in ("one", "empty")), row.samples[0])
    calls = gpu.recorder.host_calls
    with gb.fallback(row.op, "host"):
        check(row, sample, gpu)
        assert gpu.recorder.host_calls > calls
        inputs = on(gpu, sample.inputs)
        row.op(*inputs, **sample.attributes)
    for x, given in zip(inputs, sample.inputs, strict=True):
        if isinstance(given, np.ndarray):
            np.testing.assert_array_equal(x.numpy(), given)


class Net:
    """conv -> relu -> conv, trained on images; ``step`` returns the loss and the gradients."""

    def __init__(self) -> None:
        ad.manual_seed(0)
        self.model = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05)

    def step(self, x: ad.Tensor) -> ad.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def images(number: int) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(number).standard_normal((3, 2, 8, 9)).astype(np.float32))


def test_convolutions_with_their_backward_on_the_host(gpu: GPUDevice) -> None:
    """The same gradients to 1e-5 over three steps; sources stay readable; live bytes are flat."""
    here, there = Net(), Net()
    live = []
    for number in range(6):
        x = images(number)
        here.step(x)
        before = gpu.recorder.host_calls
        with gb.fallback("conv2d.backward", "host"):
            there.step(x)
        assert gpu.recorder.host_calls == before + 2
        for mine, theirs in zip(here.model.parameters(), there.model.parameters(), strict=True):
            assert mine.grad is not None
            assert theirs.grad is not None
            scale = np.abs(mine.grad.numpy()).max()
            np.testing.assert_allclose(theirs.grad.numpy(), mine.grad.numpy(), rtol=0, atol=1e-5 * scale)
        np.testing.assert_array_equal(x.numpy(), images(number).numpy())
        del x
        live.append(memory.stats().in_use_bytes)
    assert live[2:] == [live[2]] * 4


def test_a_plan_has_its_segments(gpu: GPUDevice) -> None:
    """A captured step with host calls inside equals the eager one bit by bit; the table is part of the signature."""
    eager, compiled = Net(), Net()
    step = ad.compiled(compiled.step)
    with gb.fallback("conv2d.backward", "host"):
        for number in range(4):
            same(eager.step(images(number)), step(images(number)))
        assert (step.stats().captures, step.stats().replays, step.stats().host_calls) == (1, 3, 6)
        assert "3 submits" in step.explain()
        assert "conv2d.backward on the host" in step.explain()
    before = gpu.recorder.host_calls
    for number in range(4, 7):
        same(eager.step(images(number)), step(images(number)))
    assert gpu.recorder.host_calls == before
    assert (step.stats().captures, step.stats().replays) == (2, 5)
    with gb.fallback("conv2d.backward", "host"):
        same(eager.step(images(7)), step(images(7)))
    assert step.stats().captures == 2
    for mine, theirs in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_training_with_every_op_on_the_host(gpu: GPUDevice) -> None:
    """ "*": parameters as with kernels, to 1e-5."""
    here, there = Net(), Net()
    with gb.fallback("*", "host"), gb.fallback("square", "device"):
        for number in range(3):
            there.step(images(number))
    for number in range(3):
        here.step(images(number))
    for mine, theirs in zip(here.model.parameters(), there.model.parameters(), strict=True):
        np.testing.assert_allclose(theirs.numpy(), mine.numpy(), rtol=0, atol=1e-5)


def test_modes_are_set_and_restored(gpu: GPUDevice) -> None:
    x = gb.array([1.0, 2.0])

    def on_host(run: Any) -> int:
        before = gpu.recorder.host_calls
        run()
        return gpu.recorder.host_calls - before

    setting = gb.fallback("exp", "host")
    assert on_host(lambda: gb.exp(x)) == 1
    with gb.fallback(ops.exp, "device"):
        assert on_host(lambda: gb.exp(x)) == 0
    assert on_host(lambda: gb.exp(x)) == 1
    setting.__exit__()
    assert on_host(lambda: gb.exp(x)) == 0
    with gb.fallback("*.forward", "host"), gb.fallback("log", "device"):
        assert on_host(lambda: gb.exp(x)) == 1
        assert on_host(lambda: gb.log(x)) == 0
        assert on_host(lambda: gb.reshape(x, (2, 1))) == 0
    half = gb.astype(x, "float16")
    with gb.fallback("exp", "host"):
        y = gb.exp(half)
    assert y.dtype is gb.float16
    np.testing.assert_allclose(y.numpy(), np.exp([1.0, 2.0]), rtol=1e-3)


@pytest.mark.parametrize(
    ("op", "mode", "text"),
    [
        ("cov2d", "host", "fallback: no op 'cov2d'; there is conv2d"),
        ("conv2d", "cpu", "fallback: no mode 'cpu'; there are device, host, error"),
        ("reshape", "host", "fallback: reshape is a view of the same memory and computes nothing"),
        ("argmax.backward", "host", "fallback: argmax has no gradient"),
        ("setitem", "host", "fallback: no op 'setitem'"),
        (3, "host", "fallback: takes an op or its name, not 3"),
    ],
)
def test_a_wrong_name_or_mode_is_told(op: Any, mode: str, text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        gb.fallback(op, mode)


def test_the_environment() -> None:
    """Several settings; what is wrong names the variable."""
    given = {"GPU_BACKEND_FALLBACK": " conv2d.backward=host, softmax = error,"}
    before = table.modes
    read_environment(given.get)
    try:
        assert table.mode("conv2d", "backward") == "host"
        assert table.mode("conv2d", "forward") == "device"
        assert table.mode("softmax", "forward") == table.mode("softmax", "backward") == "error"
    finally:
        table.change(dict.fromkeys(table.modes.keys() - before.keys(), None))
    for wrong, text in (("conv2d", "'conv2d' is not op=mode"), ("cov2d=host", "no op 'cov2d'"), ("exp=gpu", "no mode")):
        with pytest.raises(ValueError, match=f"GPU_BACKEND_FALLBACK: {text}"):
            read_environment({"GPU_BACKEND_FALLBACK": wrong}.get)


def test_the_first_call_warns_on_stderr(adapter: GPUDevice) -> None:
    """One warning per op, at the user's line, in a process that configured no logging."""
    program = textwrap.dedent("""
        import autodiff as ad
        x = ad.tensor([[1.0, 2.0]], requires_grad=True)
        for _ in range(3):
            y = x.softmax(1)  # here
            (y * y).sum().backward()
    """)
    environment = {**os.environ, "GPU_BACKEND_FALLBACK": "softmax=host", "GPU_BACKEND_DEVICE": adapter.name}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.count("HostFallbackWarning") == 2
    said = "is set to run there by gpu_backend.fallback: numpy computes it on the host"
    assert f"<string>:5: HostFallbackWarning: softmax.forward {said}" in done.stderr
    assert f"<string>:6: HostFallbackWarning: softmax.backward {said}" in done.stderr


def test_a_profiler_has_a_row(gpu: GPUDevice) -> None:
    x = gb.array(np.ones((20, 30)))
    with gb.fallback("softmax", "host"), profiler.profile(gpu) as measured:
        gb.softmax(x, axis=1)
    assert measured.host_calls["softmax.forward on the host"].calls == 1
    assert "softmax.forward on the host" in measured.table()


BROKEN = """
// uses: lib/index
struct Params { size: u32, }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn forward(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < params.size) { y[id.x] = sqrt(no_such_thing); }
}
"""


@pytest.fixture
def broken_shader(gpu: GPUDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Softmax kernels that no adapter builds, for as long as a test runs."""
    import wgsl

    read = wgsl.read
    monkeypatch.setattr(wgsl, "read", lambda name: BROKEN if name == "softmax" else read(name))
    monkeypatch.setattr(gpu.pipelines, "_kernels", {})
    monkeypatch.setattr(gpu.pipelines, "_modules", {})
    host_call._told.discard("softmax.forward")
    load.cache_clear()
    yield
    load.cache_clear()
    broken_kernels(gpu).clear()


@pytest.mark.usefixtures("broken_shader")
@pytest.mark.filterwarnings("default::gpu_backend.HostFallbackWarning")
def test_a_pipeline_that_cannot_be_built_falls_back(gpu: GPUDevice) -> None:
    """By itself, with a warning that says why; the next call does not try again; nothing is left allocated."""
    x = gb.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    right = ops.softmax.host_forward(x.numpy(), axis=1)[0]
    before = memory.stats().in_use_bytes
    with pytest.warns(gb.HostFallbackWarning) as told:
        y = gb.softmax(x, axis=1)
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith(f"softmax.forward has a kernel that cannot be built on {gpu.name} (")
    assert "no_such_thing" in text
    assert told[0].filename == __file__
    np.testing.assert_allclose(y.numpy(), right, rtol=1e-6)
    misses = gpu.pipelines.misses
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(gb.softmax(x, axis=1).numpy(), right, rtol=1e-6)
    assert gpu.pipelines.misses == misses
    del y
    assert memory.stats().in_use_bytes == before


@pytest.mark.usefixtures("broken_shader")
def test_a_pipeline_that_fails_during_a_capture(gpu: GPUDevice) -> None:
    """The first call falls back in the middle of the capture, and replays go on as it did."""

    @ad.compiled
    def double_softmax(x: ad.Tensor) -> ad.Tensor:
        return (x * 2.0).softmax(1) * 3.0

    for number in range(3):
        x = np.random.default_rng(number).standard_normal((2, 5)).astype(np.float32)
        right = 3 * ops.softmax.host_forward(2 * x, axis=1)[0]
        np.testing.assert_allclose(double_softmax(ad.tensor(x)).numpy(), right, rtol=1e-6)
    assert (double_softmax.stats().captures, double_softmax.stats().replays) == (1, 2)


@pytest.mark.usefixtures("broken_shader")
def test_error_never_falls_back(gpu: GPUDevice) -> None:
    """The adapter's own refusal, with its lines; or the want of a kernel."""
    x = gb.array(np.ones((2, 3)))
    with gb.fallback("softmax", "error"), pytest.raises(gb.PipelineError, match="no_such_thing"):
        gb.softmax(x, axis=1)
    gb.softmax(x, axis=1)  # by default it falls back
    with gb.fallback("softmax.forward", "error"), pytest.raises(gb.PipelineError, match="no_such_thing"):
        gb.softmax(x, axis=1)  # and still not if that is forbidden
    bare = gb.Op("bare", ops.exp.spec, ops.exp.host_forward)
    with gb.fallback(bare, "error"), pytest.raises(gb.FallbackError, match=r"bare\.forward has no kernel, and its"):
        bare(x)


def test_other_errors_do_not_fall_back(gpu: GPUDevice) -> None:
    """What is wrong with a call stays an error of the call, in every mode."""
    calls = gpu.recorder.host_calls
    for mode in ("device", "host", "error"):
        with gb.fallback("conv2d", mode), pytest.raises(gb.ShapeError, match="conv2d: the input has 3 channels"):
            gb.conv2d(gb.zeros((1, 3, 5, 5)), gb.zeros((2, 4, 3, 3)))
    assert gpu.recorder.host_calls == calls


def test_threads_see_whole_tables() -> None:
    """Settings of many threads at once: each finds what it set of its own op."""
    names = ["exp", "log", "sin", "cos"]
    wrong: list[str] = []

    def work(name: str) -> None:
        for _ in range(200):
            with gb.fallback(name, "host"):
                if table.mode(name, "forward") != "host":
                    wrong.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
