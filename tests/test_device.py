"""Which device a request means, and what a machine without an adapter says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu_backend as gb
from gpu_backend import DeviceError
from gpu_backend import adapter as adapter_module
from gpu_backend.adapter import PORTABLE_LIMITS, Adapter
from gpu_backend.array import write
from gpu_backend.device import GPUDevice


def fake(name: str, kind: str, backend: str = "Vulkan") -> Any:
    info = {"device": name, "backend_type": backend, "description": "driver 1.0", "adapter_type": kind}
    return SimpleNamespace(info=info, limits={}, features=set())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an OpenGL adapter, lavapipe, an integrated and a discrete GPU, in that order."""
    found = [
        fake("GeForce", "DiscreteGPU", "OpenGL"),
        fake("llvmpipe", "CPU"),
        fake("Intel Iris", "IntegratedGPU"),
        fake("GeForce", "DiscreteGPU"),
    ]
    gpu = SimpleNamespace(enumerate_adapters_sync=lambda: found)
    monkeypatch.setattr(adapter_module, "_wgpu", lambda: SimpleNamespace(gpu=gpu))
    for name in ("WGPU_BACKEND_TYPE", "WGPUPY_WGPU_ADAPTER_NAME"):
        monkeypatch.delenv(name, raising=False)


def chosen(request: str) -> Adapter:
    adapter = adapter_module.choose(request)
    assert adapter is not None
    return adapter


@pytest.mark.usefixtures("machine")
def test_the_best_adapter_comes_first() -> None:
    assert [a.name for a in adapter_module.adapters()] == ["GeForce", "Intel Iris", "llvmpipe"]
    assert chosen("").name == "GeForce"
    assert chosen("").backend == "Vulkan"
    assert chosen("hardware").name == "GeForce"
    assert chosen("SOFTWARE").name == "llvmpipe"
    assert chosen("iris").name == "Intel Iris"
    assert chosen("driver 1.0").name == "GeForce"


@pytest.mark.usefixtures("machine")
def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"no adapter fits 'radeon'. There is: GeForce, .*; Intel Iris, .*; llvmpipe"):
        adapter_module.choose("radeon")


@pytest.mark.usefixtures("machine")
def test_wgpu_py_own_variables_keep_working(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGPU_BACKEND_TYPE", "OpenGL")
    assert [a.backend for a in adapter_module.adapters()] == ["OpenGL"]


def test_without_an_adapter_the_host_is_used_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PO01: the warning names what to install; asking for an adapter raises."""
    gpu = SimpleNamespace(enumerate_adapters_sync=list)
    monkeypatch.setattr(adapter_module, "_wgpu", lambda: SimpleNamespace(gpu=gpu))
    monkeypatch.setattr(sys, "platform", "linux")
    from gpu_backend.device import _open

    with pytest.warns(
        RuntimeWarning, match="numpy computes on the host, slowly. On Linux the package mesa-vulkan-drivers"
    ):
        assert _open("").is_host
    with pytest.raises(DeviceError, match=r"no adapter fits 'software'. There is: no adapter; and host"):
        _open("software")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _open("host").is_host


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    merged = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", program], env=merged, capture_output=True, text=True, check=False)


def test_the_variable_chooses_the_default(adapter: GPUDevice) -> None:
    program = "import gpu_backend as gb; print(gb.device().name, gb.device().kind)"
    assert run(program, GPU_BACKEND_DEVICE="HOST").stdout == "host host\n"
    piece = adapter.name[:5].upper()
    assert run(program, GPU_BACKEND_DEVICE=piece).stdout == f"{adapter.name} {adapter.kind}\n"
    failed = run(program, GPU_BACKEND_DEVICE="nonsense")
    assert failed.returncode == 1
    assert f"no adapter fits 'nonsense'. There is: {adapter.name}" in failed.stderr
    named = run(program, WGPUPY_WGPU_ADAPTER_NAME=adapter.name, GPU_BACKEND_DEVICE="")
    assert named.stdout.startswith(adapter.name)


def test_without_any_driver_a_program_runs_on_the_host_and_says_so() -> None:
    """P-PO01, with a loader that finds no driver."""
    program = "import gpu_backend as gb; print(gb.exp(gb.array([0.0])).tolist())"
    # Both names: an older loader knows only the second.
    done = run(program, GPU_BACKEND_DEVICE="", VK_DRIVER_FILES="/nowhere.json", VK_ICD_FILENAMES="/nowhere.json")
    assert done.stdout == "[1.0]\n", done.stderr
    if sys.platform.startswith("linux"):
        assert "mesa-vulkan-drivers" in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Mesa is a Linux matter")
def test_a_machine_without_a_home_keeps_a_shader_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MESA_SHADER_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    adapter_module._keep_a_shader_cache()
    assert "MESA_SHADER_CACHE_DIR" not in os.environ
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    adapter_module._keep_a_shader_cache()
    assert os.environ["MESA_SHADER_CACHE_DIR"].endswith("mesa-shader-cache")
    monkeypatch.setenv("MESA_SHADER_CACHE_DIR", "mine")
    adapter_module._keep_a_shader_cache()
    assert os.environ["MESA_SHADER_CACHE_DIR"] == "mine"


def test_one_adapter_is_one_device(adapter: GPUDevice) -> None:
    """P-ME11: whoever asks, and however often."""
    seen = []

    def ask() -> None:
        seen.extend(gb.device(adapter.name) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {adapter}
    assert gb.device("host") is gb.device("HOST")


def test_limits_are_portable_but_for_buffer_sizes(adapter: GPUDevice) -> None:
    """P-LM02: WebGPU's defaults for what shaders rely on, the adapter's own for sizes."""
    for name, value in PORTABLE_LIMITS.items():
        assert adapter.limits[name] == min(value, adapter.adapter.limits[name]), name
    for name in ("max-buffer-size", "max-storage-buffer-binding-size"):
        assert adapter.limits[name] == adapter.adapter.limits[name]
    assert adapter.features >= {"timestamp-query"} & adapter.adapter.features


@pytest.mark.no_poison
def test_a_buffer_past_the_default_limits_can_be_had_where_the_adapter_has_it(adapter: GPUDevice) -> None:
    """P-LM02: 300 MiB, more than WebGPU's default of 256 per buffer and 128 per binding."""
    count = 300 * 2**18
    if min(adapter.limits["max-buffer-size"], adapter.limits["max-storage-buffer-binding-size"]) >= 4 * count:
        x = gb.empty(count, device=adapter)
        assert x.storage.buffer.nbytes >= 4 * count
        write(x, np.full(count, 2.0, np.float32))
        assert gb.max(x).item() == 2.0
        del x
        gb.memory.trim(adapter)
    else:
        with pytest.raises(gb.OutOfMemoryError, match="takes 314572800 bytes; the largest buffer"):
            gb.empty(count, device=adapter)


def test_a_device_for_a_while(host: gb.Device) -> None:
    before = gb.device()
    with gb.default_device("host") as device:
        assert device is gb.device() is host
        assert gb.array([1.0]).device is host
    assert gb.device() is before


def test_kernels_of_the_host_do_not_exist(host: gb.Device) -> None:
    with pytest.raises(DeviceError, match="the host device runs numpy twins"):
        host.kernel("copy", "fill")


def test_threads_share_a_device(adapter: GPUDevice) -> None:
    """One recorder, one lock: two threads get right numbers."""
    failures: list[str] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((20, 20)).astype(np.float32)
        for _ in range(20):
            a = gb.array(x, device=adapter)
            got = gb.sum(gb.matmul(a, a), axis=1).numpy()
            if not np.allclose(got, (x @ x).sum(axis=1), atol=1e-3):
                failures.append(str(seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
