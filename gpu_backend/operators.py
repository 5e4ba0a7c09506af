"""The operators of arrays and of tensors: what is written between them.

``Array`` and ``autodiff.Tensor`` inherit these and give them ``_apply`` and ``_meet``, their ways to the ops of the
``catalogue``, which ``gpu_backend.ops`` fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from .errors import ShapeError
from .spec import DTypeLike, Scalar, as_dtype, size_of

catalogue: dict[str, Any] = {}
"""Every op by its name; and ``setitem``, which is none."""


class Operators:
    """Arithmetic, comparison, logic and conversion. Python numbers are weak, numpy arrays come along."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any  # a Shape, and a DType
        dtype: Any

        def item(self) -> Scalar: ...

    def _apply(self, name: str, **attributes: Any) -> Self:
        """The op of that name on this alone."""
        raise NotImplementedError

    def _meet(self, name: str, a: Any, b: Any, **attributes: Any) -> Self:
        """The op of that name on two operands, one of which is this."""
        raise NotImplementedError

    __hash__ = object.__hash__  # an array is itself, whatever it equals

    def __add__(self, other: Any) -> Self:
        return self._meet("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return self._meet("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return self._meet("subtract", self, other)

    def __rsub__(self, other: Any) -> Self:
        return self._meet("subtract", other, self)

    def __mul__(self, other: Any) -> Self:
        return self._meet("multiply", self, other)

    def __rmul__(self, other: Any) -> Self:
        return self._meet("multiply", other, self)

    def __truediv__(self, other: Any) -> Self:
        return self._meet("divide", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._meet("divide", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return self._meet("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._meet("floor_divide", other, self)

    def __mod__(self, other: Any) -> Self:
        return self._meet("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._meet("remainder", other, self)

    def __pow__(self, other: Any) -> Self:
        return self._meet("power", self, other)

    def __rpow__(self, other: Any) -> Self:
        return self._meet("power", other, self)

    def __matmul__(self, other: Any) -> Self:
        return self._meet("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return self._meet("matmul", other, self)

    def __neg__(self) -> Self:
        return self._apply("negative")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._apply("abs")

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return self._meet("equal", self, other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return self._meet("not_equal", self, other)

    def __lt__(self, other: Any) -> Self:
        return self._meet("less", self, other)

    def __le__(self, other: Any) -> Self:
        return self._meet("less_equal", self, other)

    def __gt__(self, other: Any) -> Self:
        return self._meet("greater", self, other)

    def __ge__(self, other: Any) -> Self:
        return self._meet("greater_equal", self, other)

    def __invert__(self) -> Self:
        return self._apply("bitwise_invert")

    def __and__(self, other: Any) -> Self:
        return self._meet("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Self:
        return self._meet("bitwise_and", other, self)

    def __or__(self, other: Any) -> Self:
        return self._meet("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Self:
        return self._meet("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Self:
        return self._meet("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Self:
        return self._meet("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Self:
        return self._meet("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Self:
        return self._meet("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Self:
        return self._meet("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Self:
        return self._meet("bitwise_right_shift", other, self)

    def astype(self, dtype: DTypeLike, copy: bool = False) -> Self:
        """The nearest values of another element type; itself if it has that type, unless a ``copy`` is asked for."""
        goal = as_dtype(dtype)
        if goal is self.dtype and not copy:
            return self
        return self._apply("astype", dtype=goal)

    @property
    def T(self) -> Self:
        """A copy with the two dimensions swapped."""
        if len(self.shape) != 2:
            raise ShapeError(f"T: shape {self.shape} has not two dimensions; use mT or permute_dims")
        return self._apply("permute_dims", axes=(1, 0))

    @property
    def mT(self) -> Self:
        """A copy with the last two dimensions swapped."""
        rank = len(self.shape)
        if rank < 2:
            raise ShapeError(f"mT: shape {self.shape} has fewer than two dimensions")
        return self._apply("permute_dims", axes=(*range(rank - 2), rank - 1, rank - 2))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_float:
            raise TypeError(f"an index is an integer, not {self.dtype}")
        return int(self.item())

    def __bool__(self) -> bool:
        if size_of(self.shape) != 1:
            raise ShapeError(f"the truth of shape {self.shape} is ambiguous; compare one element, or read numpy()")
        return bool(self.item())
