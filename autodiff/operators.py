"""The operators of a tensor: what is written between tensors. Its methods are functions marked so in ``functional``.

``Tensor`` inherits these and gives them ``_apply`` and ``_meet``, its way onto the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpu_backend import DType, Op, ShapeError, ops
from gpu_backend.spec import DTypeLike, Shape, as_dtype

if TYPE_CHECKING:
    from .tensor import Tensor


class Operators:
    """Arithmetic and comparison. Python numbers are weak, numpy arrays become tensors."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> DType: ...

        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...  # functions marked @method in functional

    def _apply(self, op: Op, *inputs: Any, **attributes: Any) -> Tensor:
        raise NotImplementedError

    def _meet(self, op: Op, a: Any, b: Any) -> Tensor:
        raise NotImplementedError

    __hash__ = object.__hash__  # a tensor is itself, whatever it equals

    def __add__(self, other: Any) -> Tensor:
        return self._meet(ops.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self._meet(ops.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._meet(ops.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._meet(ops.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self._meet(ops.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._meet(ops.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._meet(ops.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._meet(ops.divide, other, self)

    def __neg__(self) -> Tensor:
        return self._apply(ops.negative, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._meet(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._meet(ops.matmul, other, self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return self._meet(ops.equal, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return self._meet(ops.not_equal, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self._meet(ops.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return self._meet(ops.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self._meet(ops.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self._meet(ops.greater_equal, self, other)

    @property
    def T(self) -> Tensor:
        """A copy with the two dimensions swapped."""
        if len(self.shape) != 2:
            raise ShapeError(f"T: shape {self.shape} has not two dimensions; use permute_dims")
        return self._apply(ops.permute_dims, self, axes=(1, 0))

    def astype(self, dtype: DTypeLike) -> Tensor:
        """The nearest values of another element type; itself if it has that type."""
        goal = as_dtype(dtype)
        if goal is self.dtype:
            return self  # type: ignore[return-value]
        return self._apply(ops.astype, self, dtype=goal)
