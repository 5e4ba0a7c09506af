"""Random numbers from a counter: bits, uniform, bernoulli, dropout. Equal on every device, bit by bit.

A *stream* is a 64-bit key and a position in blocks of four words; element i of a draw is word i % 4 of the block at
position + i // 4, by Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011).
Whoever draws adds ``blocks(size)`` to the position. ``base`` is four words, a key and a position that ``key`` and
``position`` are relative to: zeros, or what the host writes before each replay of a captured draw.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..array import Array, allocate, write
from ..errors import DtypeError, ShapeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Saved, require_float
from ..spec import DType, HasSpec, Scalar, Shape, Spec, as_shape, bool_, float32, size_of, uint32
from .creation import fill

__all__ = ["dropout"]

WORDS = 4
Words = npt.NDArray[np.uint32]
_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint32)


def blocks(size: int) -> int:
    """How many blocks a draw of so many elements takes."""
    return -(-size // WORDS)


def philox(key: Words, counters: Words) -> Words:
    """Philox4x32-10 of counters (n, 4) under a key (2,), the twin of lib/random.wgsl."""
    c = counters.astype(np.uint32)
    k = key.astype(np.uint32)
    for _ in range(10):
        a = c[:, 0].astype(np.uint64) * _MULTIPLIERS[0]
        b = c[:, 2].astype(np.uint64) * _MULTIPLIERS[1]
        a_high, b_high = (a >> np.uint64(32)).astype(np.uint32), (b >> np.uint64(32)).astype(np.uint32)
        c = np.stack([b_high ^ c[:, 1] ^ k[0], b.astype(np.uint32), a_high ^ c[:, 3] ^ k[1], a.astype(np.uint32)], 1)
        k = k + _WEYL
    return c


def words(size: int, key: int, position: int, base: Words | None = None) -> Words:
    """The first ``size`` words of a stream, on the host."""
    pair = np.array([key & 0xFFFFFFFF, key >> 32], np.uint32)
    if base is not None:
        pair = pair ^ base[:2]
        position += int(base[2]) | int(base[3]) << 32
    count = np.arange(blocks(size), dtype=np.uint64) + np.uint64(position % 2**64)
    low, high = count.astype(np.uint32), (count >> np.uint64(32)).astype(np.uint32)
    zero = np.zeros_like(low)
    return philox(pair, np.stack([low, high, zero, zero], 1)).reshape(-1)[:size]


def unit_interval(drawn: Words) -> npt.NDArray[np.float32]:
    """The upper 24 bits of words as numbers in [0, 1), exactly."""
    return (drawn >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def threshold(p: float) -> int:
    """The word below which lie the fraction ``p`` of all words, to 2^-32."""
    return min(round(p * 2**32), 2**32 - 1)


def random_bits(shape: int | Iterable[int], base: Array, key: int = 0, position: int = 0) -> Array:
    """uint32 words of a stream, on the device of ``base``."""
    return _draw("random_bits", "bits", as_shape("random_bits", shape), uint32, base, key, position, 0.0)


def uniform(shape: int | Iterable[int], base: Array, key: int = 0, position: int = 0) -> Array:
    """float32 in [0, 1), a multiple of 2^-24: each from the upper 24 bits of its word."""
    return _draw("uniform", "unit", as_shape("uniform", shape), float32, base, key, position, 0.0)


def bernoulli(shape: int | Iterable[int], p: float, base: Array, key: int = 0, position: int = 0) -> Array:
    """bool, true with probability ``p``: where the word is below p 2^32. ValueError unless 0 <= p <= 1."""
    return _draw("bernoulli", "bernoulli", as_shape("bernoulli", shape), bool_, base, key, position, p)


def _draw(name: str, entry: str, shape: Shape, dtype: DType, base: Array, key: int, position: int, p: float) -> Array:
    _check(name, base, p)
    device = base.device
    with device.lock:
        y = allocate(shape, dtype, device, name)
        if device.is_host:
            drawn = words(y.size, key, position, base.host())
            made: Any = drawn if entry == "bits" else unit_interval(drawn) if entry == "unit" else drawn < threshold(p)
            write(y, (made if p < 1 else np.ones_like(made)).reshape(shape))
            return y
        target = {"y": y} if dtype is float32 else {"words": y}
        if p == 1:  # all words lie below 2^32, which is no word itself
            fill(y, True)
        else:
            _record(name, entry, y.size, key, position, p, 0.0, base=base, **target)
        return y


def dropout_spec(x: HasSpec, base: HasSpec, p: float, key: int = 0, position: int = 0) -> Spec:
    """y = x / (1 - p) where the word of the element is at least p 2^32, else 0; dx = dy / (1 - p) there, else 0.

    The mask is a function of key and position, so the backward makes it again and nothing is saved but four words.
    ValueError unless 0 <= p <= 1. Srivastava et al., Dropout, 2014, scaled at training time.
    """
    require_float("dropout", x)
    _check("dropout", base, p)
    return Spec(x.shape, float32)


def dropout_host_forward(
    x: HostArray, base: HostArray, p: float, key: int = 0, position: int = 0
) -> tuple[HostArray, Saved]:
    return _dropped(x, base, p, key, position), (base, p, key, position)


def dropout_host_backward(dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
    return _dropped(dy, *saved), None


def _dropped(x: HostArray, base: HostArray, p: float, key: int, position: int) -> HostArray:
    is_kept = (words(x.size, key, position, base) >= threshold(p)).reshape(x.shape) & (p < 1)
    return np.asarray(np.where(is_kept, x * x.dtype.type(np.float32(_scale(p))), x.dtype.type(0)))


def dropout_forward(out: Spec, x: Array, base: Array, p: float, key: int = 0, position: int = 0) -> tuple[Array, Saved]:
    return _record_dropout(x, base, p, key, position), (base, p, key, position)


def dropout_backward(dy: Array, saved: Saved, needs: Needs) -> Gradients:
    return _record_dropout(dy, *saved), None


def _record_dropout(x: Array, base: Array, p: float, key: int, position: int) -> Array:
    y = allocate(x.shape, float32, x.device, "dropout")
    _record("dropout", "dropout", x.size, key, position, p, _scale(p), base=base, x=x, y=y)
    return y


def _scale(p: float) -> float:
    return 1.0 / (1.0 - p) if p < 1 else 0.0


dropout = Op(
    "dropout",
    dropout_spec,
    dropout_host_forward,
    dropout_forward,
    dropout_host_backward,
    dropout_backward,
)


def _check(name: str, base: HasSpec, p: Scalar) -> None:
    if base.dtype is not uint32:
        raise DtypeError(f"{name}: the base is uint32, not {base.dtype}")
    if size_of(base.shape) != WORDS:
        raise ShapeError(f"{name}: the base has four words, not shape {base.shape}")
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: a probability lies between 0 and 1, not {p}")


def _record(name: str, entry: str, size: int, key: int, position: int, p: float, scale: float, **arrays: Array) -> None:
    device = arrays["base"].device
    kernel = device.kernel("random", entry, label=f"{name}.{entry}[f32]")
    device.recorder.record_over(
        kernel,
        blocks(size),
        size=size,
        key_low=key & 0xFFFFFFFF,
        key_high=key >> 32,
        position_low=position & 0xFFFFFFFF,
        position_high=position >> 32 & 0xFFFFFFFF,
        threshold=threshold(p),
        scale=scale,
        **arrays,
    )
