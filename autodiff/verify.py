"""Verification of a replay: it is run, undone, and compared with a plain call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_backend import Array, uint32
from gpu_backend.array import allocate
from gpu_backend.capture import Content
from gpu_backend.errors import DivergenceError
from gpu_backend.ops import update
from gpu_backend.storage import Storage

from .replay import TracedPlan
from .tensor import Tensor


class Verification:
    """One replay against one plain call: ``replay``, then the plain call, then ``compare``."""

    def __init__(self, traced: TracedPlan, name: str) -> None:
        self._traced = traced
        self._device = traced.plan.device
        self._where = f"{name}: replay {traced.replays + 1}"
        self._results: list[np.ndarray[Any, Any]] = []
        self._gradients: list[tuple[Tensor, np.ndarray[Any, Any] | None]] = []
        self._changed: list[tuple[Storage, np.ndarray[Any, Any]]] = []

    def replay(self, given: Sequence[Array], results: Sequence[tuple[Content, tuple[int, ...], Any]]) -> None:
        """Replay, keep what comes out, and put everything back as it was."""
        plan = self._traced.plan
        homes = {id(end.storage) for end in self._traced.ends}
        with self._device.lock:
            undo = self._traced.keep()
            leaves = [leaf for leaf in (end.leaf() for end in self._traced.ends) if leaf is not None]
            gradients = [(leaf, leaf._grad) for leaf in leaves]
            before = [(storage, update.copy(self._whole(storage))) for storage in plan.written]
            made = [allocate(shape, dtype, self._device, "verify") for _, shape, dtype in results]
            try:
                self._traced.replay(given, [(content, y) for (content, _, _), y in zip(results, made, strict=True)])
                self._results = [y.numpy() for y in made]
                self._gradients = [(leaf, None if leaf._grad is None else leaf._grad.numpy()) for leaf in leaves]
                self._changed = [(s, self._whole(s).numpy()) for s in plan.written if id(s) not in homes]
            finally:
                for storage, content in before:
                    update.copy_into(self._whole(storage), content)
                for leaf, gradient in gradients:
                    leaf._grad = gradient
                undo()

    def compare(self, results: Sequence[Array]) -> None:
        """DivergenceError at the first difference between the replay and what the plain call did."""
        if len(results) != len(self._results):
            raise DivergenceError(f"{self._where} returned {len(self._results)} tensors, the plain call {len(results)}")
        for index, (mine, theirs) in enumerate(zip(self._results, results, strict=True)):
            self._same(f"result {index}", mine, theirs.numpy())
        for index, (leaf, kept) in enumerate(self._gradients):
            what = f"the gradient of {leaf.array.storage} (gradient {index})"
            if (kept is None) != (leaf._grad is None):
                raise DivergenceError(f"{self._where} and the plain call differ in whether {what} is there")
            if kept is not None and leaf._grad is not None:
                self._same(what, kept, leaf._grad.numpy())
        for end in self._traced.ends:
            end.take_over()
        for storage, content in self._changed:
            self._same(str(storage), content, self._whole(storage).numpy())

    def _whole(self, storage: Storage) -> Array:
        """All words of a storage."""
        return Array(storage, (storage.buffer.nbytes // 4,), uint32, self._device)

    def _same(self, what: str, mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise DivergenceError(
                f"{self._where}: {what} is {mine.shape} {mine.dtype}, the plain call gave {theirs.shape} {theirs.dtype}"
            )
        bits = np.uint8 if mine.dtype.itemsize == 1 else np.uint32
        different = np.flatnonzero(mine.reshape(-1).view(bits) != theirs.reshape(-1).view(bits))
        if different.size:
            index = tuple(int(i) for i in np.unravel_index(different[0], mine.shape))
            raise DivergenceError(
                f"{self._where} and the plain call differ in {what}: {different.size} of {mine.size} elements, first "
                f"at {index}: {mine[index]} and {theirs[index]}"
            )
