"""Whether a device still lives: shared by all that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import DeviceLostError

REMEDY = "gpu_backend.reset_device(x.device) opens a fresh one"


class Health:
    """``ended`` is empty for as long as the device lives, then it says why it does not."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = ""

    def end(self, why: str) -> None:
        """The device is gone. Only the first reason is kept."""
        self.ended = self.ended or why

    def check(self) -> None:
        """DeviceLostError once the device is gone."""
        if self.ended:
            raise DeviceLostError(self.ended)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Calls to wgpu in the body of this ``with`` raise DeviceLostError if the device is gone or goes."""
        import wgpu

        self.check()
        try:
            yield
        except wgpu.GPUError as error:
            self.raise_if_lost(error)
            raise

    def raise_if_lost(self, error: Exception) -> None:
        """DeviceLostError if an error of wgpu says that the device is gone."""
        if "device is lost" in str(error).lower():
            self.end(f"the device was lost, and every array on it. {REMEDY}")
            raise DeviceLostError(self.ended) from error
