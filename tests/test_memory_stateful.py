"""Random sequences of what a program may do to memory, against numpy: whatever the order, reads are right.

A ``Cell`` models one storage. Cells of one ``group`` share a buffer, as clones do until one of them is written.
"""

from __future__ import annotations

import gc
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from conftest import POISON, poison
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import gpu_backend as gb
from gpu_backend import Device, ReleasedBufferError, memory
from gpu_backend.array import Array, Readback, write
from gpu_backend.ops import update
from gpu_backend.ops.creation import fill
from gpu_backend.recorder import MAX_RECORDED
from gpu_backend.spec import uint32

SIZES = (1, 4, 6, 64, 66, 130)
KEPT = 12

_groups = itertools.count()


@dataclass(eq=False)
class Cell:
    """What a storage must hold: the elements of it, whether it may still be used, and who shares its buffer."""

    values: np.ndarray[Any, Any]
    group: int
    alive: bool = True
    persistent: bool = False

    def overwrite(self, values: np.ndarray[Any, Any]) -> None:
        """Written, it leaves the buffer that it shared."""
        self.values, self.group = values.copy(), next(_groups)


class MemoryMachine(RuleBasedStateMachine):
    """One sequence. Handles are arrays with their cells; two handles may share a cell by reshape."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.handles: list[tuple[Array, Cell]] = []
        self.reads: list[tuple[Readback, np.ndarray[Any, Any]]] = []

    @initialize(poisoned=st.booleans(), max_recorded=st.sampled_from((3, MAX_RECORDED)))
    def begin(self, poisoned: bool, max_recorded: int) -> None:
        self.device.recorder.configure(max_recorded=max_recorded)
        self.device.pool.on_take = (lambda storage: poison(storage, self.device)) if poisoned else None

    def teardown(self) -> None:
        try:
            for array, cell in self.handles:
                if cell.alive:
                    self.check(array, cell)
            for readback, values in self.reads:
                np.testing.assert_array_equal(readback.numpy().ravel(), values)
            self.handles.clear()
            memory.trim(self.device)
            stats = memory.stats(self.device)
            assert stats.reserved_bytes == stats.in_use_bytes, "M11"
            assert stats.pending_destroy == 0
        finally:
            self.device.recorder.configure(max_recorded=MAX_RECORDED)
            self.device.pool.on_take = None

    def check(self, array: Array, cell: Cell) -> None:
        np.testing.assert_array_equal(array.numpy().ravel(), cell.values)
        if self.device.pool.on_take is not None:
            words = Array(array.storage, (array.storage.buffer.nbytes // 4,), uint32, self.device).numpy()
            assert (words[array.size :] == POISON).all(), "written past the end"

    def keep(self, array: Array, cell: Cell) -> None:
        self.handles.append((array, cell))
        if len(self.handles) > KEPT:
            self.handles.pop(0)

    def made(self, array: Array, values: np.ndarray[Any, Any]) -> None:
        self.keep(array, Cell(np.asarray(values, np.float32).ravel().copy(), next(_groups)))

    def pick(self, index: int) -> tuple[Array, Cell]:
        return self.handles[index % len(self.handles)]

    def partner(self, x: Array, cell: Cell, index: int) -> tuple[Array, Cell]:
        """A living handle of the shape of ``x``, at least ``x`` itself."""
        fitting = [(a, c) for a, c in self.handles if c.alive and a.shape == x.shape] or [(x, cell)]
        return fitting[index % len(fitting)]

    @rule(size=st.sampled_from(SIZES), seed=st.integers(0, 99))
    def create(self, size: int, seed: int) -> None:
        values = np.random.default_rng(seed).integers(-9, 9, size).astype(np.float32)
        self.made(gb.array(values, device=self.device), values)

    @rule(size=st.sampled_from(SIZES), number=st.integers(-9, 9))
    def create_full(self, size: int, number: int) -> None:
        self.made(gb.full((size,), float(number), device=self.device), np.full(size, number))

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99), other=st.integers(0, 99), kind=st.sampled_from(("double", "add", "transpose")))
    def op(self, index: int, other: int, kind: str) -> None:
        x, cell = self.pick(index)
        if not cell.alive:
            with pytest.raises(ReleasedBufferError):
                gb.multiply(x, 2.0)
        elif kind == "double":
            self.made(gb.multiply(x, 2.0), cell.values * np.float32(2))
        elif kind == "add":
            y, added = self.partner(x, cell, other)
            self.made(gb.add(x, y), cell.values + added.values)
        elif x.size % 2 == 0:
            y = gb.permute_dims(x.reshape(2, -1), axes=(1, 0))
            self.made(y, cell.values.reshape(2, -1).T)

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99), other=st.integers(0, 99), kind=st.sampled_from(("accumulate", "assign", "copy")))
    def in_place(self, index: int, other: int, kind: str) -> None:
        x, cell = self.pick(index)
        if not cell.alive:
            with pytest.raises(ReleasedBufferError):
                update.accumulate(x, x)
            return
        y, source = self.partner(x, cell, other)
        if kind == "accumulate":
            update.accumulate(x, y)
            cell.overwrite(cell.values + source.values)
        elif kind == "copy":
            update.copy_into(x, y)
            if cell.group != source.group:
                cell.overwrite(source.values)
        else:
            update.assign(x, y)
            if cell is not source:
                group = source.group
                cell.overwrite(source.values)
                if not (cell.persistent or source.persistent):
                    cell.group = group

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99), seed=st.integers(0, 99), kind=st.sampled_from(("upload", "fill")))
    def overwrite(self, index: int, seed: int, kind: str) -> None:
        x, cell = self.pick(index)
        if not cell.alive:
            with pytest.raises(ReleasedBufferError):
                write(x, np.zeros(x.shape, np.float32))
        elif kind == "fill":
            fill(x, float(seed))
            cell.overwrite(np.full(x.size, seed, np.float32))
        else:
            values = np.random.default_rng(seed).integers(-9, 9, x.size).astype(np.float32)
            write(x, values.reshape(x.shape))
            cell.overwrite(values)

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def clone(self, index: int) -> None:
        x, cell = self.pick(index)
        if cell.alive:
            self.made(gb.clone(x), cell.values)
            if not cell.persistent:
                self.handles[-1][1].group = cell.group
        else:
            with pytest.raises(ReleasedBufferError):
                gb.clone(x)

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def reshape(self, index: int) -> None:
        x, cell = self.pick(index)
        self.keep(x.reshape(1, -1), cell)

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99), keep=st.booleans())
    def persist(self, index: int, keep: bool) -> None:
        x, cell = self.pick(index)
        if cell.alive:
            (memory.persist if keep else memory.unpersist)(x)
            if keep and not cell.persistent and any(c is not cell and c.group == cell.group for c in self.cells()):
                cell.group = next(_groups)
            cell.persistent = keep

    def cells(self) -> set[Cell]:
        return {cell for _, cell in self.handles if cell.alive}

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def release(self, index: int) -> None:
        x, cell = self.pick(index)
        if cell.alive:
            memory.release(x)
            cell.alive = False
            with pytest.raises(ReleasedBufferError, match="released a second time"):
                memory.release(x)

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def force_release(self, index: int) -> None:
        x, cell = self.pick(index)
        memory.force_release(x)
        if cell.alive:
            for other in self.cells():
                other.alive = other.alive and other.group != cell.group

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def drop(self, index: int) -> None:
        self.handles.pop(index % len(self.handles))

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def read(self, index: int) -> None:
        x, cell = self.pick(index)
        if cell.alive:
            self.check(x, cell)
        else:
            with pytest.raises(ReleasedBufferError):
                x.numpy()

    @precondition(lambda self: self.handles)
    @rule(index=st.integers(0, 99))
    def read_later(self, index: int) -> None:
        x, cell = self.pick(index)
        if cell.alive:
            self.reads.append((x.download_async(), cell.values.copy()))

    @precondition(lambda self: self.reads)
    @rule()
    def read_now(self) -> None:
        readback, values = self.reads.pop(0)
        np.testing.assert_array_equal(readback.numpy().ravel(), values)

    @rule(size=st.sampled_from(SIZES), kept=st.booleans())
    def scope(self, size: int, kept: bool) -> None:
        with memory.scope(self.device) as inside:
            x = gb.full((size,), 3.0, device=self.device)
            y, z = gb.add(x, 1.0), gb.multiply(x, 2.0)
            if kept:
                inside.keep(y)
        assert z.storage.released
        assert y.storage.released != kept
        if kept:
            self.made(y, np.full(size, 4.0))

    @rule()
    def trim(self) -> None:
        memory.trim(self.device)

    @rule()
    def trim_without_flush(self) -> None:
        self.device.pool.trim()

    @rule()
    def flush(self) -> None:
        self.device.recorder.flush()

    @rule()
    def synchronize(self) -> None:
        self.device.recorder.synchronize()
        assert memory.stats(self.device).submits_in_flight == 0

    @rule()
    def reclaim(self) -> None:
        memory.reclaim(self.device)
        for cell in self.cells():
            cell.alive = cell.persistent
        gc.collect(0)


def run(device: Device, sequences: int, steps: int, derandomize: bool = True) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    chosen = settings(
        max_examples=sequences,
        stateful_step_count=steps,
        deadline=None,
        derandomize=derandomize,
        database=None,
        suppress_health_check=checks,
    )
    memory.reclaim(device)  # the counters of the pool are compared at the end of each sequence
    run_state_machine_as_test(lambda: MemoryMachine(device), settings=chosen)  # type: ignore[arg-type]


@pytest.mark.no_poison
def test_sequences_on_the_adapter(adapter: Device) -> None:
    """M1, M4, M11, M12, P-ME01, P-ME09: the same five hundred sequences each time."""
    run(adapter, 500, 30)


@pytest.mark.no_poison
def test_sequences_on_the_host(host: Device) -> None:
    run(host, 200, 30)


@pytest.mark.slow
@pytest.mark.no_poison
@pytest.mark.timeout(1200)
def test_many_new_sequences(adapter: Device) -> None:
    """Others each time."""
    run(adapter, 5000, 50, derandomize=False)
