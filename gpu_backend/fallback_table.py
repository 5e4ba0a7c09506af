"""Where each op is computed: ``fallback`` and what it sets.

An op has a kernel for its forward and for its backward. By default, mode "device", they run; where there is none, or
its pipeline cannot be built on the adapter, numpy computes the op's twin on the host, visibly: see ``host_call``. Mode
"host" always does that, "error" never: it raises instead. ``GPU_BACKEND_FALLBACK=conv2d.backward=host,softmax=error``
in the environment sets modes before a program begins.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable
from typing import Any

from .device import Device
from .errors import FallbackError, PipelineError
from .operators import catalogue

MODES = ("device", "host", "error")
DIRECTIONS = ("forward", "backward")
EVERY_OP = "*"
VARIABLE = "GPU_BACKEND_FALLBACK"


class FallbackTable:
    """The modes that were set in this process, by ``op.direction``, and the kernels that no device could build.

    ``is_idle``: nothing was set and nothing broke, so that nobody needs to look. ``modes`` is exchanged as a whole,
    never changed, so that other threads and signatures of compiled functions may hold it.
    """

    __slots__ = ("_any_broken", "_lock", "is_idle", "key", "modes")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._any_broken = False
        self.modes: dict[str, str] = {}
        self.key: tuple[tuple[str, str], ...] = ()
        self.is_idle = True

    def change(self, changes: dict[str, str | None]) -> dict[str, str | None]:
        """Set modes, None being the default; returns what they were."""
        with self._lock:
            before = {label: self.modes.get(label) for label in changes}
            merged = {**self.modes, **changes}
            self.modes = {label: mode for label, mode in merged.items() if mode is not None}
            self.key = tuple(sorted(self.modes.items()))
            self.is_idle = not (self.modes or self._any_broken)
        return before

    def mode(self, name: str, direction: str) -> str:
        """The mode of one direction of an op."""
        own = self.modes.get(f"{name}.{direction}")
        return own or self.modes.get(f"{EVERY_OP}.{direction}", "device")

    def why(self, name: str, direction: str, has_kernel: bool, device: Device) -> str:
        """Why an op is computed on the host rather than on ``device``; "" if it is not. FallbackError if it may not."""
        mode = self.mode(name, direction)
        if mode == "host":
            return "is set to run there by gpu_backend.fallback"
        if not has_kernel:
            if mode == "error":
                raise FallbackError(f"{name}.{direction} has no kernel, and its fallback is set to 'error'")
            return "has no kernel"
        return "" if mode == "error" else broken_kernels(device).get(f"{name}.{direction}", "")

    def broke(self, name: str, direction: str, error: PipelineError, device: Device) -> str:
        """Note that a pipeline cannot be built, from now on, and return why; raises ``error`` if that may not be."""
        if self.mode(name, direction) == "error":
            raise error
        reason = f"has a kernel that cannot be built on {device.name} ({error.reason})"
        broken_kernels(device)[f"{name}.{direction}"] = reason
        with self._lock:
            self._any_broken, self.is_idle = True, False
        return reason


def broken_kernels(device: Device) -> dict[str, str]:
    """The directions of ops whose pipelines could not be built on a device, and why."""
    found: dict[str, str] = device.constants.setdefault("broken kernels", {})
    return found


table = FallbackTable()


class fallback:  # in small letters: it is called like a function
    """Set where an op is computed; at once, and for the body of a ``with``, after which it is as before.

    ``op``: an Op, its name, which stands for both directions, "name.forward", "name.backward", or "*" for every op.
    ``mode``: "device" (the default: kernels, and the host where that is not possible), "host" or "error" (the host
    never: FallbackError where there is no kernel, PipelineError where it cannot be built). It holds for all threads
    and all adapters of the process, and for the op alone: a mean still runs its kernel where a sum is on the host.
    What optimizers and clipping do are no ops, and always run where the parameters are. ValueError for another name or
    mode, for a view such as reshape, which computes nothing, and for the backward of an op that has no gradient.
    """

    def __init__(self, op: Any, mode: str) -> None:
        _check_mode(mode)
        self._before = table.change(dict.fromkeys(_labels(op), mode))

    def __enter__(self) -> fallback:
        return self

    def __exit__(self, *exception: object) -> None:
        table.change(self._before)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"fallback: no mode {mode!r}; there are {', '.join(MODES)}")


def _labels(op: Any) -> list[str]:
    """The directions that ``op`` names."""
    if not isinstance(op, str):
        return _directions(op, getattr(op, "name", repr(op)), "")
    name, _, direction = op.rpartition(".") if op.rpartition(".")[2] in DIRECTIONS else (op, "", "")
    if name == EVERY_OP:
        return [f"{EVERY_OP}.{each}" for each in DIRECTIONS if direction in ("", each)]
    if not hasattr(catalogue.get(name), "host_forward"):
        close = difflib.get_close_matches(name, catalogue, 3)
        hint = f"; there is {' or '.join(close)}" if close else "; gpu_backend.ops.OPS has them all"
        raise ValueError(f"fallback: no op {name!r}{hint}")
    return _directions(catalogue[name], name, direction)


def _directions(op: Any, name: str, direction: str) -> list[str]:
    if not hasattr(op, "host_forward"):
        raise ValueError(f"fallback: takes an op or its name, not {name}")
    if op.is_view:
        raise ValueError(f"fallback: {name} is a view of the same memory and computes nothing, wherever it is")
    if op.host_backward is None and direction == "backward":
        raise ValueError(f"fallback: {name} has no gradient, so that there is no {name}.backward")
    return [f"{name}.{each}" for each in DIRECTIONS if direction in ("", each)]


def read_environment(environment: Callable[[str], str | None] = os.environ.get) -> None:
    """Set what the environment says; ValueError names the variable and what is wrong."""
    for part in (environment(VARIABLE) or "").split(","):
        if part.strip():
            op, sign, mode = (piece.strip() for piece in part.partition("="))
            try:
                if not sign:
                    raise ValueError(f"fallback: {op!r} is not op=mode")
                fallback(op, mode)
            except ValueError as error:
                raise ValueError(f"{VARIABLE}: {str(error).removeprefix('fallback: ')}") from None
