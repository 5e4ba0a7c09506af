"""From a list of passes and copies to a command buffer.

``NativeEncoding`` calls functions of wgpu-native on the handles of wgpu-py, a third of the time per dispatch;
``PublicEncoding`` uses the public API, where the handles are not as expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A dispatch ready to encode: its kernel and bind group, the offset of its Params, its grid."""

    kernel: Any
    group: Any
    offset: int
    x: int
    y: int


class Transfer(NamedTuple):
    """A copy from the start of one buffer into another."""

    source: Any
    target: Any
    offset: int
    nbytes: int


class Pass:
    """Dispatches of one compute pass. ``rows`` is what an encoding made of them, if they are encoded more than once.

    ``seconds`` has the time of each dispatch, in all ``runs`` that a profiler has seen.
    """

    __slots__ = ("calls", "rows", "runs", "seconds")

    def __init__(self, calls: Sequence[tuple[Any, ...]]) -> None:
        self.calls = calls
        self.rows: list[tuple[Any, ...]] | None = None
        self.seconds: list[float] | None = None
        self.runs = 0


Part = Pass | Transfer


class PublicEncoding:
    """Through the public API of wgpu-py."""

    kind = "public"

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu

    def encode(self, parts: Sequence[Part], label: str) -> Any:
        """A command buffer with these parts in order. GPUError if one of them is refused."""
        encoder = self._gpu.create_command_encoder(label=label)
        for part in parts:
            if isinstance(part, Transfer):
                encoder.copy_buffer_to_buffer(part.source, 0, part.target, part.offset, part.nbytes)
            elif part.calls:
                self._encode_pass(encoder, part, label)
        return encoder.finish(label=label)

    def prepare(self, part: Pass) -> None:
        """Work out once what a pass needs that is encoded many times: here nothing."""

    def _encode_pass(self, encoder: Any, part: Pass, label: str) -> None:
        compute = encoder.begin_compute_pass(label=label)
        last = None
        for kernel, group, offset, x, y in part.calls:
            if kernel is not last:
                compute.set_pipeline(kernel.pipeline)
                last = kernel
            compute.set_bind_group(0, group, () if kernel.uniform_number is None else (offset,))
            compute.dispatch_workgroups(x, y)
        compute.end()


class NativeEncoding:
    """Through functions of wgpu-native. ImportError or AttributeError where wgpu-py's insides differ."""

    kind = "native"

    def __init__(self, gpu: Any) -> None:
        from wgpu.backends.wgpu_native import ffi, lib
        from wgpu.backends.wgpu_native._api import error_handler, libf
        from wgpu.backends.wgpu_native._helpers import ERROR_TYPES

        self._ffi = ffi
        self._errors, self._types = error_handler, ERROR_TYPES
        self._device = gpu._internal
        self._create = libf.wgpuDeviceCreateCommandEncoder  # raises, once the device is lost
        self._copy = lib.wgpuCommandEncoderCopyBufferToBuffer
        self._begin, self._end = lib.wgpuCommandEncoderBeginComputePass, lib.wgpuComputePassEncoderEnd
        self._set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        self._set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
        self._dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        self._finish = lib.wgpuCommandEncoderFinish
        self._release_pass = lib.wgpuComputePassEncoderRelease
        self._release_encoder = lib.wgpuCommandEncoderRelease
        self.release = lib.wgpuCommandBufferRelease
        self._offsets: dict[int, Any] = {}

    def encode(self, parts: Sequence[Part], label: str) -> Any:
        """The handle of a command buffer, which the caller has to ``release``. GPUError if a part is refused."""
        encoder = self._create(self._device, self._ffi.NULL)
        commands = error = None
        is_done = False
        self._errors.capture(label)
        try:
            for part in parts:
                if isinstance(part, Transfer):
                    source, target = part.source._internal, part.target._internal
                    self._copy(encoder, source, 0, target, part.offset, part.nbytes)
                elif part.calls:
                    self._encode_pass(encoder, part.rows or self._rows(part.calls))
            commands = self._finish(encoder, self._ffi.NULL)
            is_done = True
        finally:
            error = self._errors.release(label)
            self._release_encoder(encoder)
            if commands and (error is not None or not is_done):
                self.release(commands)
        if error is not None:
            raise self._types[error[0]](error[1])
        return commands

    def prepare(self, part: Pass) -> None:
        """Work out once what a pass needs that is encoded many times."""
        part.rows = self._rows(part.calls)

    def _rows(self, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        offsets = self._offsets
        rows = []
        last = None
        for kernel, group, offset, x, y in calls:
            pipeline = None if kernel is last else kernel.pipeline._internal
            last = kernel
            count = int(kernel.uniform_number is not None)
            pointer = offsets.get(offset)
            if pointer is None:
                pointer = offsets[offset] = self._ffi.new("uint32_t[]", [offset])
            rows.append((pipeline, group._internal, count, pointer, x, y))
        return rows

    def _encode_pass(self, encoder: Any, rows: list[tuple[Any, ...]]) -> None:
        set_pipeline, set_bind_group, dispatch = self._set_pipeline, self._set_bind_group, self._dispatch
        compute = self._begin(encoder, self._ffi.NULL)
        try:
            for pipeline, group, count, pointer, x, y in rows:
                if pipeline is not None:
                    set_pipeline(compute, pipeline)
                set_bind_group(compute, 0, group, count, pointer)
                dispatch(compute, x, y, 1)
            self._end(compute)
        finally:
            self._release_pass(compute)
