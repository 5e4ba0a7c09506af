"""Work on the host in the middle of work on a device: what an op does without a kernel, or as its ``fallback`` says.

The elements come back, numpy computes, the results go up again. ``recorder.host_calls`` counts such calls, a profiler
has a row of each, a warning tells of the first of each op, and a capture keeps them: a replay makes them again between
two submits.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .array import Array, allocate, bytes_of, elements_of
from .capture import active, paused, users_line
from .device import Device
from .observe import observed
from .spec import DTYPES, DType, Shape, float32
from .submission import Bytes

HostArray = npt.NDArray[Any]
HostFunction = Callable[[list[HostArray]], list[HostArray]]


class HostFallbackWarning(UserWarning):
    """numpy computes an op on the host; the text says which, and why."""


class _Like(NamedTuple):
    """What bytes of an array are to be read as."""

    shape: Shape
    dtype: DType
    device: Device


_told: set[str] = set()


def call_on_host(label: str, function: HostFunction, inputs: Sequence[Array], device: Device, why: str) -> list[Array]:
    """The arrays that ``function`` makes of the elements of ``inputs``, on ``device``; ``why`` it is not done there.

    ``function`` depends on nothing but the elements: a replay calls it with others. It may not change them.
    """
    if label not in _told:
        _told.add(label)
        warnings.warn_explicit(
            f"{label} {why}: numpy computes it on the host, which costs a read-back and an upload each time",
            HostFallbackWarning,
            *users_line(),
        )
    recorder = device.recorder
    likes = [_Like(x.shape, x.dtype, x.device) for x in inputs]
    made: list[HostArray] = []

    def on_bytes(contents: list[Bytes]) -> list[Bytes]:
        arrays = [elements_of(content, like) for content, like in zip(contents, likes, strict=True)]
        made[:] = [_native(y) for y in function(arrays)]
        return [bytes_of(y, device) for y in made]

    with device.lock:
        for x in inputs:
            recorder.claim(x.storage)
        capture = active.capture
        with paused():
            reads = [recorder.start_download(x.storage, x.nbytes) for x in inputs]
            contents = [read.content() for read in reads]
            start = time.perf_counter()
            results = on_bytes(contents)
            if observed.by is not None:
                nbytes = sum(one.nbytes for one in (*contents, *results))
                observed.by.host_call(label, device, start, nbytes)
            outputs = [allocate(y.shape, _dtype(y), device, label) for y in made]
            for y, content in zip(outputs, results, strict=True):
                recorder.upload(y.storage, content)
        made.clear()
        recorder.host_calls += 1
        if capture is not None and capture is active.capture:
            for y in outputs:
                capture.add(y.storage)
            storages = [y.storage for y in outputs]
            capture.host_call(label, on_bytes, [(x.storage, x.nbytes) for x in inputs], storages)
    return outputs


def _dtype(elements: HostArray) -> DType:
    return next((dtype for dtype in DTYPES if dtype.numpy == elements.dtype), float32)


def _native(elements: Any) -> HostArray:
    given = np.asarray(elements)
    return np.asarray(given, _dtype(given).numpy)
