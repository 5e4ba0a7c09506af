"""In-place changes: what optimizers and the tape do to memory that stays where it is. No gradient flows through them.

Each bumps the version of its target, so that a tape which saved the old values notices, and writes only to memory that
no other storage shares.
"""

from __future__ import annotations

import numpy as np

from ..array import Array, allocate, overwriting, write
from ..device import same_device
from ..errors import DtypeError, ShapeError
from .broadcast import label


def assign(target: Array, source: Array) -> None:
    """target <- source, of equal shape and element type.

    Persistent memory is overwritten where it lies; other memory is exchanged for that of ``source``, and the two share
    it until one of them is written.
    """
    _match("assign", target, source)
    with target.device.lock:
        if target.storage is source.storage:
            return
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
        if x.storage.shared:
            x.storage.adopt(copy(x).storage)


def clone(x: Array) -> Array:
    """The elements of ``x``, copied when either of the two is first written; persistent memory is copied at once."""
    with x.device.lock:
        x.device.health.check()
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
    _match("copy", target, source)
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
            device.recorder.record_over(
                kernel,
                -(-target.size // 4),
                x=source,
                y=memory,
                shape=eight,
                strides=eight,
                size=target.size,
                rank=0,
                number=0,
            )


def accumulate(target: Array, source: Array) -> None:
    """target <- target + source, float32, where it lies."""
    _match("accumulate", target, source)
    device = target.device
    with device.lock:
        own(target)
        source = _apart(source, target)
        if device.is_host:
            with np.errstate(all="ignore"):
                target.host()[...] += source.host()
        else:
            kernel = device.kernel("update", "accumulate", label=label("accumulate", "accumulate", target.dtype))
            device.recorder.record_over(kernel, target.size, y=target, x=source, size=target.size, slot=0)
        target.storage.version += 1


# The state of an optimizer. ``hyper`` is written by the host; ``progress`` has a slot of three per parameter: steps,
# c1, c2, moved on by the device, so that a captured step never holds them as constants.

SGD_HYPER = ("lr", "momentum", "one_minus_dampening", "decay", "nesterov")
ADAMW_HYPER = ("lr", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "eps", "decay")
PROGRESS = ("steps", "c1", "c2")


def sgd_advance(progress: Array, first: int, count: int) -> None:
    """Count one step more for ``count`` parameters from slot ``first`` on. ``progress``: (slots, 3)."""
    device = progress.device
    with device.lock:
        own(progress)
        if device.is_host:
            progress.host()[first : first + count, 0] += 1
        else:
            kernel = device.kernel("update", "sgd_advance", label="sgd.advance[f32]")
            device.recorder.record_over(kernel, count, progress=progress, size=count, slot=first)
        progress.storage.version += 1


def sgd_update(
    parameter: Array, gradient: Array, velocity: Array | None, hyper: Array, progress: Array, slot: int
) -> None:
    """One step of SGD. With g = gradient + decay p: p -= lr g; with momentum, v <- momentum v + (1 - dampening) g,
    the first time v <- g, and p -= lr v, or with Nesterov p -= lr (g + momentum v).

    Sutskever et al. 2013, in the form of PyTorch: the learning rate multiplies the velocity.
    """
    _match("sgd", parameter, gradient)
    device = parameter.device
    with device.lock:
        own(parameter, *([] if velocity is None else [velocity]))
        gradient = _apart(gradient, parameter)
        if device.is_host:
            _sgd_host(parameter, gradient, velocity, hyper, progress, slot)
        elif velocity is None:
            kernel = device.kernel("update", "sgd", label="sgd.update[f32]")
            device.recorder.record_over(
                kernel,
                parameter.size,
                parameter=parameter,
                gradient=gradient,
                sgd_hyper=hyper,
                size=parameter.size,
                slot=slot,
            )
        else:
            kernel = device.kernel("update", "sgd_momentum", label="sgd.momentum[f32]")
            device.recorder.record_over(
                kernel,
                parameter.size,
                parameter=parameter,
                gradient=gradient,
                velocity=velocity,
                sgd_hyper=hyper,
                sgd_progress=progress,
                size=parameter.size,
                slot=slot,
            )
        parameter.storage.version += 1


def _sgd_host(
    parameter: Array, gradient: Array, velocity: Array | None, hyper: Array, progress: Array, slot: int
) -> None:
    lr, momentum, one_minus_dampening, decay, nesterov = hyper.host()
    p = parameter.host()
    with np.errstate(all="ignore"):  # inf and NaN are values here, as on an adapter
        g = gradient.host() + decay * p
        if velocity is not None:
            v = velocity.host()
            share = 1 if progress.host()[slot, 0] == 1 else one_minus_dampening
            v[...] = momentum * v + share * g
            g = g + momentum * v if nesterov else v
        p -= lr * g


def adamw_advance(progress: Array, first: int, count: int, hyper: Array) -> None:
    """Count one step more for ``count`` parameters from slot ``first`` on; c <- beta c + (1 - beta) is 1 - beta^t."""
    device = progress.device
    with device.lock:
        own(progress)
        if device.is_host:
            slots = progress.host()[first : first + count]
            _, beta1, one_minus_beta1, beta2, one_minus_beta2, _, _ = hyper.host()
            slots[:, 0] += 1
            slots[:, 1] = beta1 * slots[:, 1] + one_minus_beta1
            slots[:, 2] = beta2 * slots[:, 2] + one_minus_beta2
        else:
            kernel = device.kernel("update", "adamw_advance", label="adamw.advance[f32]")
            device.recorder.record_over(kernel, count, progress=progress, hyper=hyper, size=count, slot=first)
        progress.storage.version += 1


def adamw_update(
    parameter: Array,
    gradient: Array,
    first_moment: Array,
    second_moment: Array,
    hyper: Array,
    progress: Array,
    slot: int,
) -> None:
    """One step of AdamW: p -= lr decay p; m += (1 - beta1)(g - m); v += (1 - beta2)(g^2 - v);
    p -= lr (m / c1) / (sqrt(v / c2) + eps). Loshchilov and Hutter 2019, algorithm 2.
    """
    _match("adamw", parameter, gradient)
    device = parameter.device
    with device.lock:
        own(parameter, first_moment, second_moment)
        gradient = _apart(gradient, parameter)
        if device.is_host:
            _adamw_host(parameter, gradient, first_moment, second_moment, hyper, progress, slot)
        else:
            kernel = device.kernel("update", "adamw", label="adamw.update[f32]")
            device.recorder.record_over(
                kernel,
                parameter.size,
                parameter=parameter,
                gradient=gradient,
                first_moment=first_moment,
                second_moment=second_moment,
                adamw_hyper=hyper,
                adamw_progress=progress,
                size=parameter.size,
                slot=slot,
            )
        parameter.storage.version += 1


def _adamw_host(
    parameter: Array,
    gradient: Array,
    first_moment: Array,
    second_moment: Array,
    hyper: Array,
    progress: Array,
    slot: int,
) -> None:
    lr, _, one_minus_beta1, _, one_minus_beta2, eps, decay = hyper.host()
    _, c1, c2 = progress.host()[slot]
    p, g, m, v = parameter.host(), gradient.host(), first_moment.host(), second_moment.host()
    with np.errstate(all="ignore"):
        p -= lr * decay * p
        m += one_minus_beta1 * (g - m)
        v += one_minus_beta2 * (g * g - v)
        p -= lr * (m / c1) / (np.sqrt(v / c2) + eps)


def _apart(source: Array, target: Array) -> Array:
    """``source``, or a copy where it lies in the memory of ``target``, which a kernel may not bind twice to write."""
    return copy(source) if source.storage.buffer is target.storage.buffer else source


def _match(name: str, target: Array, source: Array) -> None:
    same_device(name, target.device, source.device)
    target.device.health.check()
    target.storage.check()
    source.storage.check()
    if target.shape != source.shape:
        raise ShapeError(f"{name}: shapes differ: {target.shape} and {source.shape}")
    if target.dtype is not source.dtype:
        raise DtypeError(f"{name}: element types differ: {target.dtype} and {source.dtype}")
