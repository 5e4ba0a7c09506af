"""In-place changes of a tensor. They are not on the tape: allowed where nothing is recorded.

``Tensor`` inherits these and gives them ``_promoted`` and ``_as_operand``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from gpu_backend import Array, Op, ShapeError, full, ops
from gpu_backend.ops import update

from .errors import GradientError
from .tape import Entry, is_grad_enabled

if TYPE_CHECKING:
    pass


class InPlace:
    """``copy_``, ``add_`` and their like, and the augmented assignments."""

    __slots__ = ()

    if TYPE_CHECKING:
        array: Array
        _entry: Entry | None
        _requires_grad: bool

    def _promoted(self, op: Op, other: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def _as_operand(self, value: Any) -> Any:
        raise NotImplementedError

    def _meet(self, name: str, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def copy_(self, source: Any) -> Self:
        """Overwrite the elements with those of ``source``, which broadcasts; returns itself."""
        self._forbid_recording("copy_", source)
        mine, goal = self.array, self._as_operand(source)
        is_number = isinstance(goal, bool | int | float)
        made = full(mine.shape, goal, mine.dtype, mine.device) if is_number else goal.array
        made = made if made.dtype is mine.dtype else ops.astype(made, dtype=mine.dtype)
        made = made if made.shape == mine.shape else ops.broadcast_to(made, shape=mine.shape)
        update.assign(mine, made)
        return self

    def add_(self, other: Any) -> Self:
        """self <- self + other; returns itself."""
        return self._in_place("add_", ops.add, other)

    def sub_(self, other: Any) -> Self:
        """self <- self - other; returns itself."""
        return self._in_place("sub_", ops.subtract, other)

    def mul_(self, other: Any) -> Self:
        """self <- self * other; returns itself."""
        return self._in_place("mul_", ops.multiply, other)

    def div_(self, other: Any) -> Self:
        """self <- self / other; returns itself."""
        return self._in_place("div_", ops.divide, other)

    def zero_(self) -> Self:
        """Set every element to 0; returns itself."""
        return self.copy_(0)

    def __iadd__(self, other: Any) -> Any:
        return self._augmented("add_", ops.add, other)

    def __isub__(self, other: Any) -> Any:
        return self._augmented("sub_", ops.subtract, other)

    def __imul__(self, other: Any) -> Any:
        return self._augmented("mul_", ops.multiply, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._augmented("div_", ops.divide, other)

    def _augmented(self, name: str, op: Op, other: Any) -> Any:
        """``self op= other``: in place, but a new tensor where the result belongs on the tape, as in ``total += loss``,
        unless self is a leaf that wants a gradient."""
        recorded = (isinstance(other, InPlace) and other._requires_grad) or self._entry is not None
        if is_grad_enabled() and recorded and not (self._requires_grad and self._entry is None):
            return self._meet(op.name, self, other)
        return self._in_place(name, op, other)

    def _in_place(self, name: str, op: Op, other: Any) -> Self:
        self._forbid_recording(name, other)
        mine = self.array
        a, b = self._promoted(op, other)
        made = op(a.array, b.array if isinstance(b, InPlace) else b)
        if made.shape != mine.shape or made.dtype is not mine.dtype:
            raise ShapeError(f"{name}: the result {made.shape} {made.dtype} does not fit {mine.shape} {mine.dtype}")
        update.assign(mine, made)
        return self

    def _forbid_recording(self, name: str, other: Any) -> None:
        if is_grad_enabled() and (self._requires_grad or (isinstance(other, InPlace) and other._requires_grad)):
            raise GradientError(f"{name}: in-place changes are not recorded; use them under no_grad() or on detach()")
