"""The same dispatch again, under changed circumstances that must not matter, and what they changed all the same.

``unwritten``      an output element that keeps what the buffer held before, whatever that was
``past_end``       a write behind the logical end of a buffer
``input``          an input that is different after the run
``stale``          a result that depends on what an output held before
``read_past_end``  a result that depends on what lies behind the end of an input
``repeat``         different bits in a second run
``group_order``    different bits with the workgroups in reversed or shuffled order
``lane_order``     different bits with the invocations of each workgroup in reversed order
``workgroup_size`` different numbers with another workgroup size, where an override chooses it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .closeness import first_indices
from .instrument import Order
from .slot import POISONS, Slot, bits, is_poison

CHECKS = (
    "unwritten",
    "past_end",
    "input",
    "stale",
    "read_past_end",
    "repeat",
    "group_order",
    "lane_order",
    "workgroup_size",
)
_RTOL = 1e-4  # another workgroup size adds in another order

Memory = npt.NDArray[np.uint8]
Contents = dict[str, Memory]


@dataclass(frozen=True)
class Finding:
    """What one check found in one binding."""

    check: str
    binding: str
    message: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.message}"


class SanitizerError(AssertionError):
    """The sanitizer found something. ``findings`` has it piece by piece."""

    def __init__(self, label: str, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        lines = "\n".join(f"  {finding}" for finding in findings)
        names = ", ".join(repr(name) for name in dict.fromkeys(finding.check for finding in findings))
        super().__init__(f"{label}:\n{lines}\n  (if that is meant: allow=({names},))")


PLAIN = Order()


@dataclass(frozen=True)
class Circumstances:
    """Under what a run takes place. ``poison`` and ``guard`` choose one of four, ``variant`` another workgroup size."""

    order: Order = PLAIN
    poison: int = 0
    guard: dict[str, int] | int = 0
    variant: int = 0

    def guard_of(self, name: str) -> int:
        """Which guard lies behind a buffer."""
        return self.guard.get(name, 0) if isinstance(self.guard, dict) else self.guard


Run = Callable[[Circumstances], Contents]


class Sanitizer:
    """Runs a dispatch under changed circumstances and compares.

    ``slots`` are its storage bindings, ``groups`` and ``lanes`` how many workgroups and invocations a workgroup can be
    permuted, ``variants`` describe other workgroup sizes.
    """

    def __init__(
        self, slots: Sequence[Slot], run: Run, groups: int, lanes: int, variants: Sequence[str], allow: Sequence[str]
    ) -> None:
        self._slots = slots
        self._run = run
        self._groups, self._lanes = groups, lanes
        self._variants = variants
        self._allowed = frozenset(allow)
        if "repeat" in self._allowed:  # what differs from run to run says nothing when other things change
            self._allowed |= {"group_order", "lane_order", "stale", "read_past_end"}
        self.findings: list[Finding] = []

    def examine(self, first: Contents) -> None:
        """Compare ``first``, the content of every buffer after a run under plain circumstances, with other runs."""
        self._check_inputs(first)
        self._check_guards(first, Circumstances())
        for choice in range(1, len(POISONS)):
            self._check_other(first, self._under(Circumstances(poison=choice, guard=choice)), choice)
        for name, what, order in self._orders():
            if name not in self._allowed:
                again = self._under(Circumstances(order=order))
                self._compare(name, first, again, f"depends on the order of {what}", all_bits=True)
        if "workgroup_size" not in self._allowed:
            for index, description in enumerate(self._variants):
                again = self._under(Circumstances(variant=index + 1))
                self._compare("workgroup_size", first, again, f"is another with {description}", all_bits=False)

    def _orders(self) -> Iterator[tuple[str, str, Order]]:
        if self._groups > 1:
            yield "group_order", "the workgroups (reversed)", Order(groups=Order.reversed(self._groups))
        if self._groups > 3:
            yield "group_order", "the workgroups (shuffled)", Order(groups=Order.shuffled(self._groups))
        if self._lanes > 1:
            lanes = Order(lanes=Order.reversed(self._lanes))
            yield "lane_order", "the invocations of a workgroup (reversed)", lanes

    def _under(self, circumstances: Circumstances) -> Contents:
        contents = self._run(circumstances)
        if not circumstances.variant:  # another size may have another number of results
            self._check_guards(contents, circumstances)
        return contents

    def _report(self, check: str, binding: str, message: str) -> None:
        known = any(one.check == check and one.binding == binding for one in self.findings)
        if check not in self._allowed and not known:
            self.findings.append(Finding(check, binding, message))

    def _check_guards(self, contents: Contents, under: Circumstances) -> None:
        for slot in self._slots:
            if slot.binding.writable:
                changed = slot.guard_bytes(contents[slot.name], under.guard_of(slot.name))
                if changed.size:
                    where = slot.element(int(changed[0]))
                    last = slot.element(int(changed[-1]))
                    self._report(
                        "past_end",
                        slot.name,
                        f"{slot.name} was written past its end: shape {slot.shape}, {slot.nbytes} bytes; "
                        f"first at {where}" + (f", last at {last}" if last != where else ""),
                    )

    def _check_inputs(self, contents: Contents) -> None:
        for slot in self._slots:
            if slot.initial is None or slot.is_output:
                continue
            before = slot.content(contents[slot.name].size)
            pairs = zip(slot.leaves(before), slot.leaves(contents[slot.name]), strict=True)
            for (path, old), (_, new) in pairs:
                changed = bits(old) != bits(new)
                if changed.any():
                    self._report(
                        "input",
                        slot.name,
                        f"{path} was given as an input and changed at {first_indices(changed)}; "
                        "name it in outputs if the shader is to change it",
                    )

    def _check_other(self, first: Contents, other: Contents, choice: int) -> None:
        """``other`` had another poison and other guards; what differs is looked into by further runs."""
        for slot in self._slots:
            if not slot.is_output:
                continue
            pairs = zip(slot.leaves(first[slot.name]), slot.leaves(other[slot.name]), strict=True)
            for (path, one), (_, two) in pairs:
                unwritten = np.zeros(one.shape, bool)
                if slot.initial is None:
                    unwritten = is_poison(one, 0) & is_poison(two, choice)
                if unwritten.any() and choice == 1:
                    count = int(unwritten.sum())
                    self._report(
                        "unwritten",
                        slot.name,
                        f"{path}: {count} of {one.size} elements were never written: {first_indices(unwritten)}",
                    )
                differs = (bits(one) != bits(two)) & ~unwritten
                if differs.any():
                    self._explain(slot, path, differs, first, choice)

    def _explain(self, slot: Slot, path: str, differs: npt.NDArray[Any], first: Contents, choice: int) -> None:
        where = f"at {first_indices(differs)}"
        causes: list[Finding] = []
        if self._differs(slot, first, self._under(Circumstances(poison=choice)), choice):
            message = f"{path} depends on what the outputs held before (read before written), {where}"
            causes.append(Finding("stale", slot.name, message))
        for other in self._slots:
            if self._differs(slot, first, self._under(Circumstances(guard={other.name: choice})), 0):
                message = f"{path} depends on what lies behind the end of {other.name} (shape {other.shape}), {where}"
                causes.append(Finding("read_past_end", slot.name, message))
        # Without any change the result must be the same; if it is not, or no change explains it, that is the finding.
        plain = [self._under(Circumstances()) for _ in range(2)]
        if not causes or any(self._differs(slot, first, again) for again in plain):
            causes = [
                Finding("repeat", slot.name, f"{path} has other bits when the same dispatch is repeated, {where}")
            ]
        for cause in causes:
            self._report(cause.check, cause.binding, cause.message)

    @staticmethod
    def _differs(slot: Slot, one: Contents, two: Contents, poison: int = 0) -> bool:
        pairs = zip(slot.leaves(one[slot.name]), slot.leaves(two[slot.name]), strict=True)
        return any(
            bool(((bits(a) != bits(b)) & ~(is_poison(a, 0) & is_poison(b, poison))).any()) for (_, a), (_, b) in pairs
        )

    def _compare(self, check: str, first: Contents, again: Contents, message: str, *, all_bits: bool) -> None:
        for slot in self._slots:
            if not slot.is_output:
                continue
            for (path, one), (_, two) in zip(slot.leaves(first[slot.name]), slot.leaves(again[slot.name]), strict=True):
                differs = bits(one) != bits(two)
                if not all_bits and one.dtype.kind == "f":
                    a, b = one.astype(np.float64), two.astype(np.float64)
                    finite = np.abs(a[np.isfinite(a)])
                    rtol = max(_RTOL, 4 * float(np.finfo(one.dtype).eps))
                    atol = rtol * (float(finite.max()) if finite.size else 0.0)
                    differs &= ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
                if differs.any():
                    index = tuple(int(i) for i in np.argwhere(differs)[0])
                    text = f"{path} {message}: {one[index]!s} and {two[index]!s} at {first_indices(differs)}"
                    self._report(check, slot.name, text)
