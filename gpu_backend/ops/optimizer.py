"""One step of one parameter: SGD, Adam and AdamW, in place.

``hyper`` is written by the host; ``progress`` has a slot of three per parameter: steps, c1, c2, moved on by the device,
so that a captured step never holds them as constants. ``verdict`` is two words, whether the gradients are finite and
how many steps were skipped since they were not: with 0 in front, nothing here changes anything.
"""

from __future__ import annotations

import numpy as np

from ..array import Array
from .update import apart, match, own

SGD_HYPER = ("lr", "momentum", "one_minus_dampening", "decay", "nesterov")
ADAM_HYPER = ("lr", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "eps", "decay", "l2")
PROGRESS = ("steps", "c1", "c2")
VERDICT = ("ok", "skipped")


def sgd_advance(progress: Array, first: int, count: int, verdict: Array) -> None:
    """Count one step more for ``count`` parameters from slot ``first`` on. ``progress``: (slots, 3)."""
    device = progress.device
    with device.lock:
        own(progress)
        if device.is_host:
            progress.host()[first : first + count, 0] += verdict.host()[0]
        else:
            kernel = device.kernel("sgd", "advance", label="sgd.advance[f32]")
            device.recorder.record_over(kernel, count, next_progress=progress, verdict=verdict, size=count, slot=first)
        progress.storage.version += 1


def sgd_update(
    parameter: Array,
    gradient: Array,
    velocity: Array | None,
    hyper: Array,
    progress: Array,
    slot: int,
    verdict: Array,
) -> None:
    """One step of SGD. With g = gradient + decay p: p -= lr g; with momentum, v <- momentum v + (1 - dampening) g,
    the first time v <- g, and p -= lr v, or with Nesterov p -= lr (g + momentum v).

    Sutskever et al. 2013, in the form of PyTorch: the learning rate multiplies the velocity.
    """
    match("sgd", parameter, gradient)
    device = parameter.device
    with device.lock:
        own(parameter, *([] if velocity is None else [velocity]))
        gradient = apart(gradient, parameter)
        params = {"size": parameter.size, "slot": slot}
        arrays = {"parameter": parameter, "gradient": gradient, "hyper": hyper, "verdict": verdict}
        if device.is_host:
            if verdict.host()[0]:
                _sgd_host(parameter, gradient, velocity, hyper, progress, slot)
        elif velocity is None:
            kernel = device.kernel("sgd", "update", label="sgd.update[f32]")
            device.recorder.record_over(kernel, parameter.size, **arrays, **params)
        else:
            kernel = device.kernel("sgd", "momentum", label="sgd.momentum[f32]")
            arrays |= {"velocity": velocity, "progress": progress}
            device.recorder.record_over(kernel, parameter.size, **arrays, **params)
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


def adam_advance(progress: Array, first: int, count: int, hyper: Array, verdict: Array) -> None:
    """Count one step more for ``count`` parameters from slot ``first`` on; c <- beta c + (1 - beta) is 1 - beta^t."""
    device = progress.device
    with device.lock:
        own(progress)
        if not device.is_host:
            kernel = device.kernel("adam", "advance", label="adam.advance[f32]")
            device.recorder.record_over(
                kernel, count, next_progress=progress, hyper=hyper, verdict=verdict, size=count, slot=first
            )
        elif verdict.host()[0]:
            slots = progress.host()[first : first + count]
            _, beta1, one_minus_beta1, beta2, one_minus_beta2, _, _, _ = hyper.host()
            slots[:, 0] += 1
            slots[:, 1] = beta1 * slots[:, 1] + one_minus_beta1
            slots[:, 2] = beta2 * slots[:, 2] + one_minus_beta2
        progress.storage.version += 1


def adam_update(
    parameter: Array,
    gradient: Array,
    first_moment: Array,
    second_moment: Array,
    hyper: Array,
    progress: Array,
    slot: int,
    verdict: Array,
) -> None:
    """One step of Adam or AdamW. With g = gradient + l2 p: p -= lr decay p; m += (1 - beta1)(g - m);
    v += (1 - beta2)(g^2 - v); p -= lr (m / c1) / (sqrt(v / c2) + eps).

    Kingma and Ba 2015, algorithm 1, with ``l2`` as weight decay; Loshchilov and Hutter 2019, algorithm 2, with
    ``decay``.
    """
    match("adam", parameter, gradient)
    device = parameter.device
    with device.lock:
        own(parameter, first_moment, second_moment)
        gradient = apart(gradient, parameter)
        if not device.is_host:
            kernel = device.kernel("adam", "update", label="adam.update[f32]")
            device.recorder.record_over(
                kernel,
                parameter.size,
                parameter=parameter,
                gradient=gradient,
                first_moment=first_moment,
                second_moment=second_moment,
                hyper=hyper,
                progress=progress,
                verdict=verdict,
                size=parameter.size,
                slot=slot,
            )
        elif verdict.host()[0]:
            _adam_host(parameter, gradient, first_moment, second_moment, hyper, progress, slot)
        parameter.storage.version += 1


def _adam_host(
    parameter: Array,
    gradient: Array,
    first_moment: Array,
    second_moment: Array,
    hyper: Array,
    progress: Array,
    slot: int,
) -> None:
    lr, _, one_minus_beta1, _, one_minus_beta2, eps, decay, l2 = hyper.host()
    _, c1, c2 = progress.host()[slot]
    p, m, v = parameter.host(), first_moment.host(), second_moment.host()
    with np.errstate(all="ignore"):
        g = gradient.host() + l2 * p
        p -= lr * decay * p
        m += one_minus_beta1 * (g - m)
        v += one_minus_beta2 * (g * g - v)
        p -= lr * (m / c1) / (np.sqrt(v / c2) + eps)
