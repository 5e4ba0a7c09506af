"""Random numbers: one stream per thread, the same on every device, in every process, eager and replayed.

A stream is a seed and a position, both 64-bit numbers on the host; a draw of n elements moves the position by
ceil(n / 4) blocks. The mathematics stands in ``gpu_backend.ops.random``.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gpu_backend import Array, Device, array
from gpu_backend.capture import paused
from gpu_backend.device import device as find_device
from gpu_backend.ops import random as draws
from gpu_backend.ops.update import persist
from gpu_backend.spec import as_shape, size_of

from .tensor import Tensor
from .trace import Trace, Undo, abandon, tracing


class State(NamedTuple):
    """Where a stream is: what ``get_state`` gives and ``set_state`` takes."""

    seed: int
    position: int


class _Stream(threading.local):
    def __init__(self) -> None:
        self.state = State(secrets.randbits(64), 0)


_stream = _Stream()


def manual_seed(seed: int) -> None:
    """Start this thread's stream anew from ``seed``, of which 64 bits count."""
    set_state(State(int(seed) % 2**64, 0))


def get_state() -> State:
    """Seed and position of this thread's stream."""
    abandon("it reads the state of the random numbers on the host")
    return _stream.state


def set_state(state: State | tuple[int, int]) -> None:
    """Go on from where ``get_state`` was asked. ValueError unless both numbers fit 64 bits."""
    seed, position = state
    if not (0 <= seed < 2**64 and 0 <= position < 2**64):
        raise ValueError(f"set_state: seed and position are 64-bit numbers, not {seed} and {position}")
    abandon("it sets the state of the random numbers, which a replay would not")
    _stream.state = State(int(seed), int(position))


def random_bits(shape: int | Iterable[int], device: str | Device | None = None) -> Tensor:
    """uint32, every value equally likely."""
    extents = as_shape("random_bits", shape)
    return Tensor(draws.random_bits(extents, **draw(size_of(extents), find_device(device))))


def uniform(shape: int | Iterable[int], device: str | Device | None = None) -> Tensor:
    """float32 in [0, 1), multiples of 2^-24."""
    extents = as_shape("uniform", shape)
    return Tensor(draws.uniform(extents, **draw(size_of(extents), find_device(device))))


def bernoulli(shape: int | Iterable[int], p: float, device: str | Device | None = None) -> Tensor:
    """bool, true with probability ``p``."""
    extents = as_shape("bernoulli", shape)
    return Tensor(draws.bernoulli(extents, p, **draw(size_of(extents), find_device(device))))


def host_uniform(low: float, high: float, shape: int | Iterable[int]) -> np.ndarray[Any, Any]:
    """float32 in [low, high) as numpy, from the same stream: for weights, which start equal on every device."""
    extents = as_shape("host_uniform", shape)
    abandon("it makes random numbers on the host, which a replay would repeat")
    seed, position = _advance(draws.blocks(size_of(extents)))
    drawn = draws.unit_interval(draws.words(size_of(extents), seed, position)).reshape(extents)
    return (low + (high - low) * drawn.astype(np.float64)).astype(np.float32)


def host_normal(shape: int | Iterable[int]) -> np.ndarray[Any, Any]:
    """Standard normal float32 as numpy, from the same stream; by the method of Box and Muller, 1958."""
    extents = as_shape("host_normal", shape)
    abandon("it makes random numbers on the host, which a replay would repeat")
    count = size_of(extents)
    seed, position = _advance(draws.blocks(2 * count))
    radius, angle = draws.unit_interval(draws.words(2 * count, seed, position)).reshape(2, count).astype(np.float64)
    drawn: np.ndarray[Any, Any] = np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * np.pi * angle)
    return drawn.astype(np.float32).reshape(extents)


def draw(size: int, device: Device) -> dict[str, Any]:
    """``base``, ``key`` and ``position`` of a draw of so many elements, for the ops; moves the stream on."""
    count = draws.blocks(size)
    trace = tracing()
    if trace is None or trace.device is not device:
        seed, position = _advance(count)
        return {"base": _zero(device), "key": seed, "position": position}
    captured = trace.companion(_CapturedStream)
    offset = captured.drawn.blocks
    captured.drawn.blocks += count
    _advance(count)
    return {"base": captured.base, "key": 0, "position": offset}


class _Drawn:
    """How many blocks one replay draws."""

    blocks = 0


class _CapturedStream:
    """The draws of one trace: relative to a base that is written before each replay, which then moves the stream on."""

    def __init__(self, trace: Trace) -> None:
        self.drawn = drawn = _Drawn()
        self.base = trace.refreshed(self._words, "random base")
        trace.on_replay(lambda: _advance(drawn.blocks), self._keep)

    @staticmethod
    def _words() -> np.ndarray[Any, Any]:
        seed, position = _stream.state
        return np.array([seed, position], "<u8").view(np.uint32)

    @staticmethod
    def _keep() -> Undo:
        state = _stream.state

        def back() -> None:
            _stream.state = state

        return back


def _advance(count: int) -> State:
    state = _stream.state
    _stream.state = State(state.seed, (state.position + count) % 2**64)
    return state


def _zero(device: Device) -> Array:
    if "random base" not in device.constants:
        with paused():
            made = persist(array(np.zeros(4, np.uint32), device=device), "random base")
            device.constants["random base"] = made
    zero: Array = device.constants["random base"]
    return zero
