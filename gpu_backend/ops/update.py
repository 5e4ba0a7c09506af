"""In-place changes of memory that stays where it is. No gradient flows through them.

Each bumps the version of its target, so that a tape which saved the old values notices, and writes only to memory that
no other storage shares.
"""

from __future__ import annotations

import numpy as np

from ..array import Array, allocate, overwriting, write
from ..cast import cast
from ..device import same_device
from ..errors import DtypeError, ShapeError
from ..spec import float16, float32
from .broadcast import label


def assign(target: Array, source: Array) -> None:
    """target <- source, of equal shape and element type.

    Persistent memory is overwritten where it lies; other memory is exchanged for that of ``source``, and the two share
    it until one of them is written.
    """
    match("assign", target, source)
    with target.device.lock:
        if target.storage is source.storage:
            return
        target.device.recorder.claim(target.storage)
        if target.storage.persistent:
            copy_into(target, source)
        else:
            target.storage.adopt(clone(source).storage)
            target.storage.version += 1


def persist(x: Array, label: str) -> Array:
    """``x`` with memory that no other storage shares, and that stays where it is for as long as it lives."""
    with x.device.lock:
        own(x)
        x.storage.persist(label)
    return x


def own(*arrays: Array) -> None:
    """Make sure that no other storage shares the memory of each array: if one does, the array gets a copy."""
    for x in arrays:
        x.device.recorder.claim(x.storage)
        if x.storage.shared:
            x.storage.adopt(copy(x).storage)


def clone(x: Array) -> Array:
    """The elements of ``x``, copied when either of the two is first written; persistent memory is copied at once."""
    with x.device.lock:
        x.device.health.check()
        x.device.recorder.claim(x.storage)
        if x.storage.persistent:
            return copy(x)
        return Array(x.device.pool.retain(x.storage), x.shape, x.dtype, x.device)


def copy(x: Array) -> Array:
    """The elements of ``x`` in memory of their own."""
    with x.device.lock:
        y = allocate(x.shape, x.dtype, x.device, x.storage.label)
        copy_into(y, x)
        return y


def copy_into(target: Array, source: Array) -> None:
    """Overwrite the memory of ``target`` with the elements of ``source``, where it lies."""
    match("copy", target, source)
    device = target.device
    with device.lock:
        if target.storage.buffer is source.storage.buffer:
            return
        if device.is_host:
            write(target, source.host())
            return
        eight = (0,) * 8
        kernel = device.kernel("copy", "duplicate", label=label("copy", "duplicate", target.dtype))
        with overwriting(target) as memory:
            words = target.nbytes // 4
            device.recorder.record_over(
                kernel,
                -(-words // 4),
                x=source,
                y=memory,
                shape=eight,
                strides=eight,
                size=words,
                rank=0,
                number=0,
            )


def accumulate(target: Array, source: Array) -> None:
    """target <- target + source, floats, where it lies."""
    match("accumulate", target, source)
    device = target.device
    if target.dtype is float16:
        total = cast(target, float32)
        accumulate(total, cast(source, float32))
        copy_into(target, cast(total, float16))
        return
    with device.lock:
        own(target)
        source = apart(source, target)
        if device.is_host:
            with np.errstate(all="ignore"):
                target.host()[...] += source.host()
        else:
            kernel = device.kernel("gradient", "accumulate", label=label("accumulate", "accumulate", target.dtype))
            device.recorder.record_over(kernel, target.size, y=target, x=source, size=target.size, first=0, bound=0.0)
        target.storage.version += 1


def apart(source: Array, target: Array) -> Array:
    """``source``, or a copy where it lies in the memory of ``target``, which a kernel may not bind twice to write."""
    return copy(source) if source.storage.buffer is target.storage.buffer else source


def match(name: str, target: Array, source: Array) -> None:
    same_device(name, target.device, source.device)
    target.device.health.check()
    target.storage.check()
    source.storage.check()
    if target.shape != source.shape:
        raise ShapeError(f"{name}: shapes differ: {target.shape} and {source.shape}")
    if target.dtype is not source.dtype:
        raise DtypeError(f"{name}: element types differ: {target.dtype} and {source.dtype}")
