"""What the array API (data-apis.org/array-api) asks of a namespace besides functions of arrays: constants, questions
about element types, and what is not there, by name.

``gpu_backend`` is the namespace of arrays, ``autodiff.functional`` that of tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .device import Device, adapters
from .device import device as find_device
from .errors import DtypeError
from .spec import DTYPES, DType, Spec, as_dtype, bool_, float16, float32, int32, uint32
from .spec import result_type as common_type

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "can_cast",
    "e",
    "finfo",
    "iinfo",
    "inf",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
]

__array_api_version__ = "2023.12"

e = math.e
inf = math.inf
nan = math.nan
pi = math.pi
newaxis = None

_NO_64 = "WGSL has no 64-bit numbers; take float32, int32 or uint32"
_NO_COMPLEX = "WGSL has no complex numbers; keep the two parts apart"
_NO_SMALL = "an integer takes 32 bits here; take int32 or uint32"
_SHAPE_FROM_DATA = "its shape depends on the elements, which live on a device; numpy() reads them"
_NO_SORT = "there is no sort here yet; numpy() reads the elements"

MISSING = {
    "float64": _NO_64,
    "int64": _NO_64,
    "uint64": _NO_64,
    "complex64": _NO_COMPLEX,
    "complex128": _NO_COMPLEX,
    "conj": _NO_COMPLEX,
    "imag": _NO_COMPLEX,
    "real": _NO_COMPLEX,
    "int8": _NO_SMALL,
    "uint8": _NO_SMALL,
    "int16": _NO_SMALL,
    "uint16": _NO_SMALL,
    "nonzero": _SHAPE_FROM_DATA,
    "unique_all": _SHAPE_FROM_DATA,
    "unique_counts": _SHAPE_FROM_DATA,
    "unique_inverse": _SHAPE_FROM_DATA,
    "unique_values": _SHAPE_FROM_DATA,
    "sort": _NO_SORT,
    "argsort": _NO_SORT,
    "searchsorted": _NO_SORT,
    "nextafter": "there is no kernel of it",
    "take_along_axis": "there is no kernel of it; take() has one index for a whole slice",
    "fft": "there are no Fourier transforms here",
    "linalg": "what there is of linear algebra stands in the namespace itself: matmul, tensordot, vecdot, einsum",
}


def missing(module: str, name: str) -> AttributeError:
    """What a namespace raises for a name that it has not."""
    why = MISSING.get(name)
    return AttributeError(f"{module} has no {name}: {why}" if why else f"module {module!r} has no attribute {name!r}")


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type in which arrays, element types and Python numbers meet."""
    return common_type("result_type", *(_as_operand(x) for x in arrays_and_dtypes))


def _as_operand(x: Any) -> Any:
    if isinstance(x, bool | int | float):
        return x
    return Spec((), as_dtype(getattr(x, "dtype", x)))


def can_cast(start: Any, goal: Any) -> bool:
    """Whether promotion may lead from an element type, or that of an array, to another."""
    try:
        return result_type(start, goal) is as_dtype(goal)
    except DtypeError:
        return False


_KINDS = {
    "bool": (bool_,),
    "signed integer": (int32,),
    "unsigned integer": (uint32,),
    "integral": (int32, uint32),
    "real floating": (float16, float32),
    "complex floating": (),
    "numeric": (float16, float32, int32, uint32),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether an element type is of a kind ("bool", "integral", "real floating", ...), a type, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return as_dtype(dtype) in _KINDS[kind]
    return as_dtype(dtype) is as_dtype(kind)


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a float type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(of: Any) -> FloatInfo:
    """Limits of a float type, or of that of an array; DtypeError for others."""
    kind = as_dtype(getattr(of, "dtype", of))
    if not kind.is_float:
        raise DtypeError(f"finfo: {kind} is no float type; iinfo tells of integers")
    known: Any = np.finfo(kind.name)
    eps, most, least, normal = (float(x) for x in (known.eps, known.max, known.min, known.smallest_normal))
    return FloatInfo(known.bits, eps, most, least, normal, kind)


def iinfo(of: Any) -> IntegerInfo:
    """Limits of an integer type, or of that of an array; DtypeError for others."""
    kind = as_dtype(getattr(of, "dtype", of))
    if not kind.is_integer:
        raise DtypeError(f"iinfo: {kind} is no integer type; finfo tells of floats")
    known = np.iinfo(kind.name)
    return IntegerInfo(32, int(known.max), int(known.min), kind)


class NamespaceInfo:
    """What a program may ask a namespace about itself."""

    def capabilities(self) -> dict[str, Any]:
        """No masks as indices, no shapes that depend on elements, at most eight dimensions that do not merge."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 8}

    def default_device(self) -> Device:
        """The device on which arrays are made."""
        return find_device(None)

    def devices(self) -> list[Any]:
        """The host, and every adapter by its name."""
        return ["host", *(adapter.name for adapter in adapters())]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Element types of Python numbers and of indices."""
        return {"real floating": float32, "integral": int32, "indexing": int32}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Element types by name, of a ``kind`` if one is given."""
        return {dtype.name: dtype for dtype in DTYPES if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    return NamespaceInfo()
