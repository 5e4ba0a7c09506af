"""Adapters: what the machine has, which one a request means, and the WebGPU device opened on it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from .errors import DeviceError

# WebGPU's default limits, so that what runs here runs on every adapter; only buffer sizes are raised to the adapter's.
PORTABLE_LIMITS = {
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroup-storage-size": 16384,
    "max-storage-buffers-per-shader-stage": 8,
    "max-compute-workgroups-per-dimension": 65535,
}
RAISED_LIMITS = ("max-buffer-size", "max-storage-buffer-binding-size")
WANTED_FEATURES = ("shader-f16", "timestamp-query", "subgroup")

_HARDWARE_ORDER = {"DiscreteGPU": 0, "IntegratedGPU": 1, "Unknown": 2, "unknown": 2, "VirtualGPU": 3}


@dataclass(frozen=True)
class Adapter:
    """One way to a GPU, or to software that acts as one.

    ``name`` is the device as its driver calls it, ``backend`` the API below WebGPU, ``driver`` name and version of the
    driver, ``kind`` ``"hardware"`` or ``"software"``.
    """

    name: str
    backend: str
    driver: str
    kind: str
    rank: int
    gpu: Any

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells one adapter from another: name, backend, driver."""
        return self.name, self.backend, self.driver

    @property
    def summary(self) -> str:
        """One line: name, driver, backend, kind."""
        return ", ".join(part for part in (self.name, self.driver, self.backend, self.kind) if part)

    @property
    def limits(self) -> dict[str, int]:
        """The adapter's own limits, by WebGPU's names in kebab case."""
        return dict(self.gpu.limits)

    @property
    def features(self) -> frozenset[str]:
        """The adapter's own features."""
        return frozenset(self.gpu.features)


def adapters() -> list[Adapter]:
    """Every usable adapter, hardware first, discrete before integrated.

    OpenGL adapters are left out, since they lack parts of WebGPU; set WGPU_BACKEND_TYPE=OpenGL to use one all the same.
    """
    wgpu = _wgpu()
    found = [_describe(gpu) for gpu in wgpu.gpu.enumerate_adapters_sync()]
    backend = os.environ.get("WGPU_BACKEND_TYPE", "").strip().lower()
    usable = [a for a in found if (a.backend.lower() == backend if backend else a.backend != "OpenGL")]
    return sorted(usable, key=lambda adapter: adapter.rank)


def choose(request: str) -> Adapter | None:
    """The adapter that ``request`` means; None where the answer is the host.

    ``""``: hardware, else software, else None. ``"hardware"`` or ``"software"``: that kind. Anything else is a piece of
    an adapter's summary, in any case. DeviceError lists what there is.
    """
    chosen_by_wgpu = os.environ.get("WGPUPY_WGPU_ADAPTER_NAME", "")
    if not request and chosen_by_wgpu:
        try:
            return _describe(_wgpu().gpu.request_adapter_sync(power_preference="high-performance"))
        except ValueError as error:
            raise DeviceError(f"WGPUPY_WGPU_ADAPTER_NAME: {error} {_listing(adapters())}") from error
    available = adapters()
    if not request:
        return available[0] if available else None
    wanted = request.lower()
    for adapter in available:
        if wanted == adapter.kind or (wanted not in ("hardware", "software") and wanted in adapter.summary.lower()):
            return adapter
    raise DeviceError(f"no adapter fits {request!r}. {_listing(available)} {install_hint()}")


def open_gpu(adapter: Adapter) -> Any:
    """A WebGPU device on ``adapter``, with portable limits, the adapter's buffer sizes, and the wanted features."""
    own = adapter.limits
    limits = {name: min(value, own[name]) for name, value in PORTABLE_LIMITS.items()}
    limits.update({name: own[name] for name in RAISED_LIMITS})
    features = [feature for feature in WANTED_FEATURES if feature in adapter.features]
    try:
        return adapter.gpu.request_device_sync(
            label=f"shadertape on {adapter.name}", required_features=features, required_limits=limits
        )
    except Exception as error:  # wgpu-py raises a plain RuntimeError with the driver's text
        raise DeviceError(f"the adapter {adapter.summary} gave no device: {error}") from error


def timestamp_period(gpu: Any) -> float:
    """Nanoseconds that one tick of a timestamp stands for."""
    try:
        from wgpu.backends.wgpu_native import lib

        return float(lib.wgpuQueueGetTimestampPeriod(gpu.queue._internal))
    except (ImportError, AttributeError):  # another wgpu-py: WebGPU says that timestamps are nanoseconds
        return 1.0


def install_hint() -> str:
    """One sentence: what to install where no adapter is found."""
    if sys.platform.startswith("linux"):
        return "On Linux the package mesa-vulkan-drivers brings drivers and a software adapter: run `shadertape setup`."
    if sys.platform == "darwin":
        return "macOS brings Metal; an adapter is missing only inside some virtual machines."
    return "Windows brings Direct3D 12; an adapter is missing only inside some virtual machines."


def versions() -> dict[str, str]:
    """Versions of wgpu-py and of the wgpu-native library below it."""
    wgpu = _wgpu()
    native = ".".join(map(str, wgpu.backends.wgpu_native.lib_version_info))
    return {"wgpu-py": wgpu.__version__, "wgpu-native": native}


def _listing(available: list[Adapter]) -> str:
    names = "; ".join(adapter.summary for adapter in available) or "no adapter"
    return f"There is: {names}; and host (numpy)."


def _describe(gpu: Any) -> Adapter:
    info = gpu.info
    kind = "software" if info["adapter_type"] == "CPU" else "hardware"
    rank = _HARDWARE_ORDER.get(info["adapter_type"], 4)
    return Adapter(info["device"], info["backend_type"], info["description"], kind, rank, gpu)


def _keep_a_shader_cache() -> None:
    """Give Mesa a cache in the temporary folder where it has none, as in a container without a home.

    Without one, lavapipe of Mesa 22.3.6 compiles a kernel at each dispatch: 70 ms instead of 0.1.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
    if sys.platform.startswith("linux") and not (os.path.isdir(home) and os.access(home, os.W_OK)):
        os.environ.setdefault("MESA_SHADER_CACHE_DIR", os.path.join(tempfile.gettempdir(), "mesa-shader-cache"))


_instance_made = False


def _wgpu() -> Any:
    """wgpu, imported at first use, its instance kept from starting OpenGL unless that was asked for."""
    global _instance_made
    import wgpu
    from wgpu.backends.wgpu_native import extras

    if not _instance_made:
        _instance_made = True
        _keep_a_shader_cache()
        if not os.environ.get("WGPU_BACKEND_TYPE") and not os.environ.get("WGPUPY_WGPU_ADAPTER_NAME"):
            # RuntimeError: the program made an instance before us; OpenGL is then filtered out by adapters()
            with contextlib.suppress(RuntimeError):
                extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
    return wgpu
