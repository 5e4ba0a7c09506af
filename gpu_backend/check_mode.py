"""Check mode: every op on an adapter is compared with its numpy twin as a program runs.

``GPU_BACKEND_CHECK=1`` in the environment turns it on, ``check_mode()`` does for the body of a ``with``. Each op and
each backward is read back and computed again by the twin, in float64 and in float32; DivergenceError tells the first
that differ. It is slow, and nothing is captured meanwhile. Views, and ops computed on the host anyway, are not checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .array import Array
from .errors import DivergenceError

HostArray = npt.NDArray[Any]

RELATIVE = 1e-4  # of the largest value: more than any kernel rounds, less than any mistake makes
SPREAD = 100.0  # times the difference that float32 makes to the twin, where terms cancel
OF_INPUTS = 1e-7  # of the largest input, which is what may be left of it


class CheckMode:
    """Whether ops are checked, in this process, and how many were."""

    __slots__ = ("checked", "is_on")

    def __init__(self) -> None:
        self.is_on = os.environ.get("GPU_BACKEND_CHECK", "0") not in ("", "0")
        self.checked = 0


checking = CheckMode()


@contextmanager
def check_mode(is_on: bool = True) -> Iterator[CheckMode]:
    """Check mode, on or off, for the body of a ``with``; yields the counter ``checked``."""
    before = checking.is_on
    checking.is_on = is_on
    try:
        yield checking
    finally:
        checking.is_on = before


def compare(
    name: str, twin: Callable[[list[Any]], Sequence[Any]], operands: Sequence[Any], made: Sequence[Any]
) -> None:
    """Compare the arrays ``made`` with what ``twin`` makes of ``operands``, arrays and plain values.

    DivergenceError names the op, the shapes, the first index at which they differ, and both values.
    """
    there = [x.numpy() if isinstance(x, Array) else x for x in operands]
    with np.errstate(all="ignore"):
        narrow = twin(there)
        wide = twin([x.astype(np.float64) if _is_float(x) else x for x in there])
    largest = max((_largest(x) for x in there if _is_float(x)), default=0.0)
    for number, (y, right, rough) in enumerate(zip(made, wide, narrow, strict=True)):
        if not isinstance(y, Array):
            continue
        got, right, rough = y.numpy(), np.asarray(right), np.asarray(rough)
        what = name if len(made) == 1 else f"{name}, input {number}"
        if got.shape != right.shape:
            raise DivergenceError(
                f"{what}: the shape on {y.device.name} is {got.shape}, that of its twin {right.shape}"
            )
        wrong = _differences(got, right, rough, largest)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            shapes = ", ".join(str(x.shape) for x in operands if isinstance(x, Array))
            raise DivergenceError(
                f"{what}: {int(wrong.sum())} of {got.size} elements on {y.device.name} differ from the numpy twin, "
                f"first at {index}: {got[index]} where the twin has {right[index]:.9g}; operands of shape {shapes}"
            )
    checking.checked += 1


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _largest(x: HostArray) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0.0))


def _differences(got: HostArray, right: HostArray, rough: HostArray, largest_input: float) -> Any:
    """Where ``got`` is further from the twin in float64 than float32 can explain."""
    if got.dtype.kind != "f":
        return got != right
    with np.errstate(all="ignore"):
        right = right.astype(np.float32).astype(np.float64)
        spread = _largest(rough.astype(np.float64) - right)
        allowed = RELATIVE * _largest(right) + SPREAD * spread + OF_INPUTS * largest_input
        close = np.abs(got.astype(np.float64) - right) <= allowed
        same = (got == right) | (np.isnan(got) & np.isnan(right))
        unsure = ~np.isfinite(rough) & np.isfinite(right)  # the twin itself leaves the range of float32
        return ~(close | same | unsure)
