"""The profiler: kernels, ops, host calls, memory, the trace; and that it changes nothing but the time."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend.device import GPUDevice
from gpu_backend.op import Op
from gpu_backend.profiler import KEPT_SUBMITS, QUERIES, profile
from gpu_backend.spec import Spec
from gpu_backend.submission import NativeSubmissions, PublicSubmissions

pytestmark = pytest.mark.no_poison  # the fills would be profiled too


def test_kernels_and_ops_are_counted_with_their_bytes(gpu: GPUDevice) -> None:
    x = gb.array(np.linspace(-1, 1, 1000, dtype=np.float32))
    with profile() as p:
        for _ in range(3):
            y = gb.exp(x)
        y.numpy()
    assert p.clock == "gpu"
    assert p.kernels["exp.forward[f32]"].calls == 3
    assert p.kernels["exp.forward[f32]"].nbytes == 3 * (4096 + 4096)  # whole buffers: 1,000 numbers in 4,096 bytes each
    assert 0 < p.kernels["exp.forward[f32]"].seconds < p.seconds
    assert p.ops["exp"].calls == 3
    assert 0 < p.ops["exp"].seconds < p.seconds
    np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()), rtol=1e-6)
    assert p.memory[-1].in_use_bytes >= 8192


def test_a_slower_kernel_takes_longer(gpu: GPUDevice) -> None:
    """Times are those of the kernels, not of the submits they lie in."""
    small, large = (gb.array(np.ones((n, n), np.float32)) for n in (16, 384))
    gb.matmul(small, small).numpy()
    gb.matmul(large, large).numpy()
    with profile() as p:
        a, b = gb.matmul(small, small), gb.exp(small)
        c = gb.matmul(large, large)
        c.numpy()
    del a, b
    kernels = [event for event in p.events if event.track == "GPU"]
    assert [event.name == "exp.forward[f32]" for event in kernels] == [False, True, False]
    assert kernels[2].seconds > 5 * kernels[0].seconds
    assert kernels[0].start <= kernels[1].start <= kernels[2].start
    host = [event for event in p.events if event.track != "GPU"]
    assert all(kernel.start >= host[0].start for kernel in kernels), "no kernel before it was asked for"


def test_the_clock_of_the_gpu_is_laid_on_that_of_the_host(gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another period, so another zero: kernels still begin after they were asked for, and within the profile."""
    monkeypatch.setattr("gpu_backend.profiler.timestamp_period", lambda gpu: 0.5)
    x = gb.array(np.ones(4, np.float32))
    with profile() as p:
        gb.exp(x).numpy()
    op, kernel = sorted(p.events, key=lambda event: event.track == "GPU")
    assert op.start <= kernel.start < p.seconds


@pytest.mark.parametrize("submissions", [NativeSubmissions, PublicSubmissions])
def test_profiled_training_has_the_same_bits(
    submissions: type[NativeSubmissions], adapter: GPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eager and compiled, through native and public submits, on more submits than are kept at once."""
    monkeypatch.setattr(adapter.recorder, "submissions", submissions(adapter.gpu))
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((8, 6)).astype(np.float32) for _ in range(KEPT_SUBMITS + 5)]

    def train(is_compiled: bool) -> list[float]:
        ad.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        optimizer = optim.AdamW(model.parameters(), lr=0.05)
        target = ad.tensor(np.arange(8, dtype=np.int32) % 3)

        def step(x: ad.Tensor) -> ad.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compiled(step) if is_compiled else step
        return [run(ad.tensor(x)).item() for x in batches]

    with gb.default_device(adapter):
        plain = train(False)
        with profile() as p:
            eager, compiled = train(False), train(True)
        after = train(True)
    assert plain == eager == compiled == after
    assert p.kernels["cross_entropy.forward[f32]"].calls == 2 * len(batches)
    assert adapter.recorder.submissions.encoding.kind == submissions.kind


def test_explain_tells_gpu_time_after_a_profile(gpu: GPUDevice) -> None:
    @ad.compiled
    def double(x: ad.Tensor) -> ad.Tensor:
        return (x * 2.0).tanh()

    x = ad.tensor(np.ones(100, np.float32))
    for _ in range(3):
        double(x)
    assert "gpu us" not in double.explain()
    with profile() as p:
        for _ in range(4):
            double(x)
    lines = double.explain().splitlines()
    assert "gpu us" in lines[1]
    column = lines[1].index("gpu us")
    told = [float(line[column:].split()[0]) for line in lines[2:4]]
    means = [p.kernels[name].seconds / 4 * 1e6 for name in ("multiply.forward[f32]", "tanh.forward[f32]")]
    assert told == pytest.approx(means, abs=0.06)


def test_without_timestamps_wall_time_is_told_as_such(gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "features", gpu.features - {"timestamp-query"})
    x = gb.array(np.arange(8, dtype=np.float32))
    with profile() as p:
        y = gb.add(gb.multiply(x, 2.0), 1.0).tolist()
    assert y == [2.0 * i + 1 for i in range(8)]
    assert p.clock == "wall"
    assert p.kernels["multiply.forward[f32]"].calls == 1
    assert p.kernels["multiply.forward[f32]"].seconds > 0
    assert "wall time of each dispatch" in p.table()
    assert "kernel (wall time)" in p.table()


def test_more_dispatches_than_a_query_set_holds(gpu: GPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_backend.profiler.QUERIES", 32)  # the least that can be resolved apart
    x = gb.array(np.ones(4, np.float32))
    with profile() as p:
        for _ in range(40):
            x = gb.add(x, 1.0)
        assert x.tolist() == [41.0] * 4
    assert p.kernels["add.forward[f32]"].calls == 40
    assert all(event.seconds > 0 for event in p.events if event.track == "GPU")
    assert QUERIES == 4096


def test_numpy_in_between_has_a_row(gpu: GPUDevice) -> None:
    def spec(x: gb.Array) -> Spec:
        return Spec(x.shape, x.dtype)

    def host_forward(x: np.ndarray) -> tuple[np.ndarray, tuple[()]]:
        return np.sort(x), ()

    sort = Op("sorted", spec, host_forward)
    x = ad.tensor([3.0, 1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.HostFallbackWarning)
        with profile() as p:
            assert sort(x.array).tolist() == [1.0, 2.0, 3.0]
    times = p.host_calls["sorted.forward on the host"]
    assert (times.calls, times.nbytes) == (1, 24)
    assert "numpy in between" in p.table()


def test_the_host_device_has_ops_and_no_kernels() -> None:
    x = gb.array([1.0, 2.0], device=gb.device("host"))
    with profile("host") as p:
        gb.exp(x)
    assert list(p.ops) == ["exp"]
    assert not p.kernels
    assert p.table().splitlines()[0].endswith("(numpy)")


def test_only_the_device_of_the_profile_is_measured(gpu: GPUDevice) -> None:
    x = gb.array([1.0, 2.0], device=gb.device("host"))
    with profile(gpu) as p:
        gb.exp(x)
    assert not p.ops


def test_profiles_do_not_nest_and_end_with_an_error(gpu: GPUDevice) -> None:
    encoding = gpu.recorder.submissions.encoding
    with pytest.raises(ZeroDivisionError), profile():  # noqa: PT012
        with pytest.raises(gb.DeviceError, match="profiles do not nest"), profile():
            pass
        gb.exp(gb.array([1.0]))
        raise ZeroDivisionError
    assert gpu.recorder.submissions.encoding is encoding
    with profile() as p:
        gb.exp(gb.array([1.0]))
    assert p.ops["exp"].calls == 1


def test_the_table_ranks_and_cuts(gpu: GPUDevice) -> None:
    x = gb.array(np.ones(4, np.float32))
    with profile() as p:
        for op in (gb.exp, gb.tanh, gb.sqrt, gb.sigmoid):
            op(x)
    table = p.table(rows=2)
    assert "and 2 more" in table
    rows = [line for line in table.splitlines() if ".forward[f32]" in line]
    ranked = sorted(p.kernels.values(), key=lambda times: -times.seconds)
    assert [row.split()[0] for row in rows] == [times.name for times in ranked[:2]]


def test_the_trace_is_what_perfetto_reads(gpu: GPUDevice, tmp_path: Path) -> None:
    """Chrome's trace format: complete events with microseconds, names of tracks, counters."""
    with profile() as p:
        gb.exp(gb.array(np.ones(4, np.float32))).numpy()
    p.chrome_trace(tmp_path / "trace.json")
    content = json.loads((tmp_path / "trace.json").read_text())
    events = content["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    kernel = next(event for event in events if event.get("cat") == "kernel")
    op = next(event for event in events if event.get("cat") == "op")
    assert (kernel["name"], op["name"]) == ("exp.forward[f32]", "exp")
    assert kernel["dur"] == pytest.approx(p.kernels["exp.forward[f32]"].seconds * 1e6)
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks[kernel["tid"]] == "GPU"
    assert tracks[op["tid"]].startswith("thread ")
    assert {"in use", "free"} == next(event for event in events if event["ph"] == "C")["args"].keys()
