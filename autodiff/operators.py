"""The operators and methods of a tensor: what is written between and after tensors.

``Tensor`` inherits these and gives them ``_apply`` and ``_meet``, its way onto the tape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpu_backend import DType, Op, ShapeError, ops
from gpu_backend.spec import Axis, DTypeLike, Shape, as_dtype

if TYPE_CHECKING:
    from .tensor import Tensor


class Operators:
    """Arithmetic, comparison and methods. Python numbers are weak, numpy arrays become tensors."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> DType: ...

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

    # Methods, as in PyTorch; ``dim`` and ``keepdim`` are not taken, arrays speak numpy.

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return self._apply(ops.exp, self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return self._apply(ops.log, self)

    def sqrt(self) -> Tensor:
        """The square root."""
        return self._apply(ops.sqrt, self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return self._apply(ops.tanh, self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self._apply(ops.sigmoid, self)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return self._apply(ops.relu, self)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The sum over ``axis``, over all by default."""
        return self._apply(ops.sum, self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The mean over ``axis``, over all by default."""
        return self._apply(ops.mean, self, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The largest element over ``axis``; elements that tie share the gradient equally."""
        return self._apply(ops.max, self, axis=axis, keepdims=keepdims)

    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x) over the sum of exp(x) along ``axis``."""
        return self._apply(ops.softmax, self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """The logarithm of softmax."""
        return self._apply(ops.log_softmax, self, axis=axis)

    def clone(self) -> Tensor:
        """The same elements, copied when either tensor is first written."""
        return self._apply(ops.clone, self)

    def reshape(self, *shape: int | Iterable[int]) -> Tensor:
        """The same memory in another shape; one extent may be -1."""
        return self._apply(ops.reshape, self, shape=shape[0] if len(shape) == 1 else shape)

    def permute_dims(self, *axes: int | Iterable[int]) -> Tensor:
        """A copy with the dimensions in the order ``axes``."""
        order: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self._apply(ops.permute_dims, self, axes=tuple(order))

    permute = permute_dims

    @property
    def T(self) -> Tensor:
        """A copy with the two dimensions swapped."""
        if len(self.shape) != 2:
            raise ShapeError(f"T: shape {self.shape} has not two dimensions; use permute_dims")
        return self.permute_dims(1, 0)

    def broadcast_to(self, *shape: int | Iterable[int]) -> Tensor:
        """A copy repeated along new and unit dimensions."""
        return self._apply(ops.broadcast_to, self, shape=shape[0] if len(shape) == 1 else shape)

    expand = broadcast_to

    def astype(self, dtype: DTypeLike) -> Tensor:
        """The nearest values of another element type; itself if it has that type."""
        goal = as_dtype(dtype)
        if goal is self.dtype:
            return self  # type: ignore[return-value]
        return self._apply(ops.astype, self, dtype=goal)
