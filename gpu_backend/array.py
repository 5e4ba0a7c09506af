"""Array: a shape and an element type over memory on one device. It knows nothing of gradients.

Arrays are contiguous, in row-major order. ``reshape`` shares the memory; everything else that moves elements copies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .capture import active
from .device import Device
from .device import device as find_device
from .errors import DeviceError, DtypeError, ReleasedBufferError, ShapeError
from .operators import Operators, catalogue
from .recorder import READS, Download
from .spec import (
    DType,
    DTypeLike,
    Scalar,
    Shape,
    as_dtype,
    as_shape,
    bool_,
    float16,
    float32,
    int32,
    reshaped,
    size_of,
    uint32,
)
from .storage import Storage
from .submission import Bytes

_NATIVE = {
    np.dtype(np.float32): float32,
    np.dtype(np.float16): float16,
    np.dtype(np.int32): int32,
    np.dtype(np.uint32): uint32,
    np.dtype(np.bool_): bool_,
}

HOST_DLPACK_DEVICE = (1, 0)  # kDLCPU, the first one


class Array(Operators):
    """Elements of one type on one device. Make one with ``array``, ``empty`` or an op; read it with ``numpy``."""

    __slots__ = ("__weakref__", "device", "dtype", "shape", "storage")
    __array_ufunc__ = None

    shape: Shape
    dtype: DType

    def __init__(self, storage: Storage, shape: Shape, dtype: DType, device: Device) -> None:
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.device = device

    @property
    def size(self) -> int:
        """The number of elements."""
        return size_of(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take on the device, in whole words."""
        return nbytes_of(self.shape, self.dtype, self.device)

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements as numpy. Waits for the work recorded so far; changes nothing on the device."""
        with self.device.lock:
            content = self.device.recorder.download(self.storage, self.nbytes)
        return elements_of(content, self)

    def download_async(self) -> Readback:
        """The elements as they are now, on their way to the host; the handle waits for them when they are asked for."""
        with self.device.lock:
            return Readback(self, self.device.recorder.start_download(self.storage, self.nbytes))

    def item(self) -> Scalar:
        """The only element as a Python number; ShapeError if there is not exactly one."""
        _require_one(self.shape)
        number: Scalar = self.numpy().reshape(()).item()
        return number

    def tolist(self) -> Any:
        """The elements as nested Python lists; a number for shape ()."""
        return self.numpy().tolist()

    def reshape(self, *shape: int | Iterable[int]) -> Array:
        """The same memory in another shape; one extent may be -1."""
        wanted = shape[0] if len(shape) == 1 else shape
        return Array(self.storage, reshaped(self.shape, wanted), self.dtype, self.device)  # type: ignore[arg-type]

    def to(self, target: str | Device) -> Array:
        """These elements on another device, through the host; itself if it is there already."""
        goal = find_device(target)
        return self if goal is self.device else array(self.numpy(), self.dtype, goal)

    def host(self) -> npt.NDArray[Any]:
        """The elements of a host array: a view, except that bool is converted. For twins, which write no input."""
        self.storage.check()
        if not self.device.is_host:
            raise DeviceError(f"an array on {self.device.name} meets arrays on the host; move it with to()")
        return elements_of(self.storage.buffer.memory[: self.nbytes], self)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the elements of an array lie on a device; numpy gets a copy of them")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of a copy on the host, for numpy.from_dlpack, torch.from_dlpack and the like."""
        if dl_device not in (None, HOST_DLPACK_DEVICE) or copy is False or stream is not None:
            raise BufferError("the elements lie on a device that DLPack does not know; it gets a copy on the host")
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST_DLPACK_DEVICE

    def _apply(self, name: str, **attributes: Any) -> Any:
        return catalogue[name](self, **attributes)

    def _meet(self, name: str, a: Any, b: Any, **attributes: Any) -> Any:
        if any(isinstance(x, Operators) and not isinstance(x, Array) for x in (a, b)):
            return NotImplemented  # a tensor, which has the same operators and a tape
        return catalogue[name](_operand(a, self), _operand(b, self), **attributes)

    def __reduce__(self) -> Any:
        """Pickled through the host. A host array comes back on the host, any other on the default device of then."""
        storage = self.storage
        return _unpickled, (self.numpy(), self.dtype, self.device.is_host, storage.label, storage.persistent)

    def __copy__(self) -> Array:
        return Array(self.storage, self.shape, self.dtype, self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """A copy on the same device, through the host."""
        device = self.device
        with device.lock:
            result = allocate(self.shape, self.dtype, device, self.storage.label)
            device.recorder.upload(result.storage, device.recorder.download(self.storage, self.nbytes))
            if self.storage.persistent:
                result.storage.persist(self.storage.label)
        memo[id(self)] = result
        return result

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API for arrays: ``gpu_backend`` itself."""
        return sys.modules[__package__]

    def to_device(self, device: str | Device, /, *, stream: object = None) -> Array:
        """The array API's name of ``to``."""
        return self.to(device)

    def __getitem__(self, key: Any) -> Array:
        """A copy of the elements that integers, slices, ... and None choose."""
        chosen: Array = self._apply("getitem", key=key)
        return chosen

    def __setitem__(self, key: Any, source: Any) -> None:
        """Overwrite the elements that ``key`` chooses with ``source``, which broadcasts and takes this element type."""
        catalogue["setitem"](self, key, _operand(source, self))

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("an array of shape () has no elements to go over")
        return (self[index] for index in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of shape () has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.storage.released or self.device.health.ended:
            why = "released" if self.storage.released else "lost"
            return f"Array({why}, shape={self.shape}, dtype={self.dtype}, device={self.device.name!r})"
        return f"Array({self.numpy()!r}, dtype={self.dtype}, device={self.device.name!r})"


class Readback:
    """Elements of an array on their way to the host, as they were when it was asked for; later changes do not matter.

    ``numpy``, ``item`` and ``tolist`` wait for them if need be, ``done`` tells beforehand.
    """

    def __init__(self, array: Array, download: Download) -> None:
        self.device = array.device
        self.dtype = array.dtype
        self.shape = array.shape
        self._download = download

    @property
    def done(self) -> bool:
        """Whether the elements are here."""
        with self.device.lock:
            return self._download.done

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as numpy, each time a copy."""
        if active.capture is not None:
            active.capture.abandon(READS)
        with self.device.lock:
            content = self._download.content()
        return elements_of(content.copy(), self)

    def item(self) -> Scalar:
        """The only element as a Python number; ShapeError if there is not exactly one."""
        _require_one(self.shape)
        number: Scalar = self.numpy().reshape(()).item()
        return number

    def tolist(self) -> Any:
        """The elements as nested Python lists; a number for shape ()."""
        return self.numpy().tolist()


def _operand(value: Any, like: Array) -> Any:
    """An array or a Python number; anything else that numpy understands becomes an array on the device of ``like``."""
    if isinstance(value, Array | bool | int | float):
        return value
    return value.item() if isinstance(value, np.generic) else array(value, device=like.device)


def elements_of(content: Bytes, like: Any) -> npt.NDArray[Any]:
    """Bytes of a buffer as numpy in the shape and type of an array; a view of them, but for bool."""
    stored = like.device.storage_dtype(like.dtype)
    elements: npt.NDArray[Any] = content[: size_of(like.shape) * stored.itemsize].view(stored).reshape(like.shape)
    return elements.astype(np.bool_) if like.dtype is bool_ else elements


def _require_one(shape: Shape) -> None:
    if size_of(shape) != 1:
        raise ShapeError(f"item: shape {shape} has {size_of(shape)} elements, not one")


def empty(
    shape: int | Iterable[int], dtype: DTypeLike = float32, device: str | Device | None = None, label: str = ""
) -> Array:
    """An array whose elements are anything. ``label`` is what errors call its memory."""
    target = find_device(device)
    with target.lock:
        return allocate(as_shape("empty", shape), as_dtype(dtype), target, label)


def allocate(shape: Shape, dtype: DType, device: Device, label: str) -> Array:
    """``empty`` without checks of shape and type, for ops."""
    if device.health.ended:
        device.health.check()
    storage = device.pool.take(nbytes_of(shape, dtype, device), label, shape)
    return Array(storage, shape, dtype, device)


def array(
    data: npt.ArrayLike | Array, dtype: DTypeLike | None = None, device: str | Device | None = None, label: str = ""
) -> Array:
    """An array on a device with the elements of ``data``: numbers, nested lists, numpy, or another Array, whose device
    is then the default.

    Without ``dtype``: float64 becomes float32, 64-bit, 16-bit and 8-bit integers become int32 (uint32 stays,
    uint64 becomes uint32), in any memory order, byte order or stride. DtypeError if an integer does not fit, or for
    complex numbers, strings and objects.
    """
    goal = data.device if device is None and isinstance(data, Array) else find_device(device)
    elements = host_elements(data, dtype)
    with goal.lock:
        result = allocate(elements.shape, _NATIVE[elements.dtype], goal, label or "array")
        write(result, elements)
    return result


def write(target: Array, elements: npt.NDArray[Any]) -> None:
    """Overwrite ``target``, where it lies, from the host with ``elements`` of its shape and type."""
    goal = target.device
    stored = bytes_of(elements, goal)
    with goal.lock, overwriting(target) as memory:
        goal.recorder.upload(memory.storage, stored)


def bytes_of(elements: npt.NDArray[Any], device: Device) -> Bytes:
    """Elements of one of the types there are as they lie in a buffer of the device."""
    stored = np.ascontiguousarray(elements, device.storage_dtype(_NATIVE[elements.dtype]))
    return whole_words(stored)


def from_host(device: Device, elements: Any, dtype: DType, label: str) -> Array:
    """A new array of what a twin made, in the type that the device stores; elements are cast, not checked."""
    result = allocate(np.shape(elements), dtype, device, label)
    stored = np.asarray(elements, device.storage_dtype(dtype), order="C")
    device.recorder.upload(result.storage, whole_words(stored))
    return result


def whole_words(stored: npt.NDArray[Any]) -> Bytes:
    """The bytes of contiguous elements, padded to whole words."""
    content = stored.reshape(-1).view(np.uint8)
    return content if content.nbytes % 4 == 0 else np.pad(content, (0, -content.nbytes % 4))


def nbytes_of(shape: Shape, dtype: DType, device: Device) -> int:
    """Bytes of so many elements in a buffer: whole words, since that is what a queue writes and copies."""
    return (size_of(shape) * device.storage_dtype(dtype).itemsize + 3) & ~3


@contextmanager
def overwriting(target: Array) -> Iterator[Array]:
    """What to write, in the body of this ``with``, to overwrite all of ``target``.

    That is ``target`` itself or, where another storage shares its memory, an array that it takes over at the end: if
    the body raises, the elements are as they were. The version moves first, so that the tape notices half a write too.
    """
    target.storage.check()
    target.device.recorder.claim(target.storage)
    target.storage.version += 1
    if not target.storage.shared:
        yield target
    else:
        fresh = allocate(target.shape, target.dtype, target.device, target.storage.label)
        yield fresh
        target.storage.adopt(fresh.storage)


def from_dlpack(source: Any, device: str | Device | None = None) -> Array:
    """An array on a device with a copy of the elements of any DLPack object on the host: numpy, torch on the CPU.

    Types convert by the rules of ``array``. DeviceError if the elements lie elsewhere, or are not given away.
    """
    try:
        elements = np.from_dlpack(source)
    except (ReleasedBufferError, DeviceError):
        raise
    except (BufferError, RuntimeError, TypeError, AttributeError) as error:
        raise DeviceError(f"from_dlpack: {type(source).__name__} gave no elements on the host: {error}") from error
    return array(elements, device=device)


def _unpickled(elements: npt.NDArray[Any], dtype: DType, on_host: bool, label: str, persistent: bool) -> Array:
    result = array(elements, dtype, "host" if on_host else None, label)
    if persistent:
        result.storage.persist(label)
    return result


def host_elements(data: npt.ArrayLike | Array, dtype: DTypeLike | None = None) -> npt.NDArray[Any]:
    """``data`` as numpy in one of the element types there are; the rules are those of ``array``."""
    if dtype is None and type(data) is np.ndarray and data.dtype in _NATIVE:
        return data
    elements = np.asarray(data.numpy() if isinstance(data, Array) else data)
    inferred = _NATIVE.get(elements.dtype) or _converted_type(elements.dtype)
    wanted = inferred if dtype is None else as_dtype(dtype)
    if elements.dtype == wanted.numpy:
        return elements
    if wanted.is_integer:
        limits = np.iinfo(wanted.name)
        if elements.dtype.kind == "f" and elements.size and not np.array_equal(elements, np.trunc(elements)):
            raise DtypeError(f"array: {elements.dtype} holds numbers that are not whole; they do not fit {wanted}")
        # As float64: in float32 the ends of the range round to numbers outside it.
        if elements.size and not (float(elements.min()) >= limits.min and float(elements.max()) <= limits.max):
            raise DtypeError(f"array: {elements.dtype} holds numbers outside the range of {wanted}")
    with np.errstate(over="ignore"):  # a float64 past float32's range becomes infinity, as in numpy
        return elements.astype(wanted.numpy)


def _converted_type(dtype: np.dtype[Any]) -> DType:
    if dtype.kind == "f":
        return float32
    if dtype.kind == "i":
        return int32
    if dtype.kind == "u":
        return uint32 if dtype.itemsize >= 4 else int32
    if dtype.kind == "b":
        return bool_
    raise DtypeError(f"array: elements of type {dtype} have no counterpart on a device")
