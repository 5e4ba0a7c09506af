"""Tensor: an array and its place on the tape.

``apply`` is the one bridge from array ops to the tape; operators and methods go through it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_backend import Array, Device, DType, DtypeError, Op, array, float32, full
from gpu_backend.array import Readback
from gpu_backend.capture import active, paused
from gpu_backend.device import device as find_device
from gpu_backend.device import same_device
from gpu_backend.operators import Operators, catalogue
from gpu_backend.ops import update
from gpu_backend.spec import DTypeLike, Scalar, Shape, as_scalar
from gpu_backend.storage import Storage

from .errors import GradientError
from .freeze import Mutations
from .in_place import InPlace
from .indexing import Indexing
from .tape import Entry, deliver, is_grad_enabled, walk
from .trace import note_gradient, note_leaf


class Tensor(Indexing, InPlace, Operators):
    """An array that remembers how it was made, if a gradient was asked of what it was made from.

    ``requires_grad``: a gradient of this tensor, or of one it was made from, is wanted. ``grad``: after ``backward``,
    the gradient of a tensor that the user made. Comparison is elementwise, hashing is by identity.
    """

    __slots__ = ("__weakref__", "_entry", "_grad", "_home", "_housed", "_requires_grad", "array")
    __array_ufunc__ = None  # numpy arrays on the left of an operator leave it to us

    def __init__(self, array: Array, requires_grad: bool = False) -> None:
        if requires_grad and not array.dtype.is_float:
            raise DtypeError(f"a gradient exists for floats only, not for {array.dtype}")
        self.array = array
        self._requires_grad = requires_grad
        self._grad: Tensor | None = None
        self._home: weakref.ref[Storage] | None = None  # of the gradient, where plans write it
        self._housed: list[weakref.ref[Array]] = []  # gradients on memory that plans write
        self._entry: Entry | None = None

    # What it is.

    @property
    def shape(self) -> Shape:
        """The extent of each dimension."""
        return self.array.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.array.dtype

    @property
    def device(self) -> Device:
        """The device that holds the elements."""
        return self.array.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient of this tensor, or of one it was made from, is wanted."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user, not by an op on the tape."""
        return self._entry is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` calls have summed up so far; None before the first. Assigned, it is copied."""
        if active.capture is not None:
            note_gradient(self, is_read=True)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if active.capture is not None:
            note_gradient(self, is_read=False)
        if value is not None:
            self._check_gradient("grad", value)
            value = Tensor(update.persist(update.copy(value.array), "gradient"))
        self._grad = value

    # To the host.

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements as numpy; waits for the work recorded so far."""
        return self.array.numpy()

    def item(self) -> Scalar:
        """The only element as a Python number."""
        return self.array.item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.array.tolist()

    def download_async(self) -> Readback:
        """The elements as they are now, on their way to the host, off the tape; the handle waits when it is read."""
        return self.array.download_async()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API for tensors: ``autodiff.functional``."""
        return sys.modules[f"{__package__}.functional"]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.array.__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        """As ``Array.__dlpack__``: a copy on the host, off the tape."""
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        if self.array.storage.released or self.device.health.ended:
            return f"tensor({'released' if self.array.storage.released else 'lost'}, shape={self.shape})"
        body = np.array2string(self.numpy(), separator=", ", prefix="tensor(")
        notes = [] if self.dtype is float32 else [f"dtype={self.dtype}"]
        notes += [f"op={self._entry.op.name}"] if self._entry else ["requires_grad=True"] * self.requires_grad
        return f"tensor({', '.join([body, *notes])})"

    # Gradients.

    def backward(self, gradient: Tensor | None = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this tensor to ``grad`` of every leaf it was made from.

        ``gradient`` is the gradient of the final result with respect to this tensor, 1 by default, which needs a single
        element. ``retain_graph`` keeps what was saved, for a second call. GradientError where there is no gradient.
        """
        if create_graph:
            raise GradientError("backward: create_graph=True, a gradient of a gradient, does not exist yet")
        if not self.requires_grad:
            raise GradientError(
                "backward: this tensor is not on the tape: nothing it was made from has requires_grad, "
                "or it was made under no_grad, or detached"
            )
        if gradient is None:
            if self.size != 1:
                raise GradientError(
                    f"backward: shape {self.shape} has {self.size} elements; reduce it to one, with sum() or mean(), "
                    "or pass the gradient"
                )
            dy = Array(_one(self.device, self.dtype).storage, self.shape, self.dtype, self.device)
        else:
            self._check_gradient("backward", gradient)
            dy = gradient.array
        if self._entry is None:
            deliver({self: dy}, dy)
        else:
            with self.device.lock:
                walk(self._entry, dy, retain_graph)

    def _check_gradient(self, name: str, gradient: Any) -> None:
        if not isinstance(gradient, Tensor):
            raise GradientError(f"{name}: a gradient is a tensor, not {type(gradient).__name__}")
        if gradient.shape != self.shape or gradient.dtype is not self.dtype:
            raise GradientError(
                f"{name}: the gradient has {gradient.shape} {gradient.dtype}, the tensor {self.shape} {self.dtype}"
            )
        same_device(name, self.device, gradient.device)
        gradient.array.storage.check()

    def prepare_gradient(self, gradient: Array, exclusive: bool) -> Array:
        """``gradient``, or a copy where ``grad`` could not keep its memory; called by the tape."""
        if active.capture is not None:
            note_gradient(self, is_read=True)
        if self._grad is not None:
            self._grad.array.storage.check()
        keeps = self._grad is not None or (exclusive and not gradient.storage.persistent)
        return gradient if keeps else update.copy(gradient)

    def receive_gradient(self, gradient: Array) -> None:
        """Add what was prepared to ``grad``; called by the tape."""
        if self._grad is None:
            self._grad = Tensor(update.persist(gradient, "gradient"))
        else:
            update.accumulate(self._grad.array, gradient)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient of this tensor, or no longer; returns itself."""
        if self._entry is not None:
            raise GradientError("requires_grad_: this tensor is the result of an op; ask before the op, or detach()")
        if requires_grad and not self.dtype.is_float:
            raise DtypeError(f"a gradient exists for floats only, not for {self.dtype}")
        note_leaf(self)
        self._requires_grad = requires_grad
        Mutations.count += 1
        return self

    def detach(self) -> Tensor:
        """The same memory, off the tape."""
        return Tensor(self.array)

    def to(self, device: str | Device) -> Tensor:
        """A copy on another device, through the host; itself if it is there already.

        The way is not recorded: a tensor with a gradient is detached first, or moved under ``no_grad``.
        """
        goal = find_device(device)
        if goal is self.device:
            return self
        if self.requires_grad and is_grad_enabled():
            raise GradientError("to: the way to another device is not recorded; move detach(), or under no_grad()")
        return Tensor(self.array.to(goal))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A copy on the same device, without ``grad``."""
        self._forbid_results("deepcopy")
        made, storage = update.copy(self.array), self.array.storage
        if storage.persistent:
            update.persist(made, storage.label)
        result = memo[id(self)] = _restored(type(self), made, self._requires_grad)
        return result

    def __copy__(self) -> Tensor:
        """The same memory, at the same place on the tape."""
        result = _restored(type(self), self.array, self._requires_grad)
        result._entry = self._entry
        return result

    def __reduce__(self) -> Any:
        """Pickled through the host, as ``Array``, without ``grad``."""
        self._forbid_results("pickle")
        return _restored, (type(self), self.array, self._requires_grad)

    def _forbid_results(self, name: str) -> None:
        if self._entry is not None:
            raise GradientError(f"{name}: this tensor is the result of an op; use detach()")

    # What Operators and InPlace need of a tensor.

    def _promoted(self, op: Op, other: Any) -> tuple[Any, ...]:
        return promoted(op, self, other)

    def _as_operand(self, value: Any) -> Tensor | Scalar:
        return _as_operand(value, self)

    def _apply(self, name: str, **attributes: Any) -> Any:
        return apply(catalogue[name], self, **attributes)

    def _meet(self, name: str, a: Any, b: Any, **attributes: Any) -> Any:
        return apply_promoted(catalogue[name], a, b, **attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...  # functions marked @method in functional


def _restored(kind: type[Tensor], array: Array, requires_grad: bool) -> Tensor:
    result = kind.__new__(kind)
    Tensor.__init__(result, array, requires_grad)
    return result


def _one(device: Device, dtype: DType) -> Array:
    """The number 1 on a device, where every walk back from a scalar starts."""
    key = f"one {dtype}"
    with device.lock:
        if key not in device.constants:
            with paused():
                device.constants[key] = update.persist(full((), 1.0, dtype, device), "one")
        one: Array = device.constants[key]
        return one


def tensor(
    data: Any, dtype: DTypeLike | None = None, requires_grad: bool = False, device: str | Device | None = None
) -> Tensor:
    """A tensor with a copy of ``data``: numbers, nested lists, numpy, another tensor.

    Types follow ``gpu_backend.array``: float64 becomes float32, int64 becomes int32 if it fits. A tensor is copied on
    its own device, unless another is named, and off the tape; the elements move when either is first written.
    """
    source = data.array if isinstance(data, Tensor) else data
    if isinstance(source, Array) and device in (None, source.device) and dtype in (None, source.dtype):
        return Tensor(update.clone(source), requires_grad)
    return Tensor(array(source, dtype, device), requires_grad)


def apply(op: Op, *inputs: Tensor | Scalar | None, **attributes: Any) -> Tensor:
    """Run an array op on tensors and put it on the tape if any of them wants a gradient."""
    wanted = False
    arrays: list[Any] = []
    device: Device | None = None
    for x in inputs:
        if isinstance(x, Tensor):
            arrays.append(x.array)
            device = x.array.device
            wanted = wanted or x._requires_grad
        elif isinstance(x, bool | int | float | None):
            arrays.append(x)
        else:
            raise DtypeError(f"{op.name}: takes tensors, not {type(x).__name__}; autodiff.tensor makes one")
    if device is None:
        raise DtypeError(f"{op.name}: at least one operand must be a tensor")
    if active.capture is not None:
        for x in inputs:
            if isinstance(x, Tensor) and x._entry is None:
                note_leaf(x)
    with device.lock:  # no other thread may change what is saved before its version is noted
        y, saved = op.run(arrays, attributes)
        result = Tensor(y)
        if wanted and y.dtype.is_float and is_grad_enabled():
            nodes = [(x._entry or x) if isinstance(x, Tensor) and x._requires_grad else None for x in inputs]
            result._entry = Entry(op, nodes, [x.shape if isinstance(x, Tensor) else None for x in inputs], saved)
            result._requires_grad = True
    return result


def apply_promoted(op: Op, *operands: Any, **attributes: Any) -> Tensor:
    """``apply`` for operands, tensors, numbers or numpy arrays, that first meet in their common element type."""
    for x in operands:
        if not isinstance(x, Tensor) or x.array.dtype is not float32:
            return apply(op, *promoted(op, *operands), **attributes)
    return apply(op, *operands, **attributes)


def promoted(op: Op, *operands: Any) -> tuple[Tensor | Scalar, ...]:
    """Operands in the element type in which ``op`` has them meet; a Python number stays one and takes their type."""
    one = next((x for x in operands if isinstance(x, Tensor)), None)
    if one is None:
        raise DtypeError(f"{op.name}: at least one operand must be a tensor")
    known = tuple(_as_operand(x, one) for x in operands)
    alone, rest = known[: op.promoted_from], known[op.promoted_from :]
    goal = op.common_type(tuple(x.array if isinstance(x, Tensor) else x for x in rest))
    if goal is None:
        return known
    return *alone, *(x.astype(goal) if isinstance(x, Tensor) else as_scalar(op.name, x, goal) for x in rest)


def _as_operand(value: Any, like: Tensor) -> Tensor | Scalar:
    """A tensor, a Python number, or anything numpy understands, which becomes a tensor on the device of ``like``."""
    if isinstance(value, Tensor | bool | int | float):
        return value
    if isinstance(value, np.generic):
        number: Scalar = value.item()
        return number
    return tensor(value, device=like.device)
