"""Every exception this package raises on purpose, each a subclass of the built-in one a caller would catch."""

from __future__ import annotations


class ShapeError(ValueError):
    """Shapes, axes or extents do not fit the op. The text names op, rule and both values."""


class DtypeError(TypeError):
    """The op does not take this element type, or two element types do not go together."""


class DeviceError(RuntimeError):
    """No adapter fits the request, or arrays of two devices meet in one op."""


class DeviceLostError(DeviceError):
    """The device is gone, and with it every array on it. ``gpu_backend.reset_device()`` opens a fresh one."""


class CaptureError(RuntimeError):
    """A function cannot be captured: it does something that a replay of its dispatches would not do."""


class DivergenceError(RuntimeError):
    """Two ways to compute the same thing gave different results. The text names the first difference."""


class ReleasedBufferError(RuntimeError):
    """An array is used whose buffer was released, or one is released a second time."""


class OutOfMemoryError(MemoryError):
    """A buffer cannot be had: over a limit of the device, or no memory left."""


class ShaderError(RuntimeError):
    """A WGSL text does not parse, does not validate, or is called with names it does not declare.

    ``label``, ``message`` and ``excerpt`` (numbered source lines around the fault) are also attributes.
    """

    def __init__(self, label: str, message: str, excerpt: str = "") -> None:
        self.label = label
        self.message = message
        self.excerpt = excerpt
        super().__init__(f"{label}: {message}" + (f"\n{excerpt}" if excerpt else ""))


class PipelineError(ShaderError):
    """An adapter, or WebGPU, refuses a shader or the pipeline made of it."""

    @property
    def reason(self) -> str:
        """What the driver says, in a line."""
        lines = (line.strip() for line in self.message.splitlines())
        said = [line for line in lines if line and not line.startswith(("Validation Error", "Caused by", "In wgpu"))]
        return said[0] if said else self.message.strip()


class FallbackError(RuntimeError):
    """An op would have to be computed on the host, and its fallback is set to "error"."""
