"""Running the op table on a device: each sample forward and backward, against the numpy twins in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..adapter import WANTED_FEATURES
from ..array import Array, array
from ..device import MATMUL_KERNELS, Device, GPUDevice, HostDevice
from ..errors import ShaderError
from ..op import Op
from .sample import Row, Sample, on

HostArray = npt.NDArray[Any]
Observer = Callable[[Array], None]

ORACLE = HostDevice(np.float64)
ORDINARY_BINDING = 2**30


@dataclass
class Outcome:
    """What came of one row: how many samples agreed, the largest error among them, and what went wrong first.

    An error is relative to the value, or absolute below 1, as the tolerance of the row is.
    """

    op: Op
    passed: int = 0
    failed: int = 0
    worst: float = 0.0
    faults: list[str] = field(default_factory=list)


def run_row(row: Row, device: Device) -> Outcome:
    """Every sample of a row on a device; an error of one sample is noted, and the next is tried."""
    outcome = Outcome(row.op)
    for sample in row.samples:
        try:
            worst = check(row, sample, device)
        except (AssertionError, ShaderError, ValueError, TypeError, IndexError, RuntimeError, MemoryError) as error:
            outcome.failed += 1
            outcome.faults.append(f"{row.op.name} {sample.id}: {' '.join(str(error).split())}")
        else:
            outcome.passed += 1
            outcome.worst = max(outcome.worst, worst)
    return outcome


def check(row: Row, sample: Sample, device: Device, observe: Observer | None = None) -> float:
    """The largest error of a sample, forward and backward; AssertionError where it is past the row's tolerance.

    ``observe`` is shown each array that an op made.
    """
    with np.errstate(all="ignore"):
        wanted, wanted_gradients = evaluate(row.op, ORACLE, sample)
        got, got_gradients = evaluate(row.op, device, sample, observe)
    worst = compare(row, got, wanted, f"{row.op.name} forward")
    assert len(got_gradients) == len(wanted_gradients)
    for index, (dx, wanted_dx) in enumerate(zip(got_gradients, wanted_gradients, strict=True)):
        what = f"{row.op.name} gradient {index}"
        assert (dx is None) == (wanted_dx is None), f"{what} is there on one of the two"
        if dx is not None and wanted_dx is not None:
            assert dx.shape == sample.inputs[index].shape, f"{what}: {dx.shape}"
            worst = max(worst, compare(row, dx, wanted_dx, what, is_sum=dx.shape != got.shape))
    return worst


def evaluate(
    op: Op, device: Device, sample: Sample, observe: Observer | None = None
) -> tuple[HostArray, list[HostArray | None]]:
    """The result of a sample, and its gradients for one random dy."""
    y, saved = op.run(on(device, sample.inputs), sample.attributes)
    made: list[Array | None] = []
    needs = [isinstance(x, np.ndarray) and x.dtype == np.float32 for x in sample.inputs]
    if op.host_backward is not None and any(needs) and y.dtype.is_float:
        dy = np.random.default_rng(3).standard_normal(y.shape).astype(np.float32)
        gradients = op.run_backward(array(dy, device=device), saved, needs)
        made = [dx if need else None for dx, need in zip(gradients, needs, strict=True)]
    for x in (y, *made):
        if observe is not None and x is not None:
            observe(x)
    return y.numpy(), [None if dx is None else dx.numpy() for dx in made]


def compare(row: Row, got: HostArray, wanted: HostArray, what: str, is_sum: bool = False) -> float:
    """The largest error; AssertionError past the row's tolerance. ``is_sum``: of many elements, so that small ones are
    what is left of large ones, and errors are relative to the largest.
    """
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted, err_msg=what)
        return 0.0
    with np.errstate(all="ignore"):
        wanted = wanted.astype(got.dtype)  # past its range the right value is infinite
        finite = np.isfinite(wanted)
        largest = float(np.abs(wanted[finite]).max(initial=1.0))
        scale = largest if is_sum or not row.is_elementwise else 1.0
        np.testing.assert_allclose(got, wanted, rtol=row.tolerance, atol=row.tolerance * scale, err_msg=what)
        error = np.abs(got.astype(np.float64) - wanted)[finite] / np.maximum(np.abs(wanted[finite]), scale)
        return float(error.max(initial=0.0))


def report(device: Device, families: Mapping[str, Sequence[Row]]) -> tuple[str, int]:
    """A table of what came of the rows of each family on a device, and how many samples failed."""
    lines = [f"{device.summary}", f"  {'':24}{'ops':>9}{'samples':>13}   worst error"]
    found = {family: [run_row(row, device) for row in rows] for family, rows in families.items() if rows}
    outcomes = [outcome for some in found.values() for outcome in some]
    if families.get("linear_algebra") and isinstance(device, GPUDevice):
        kind, other = device.matmul_kernel, next(name for name in MATMUL_KERNELS if name != device.matmul_kernel)
        device.matmul_kernel = other  # the one that this device does not take by itself
        try:
            found[f"linear_algebra, {other}"] = [run_row(row, device) for row in families["linear_algebra"]]
        finally:
            device.matmul_kernel = kind
    for family, some in {**found, "all": outcomes}.items():
        good = sum(not outcome.failed for outcome in some)
        passed = sum(outcome.passed for outcome in some)
        tried = passed + sum(outcome.failed for outcome in some)
        worst = max(some, key=lambda outcome: outcome.worst)
        said = f"{worst.worst:.1e} {worst.op.name}" if worst.worst else "0"
        lines.append(f"  {family:24}{f'{good}/{len(some)}':>9}{f'{passed}/{tried}':>13}   {said}")
    lacks = lacking(device)
    lines.append(f"  lacks: {', '.join(lacks) or 'nothing'}")
    faults = [fault for some in found.values() for outcome in some for fault in outcome.faults]
    lines += [f"  FAILED {fault[:300]}" for fault in faults]
    return "\n".join(lines) + "\n", len(faults)


def lacking(device: Device) -> list[str]:
    """What of an adapter this library can use, or an ordinary one has, and this one has not."""
    if not isinstance(device, GPUDevice):
        return []
    missing = [f"the feature {name}" for name in WANTED_FEATURES if name not in device.features]
    binding = device.limits["max-storage-buffer-binding-size"]
    if binding < ORDINARY_BINDING:
        missing.append(f"bindings past {binding >> 20} MiB")
    return missing
