"""Op: one differentiable operation on arrays, as kernels and as numpy.

How to add one
--------------
1. ``wgsl/``: a pair of functions in ``lib/scalar.wgsl`` or ``binary.wgsl``, or a file with the entry points.
2. ``gpu_backend/ops/<family>.py``: a line (elementwise) or a block of functions and ``name = Op(...)``; the name goes
   into ``__all__`` of the file, which makes it one of ``OPS``.
3. ``autodiff/functional/<family>.py``: one line.
4. ``gpu_backend/op_table/<family>.py``: one row.

The block holds, with the attributes of the op as keyword arguments:

    name_spec(x, ...) -> Spec                        what comes out; ShapeError or DtypeError; pure. Its docstring,
                                                     which is the op's, has the formulas of y and dx
    name_host_forward(x, ...) -> (y, saved)          numpy, for any float type
    name_host_backward(dy, saved, needs) -> (dx, ...)
    name_forward(out, x, ...) -> (y, saved)          records kernels; ``out`` is what the spec said
    name_backward(dy, saved, needs) -> (dx, ...)     records kernels

``saved`` is a tuple of arrays and plain values, the same for kernels and twin, so that either can do the backward.
``needs`` has a bool per input; a gradient that is not needed is None and costs nothing.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .array import Array, from_host
from .cast import cast, common, meet
from .check_mode import checking, compare
from .device import Device, same_device
from .errors import CaptureError, DtypeError, PipelineError
from .fallback_table import table
from .host_call import call_on_host
from .observe import observed
from .spec import DTYPES, DType, Scalar, Spec, float16, float32

Operand = Array | Scalar
Saved = tuple[Any, ...]
Needs = Sequence[bool]
Gradients = tuple[Array | None, ...]
HostArray = npt.NDArray[Any]
HostGradients = tuple[HostArray | None, ...]


@dataclass(frozen=True)
class Op:
    """A record of the functions of one operation; see the module's text for what each is.

    ``forward`` None, or ``backward`` None where there is a ``host_backward``: no kernel is written yet, so the twin
    computes on the host in the middle of work on a device, as ``fallback_table`` tells. ``host_backward`` None:
    the op has no gradient, and asking for one raises. ``is_view``: the result shares the memory of the input, on every
    device, so that ``forward`` and ``backward`` serve the host as well.

    ``promotion``: operands of several element types, from number ``promoted_from`` on, meet in their common one
    before a call, or, "float", in a float; "" for ops that want them equal, or each its own.

    float16 is a type of storage: an op on it computes in float32, from copies, and its result is float16 again unless a
    float32 took part. Views, and ops that are ``typeless``, see it as it is.
    """

    name: str
    spec: Callable[..., Spec]
    host_forward: Callable[..., tuple[HostArray, Saved]]
    forward: Callable[..., tuple[Array, Saved]] | None = None
    host_backward: Callable[..., HostGradients] | None = None
    backward: Callable[..., Gradients] | None = None
    is_view: bool = False
    promotion: str = ""
    promoted_from: int = 0
    typeless: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.spec.__doc__)

    def __call__(self, *arguments: Any, **attributes: Any) -> Array:
        """The result alone. Attributes may follow the operands without their names; several arrays may be one list."""
        inputs, named = self.operands(arguments, attributes)
        inputs = tuple(x.item() if isinstance(x, np.generic) else x for x in inputs)
        if self.promotion:
            device_of(self.name, inputs)
            first = self.promoted_from
            inputs = (*inputs[:first], *meet(self.name, self.promotion, inputs[first:]))
        return self.run(inputs, named)[0]

    def operands(self, arguments: Sequence[Any], attributes: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The operands and the named attributes of a call as a user writes it."""
        signature = _signature(self.spec)
        if signature is None:  # any number of arrays
            first = arguments[0] if arguments else ()
            if isinstance(first, list | tuple):
                return tuple(first), {**dict(zip(_keywords(self.spec), arguments[1:], strict=False)), **attributes}
            return tuple(arguments), attributes
        operands, names = signature
        if not operands:
            return tuple(arguments), attributes
        inputs, rest = list(arguments[: len(operands)]), arguments[len(operands) :]
        twice = [n for n in (*operands[: len(inputs)], *names[: len(rest)]) if n in attributes]
        if twice:
            raise TypeError(f"{self.name}: {twice[0]} is given twice")
        named = [n for n in operands[len(inputs) :] if n in attributes]
        for n in operands[len(inputs) : operands.index(named[-1]) + 1] if named else ():
            if n not in attributes and n not in _optional(self.spec):
                raise TypeError(f"{self.name}: {n} is missing")
            inputs.append(attributes.pop(n, None))
        if len(rest) > len(names):
            raise TypeError(f"{self.name}: takes {len(operands) + len(names)} arguments, not {len(arguments)}")
        return tuple(inputs), {**dict(zip(names, rest, strict=False)), **attributes}

    def common_type(self, operands: tuple[Any, ...]) -> DType | None:
        """The element type in which operands meet before a call; None where they need not."""
        return common(self.name, self.promotion, operands) if self.promotion else None

    def run(self, inputs: Sequence[Operand], attributes: dict[str, Any]) -> tuple[Array, Saved]:
        """The result and what the backward needs. Raises before anything is recorded if shapes or types do not fit."""
        device = device_of(self.name, inputs)
        for x in inputs:
            if isinstance(x, Array) and x.dtype is float16 and not (self.is_view or self.typeless):
                return self._run_wide(inputs, attributes)
        if observed.by is None:
            return self._run(device, inputs, attributes)
        observer, start = observed.by, time.perf_counter()
        done = self._run(device, inputs, attributes)
        observer.op(self.name, device, start)
        return done

    def _run(self, device: Device, inputs: Sequence[Operand], attributes: dict[str, Any]) -> tuple[Array, Saved]:
        with device.lock:
            if device.health.ended:
                device.health.check()
            out = self.spec(*inputs, **attributes)
            if device.is_host and not self.is_view:
                return self._run_on_host(device, out, inputs, attributes)
            if self.forward is None or not (table.is_idle or self.is_view):
                why = table.why(self.name, "forward", self.forward is not None, device)
                if why:
                    return self._run_through_host(device, out, inputs, attributes, why)
            try:
                made = self.forward(out, *inputs, **attributes)  # type: ignore[misc]  # there is one, or there is a why
            except PipelineError as error:
                why = table.broke(self.name, "forward", error, device)
                return self._run_through_host(device, out, inputs, attributes, why)
            if checking.is_on and not self.is_view:
                compare(f"{self.name}.forward", lambda x: [self.host_forward(*x, **attributes)[0]], inputs, [made[0]])
            return made

    def _run_wide(self, inputs: Sequence[Operand], attributes: dict[str, Any]) -> tuple[Array, Saved]:
        """``run`` with float16 operands as float32; the types stand first in what is saved."""
        types = tuple(x.dtype if isinstance(x, Array) else None for x in inputs)
        wide = [cast(x, float32) if isinstance(x, Array) and x.dtype is float16 else x for x in inputs]
        y, saved = self.run(wide, attributes)
        if y.dtype is float32 and float32 not in types:
            y = cast(y, float16)
        return y, (_Types(types), *saved)

    def run_backward(self, dy: Array, saved: Saved, needs: Needs) -> Gradients:
        """One gradient per input, None where none is needed."""
        if self.host_backward is None:
            raise DtypeError(f"{self.name}: this op has no gradient")
        if saved and isinstance(saved[0], _Types):
            made = self.run_backward(cast(dy, float32), saved[1:], needs)
            types = saved[0]
            return tuple(cast(dx, types[n] or float32) if dx is not None else None for n, dx in enumerate(made))
        if observed.by is None:
            return self._run_backward(dy, saved, needs)
        observer, start = observed.by, time.perf_counter()
        gradients = self._run_backward(dy, saved, needs)
        observer.op(f"{self.name}.backward", dy.device, start)
        return gradients

    def _run_backward(self, dy: Array, saved: Saved, needs: Needs) -> Gradients:
        device = dy.device
        with device.lock:
            if self.is_view and self.backward is not None:
                return self.backward(dy, saved, needs)
            if not device.is_host:
                return self._run_backward_on_device(device, dy, saved, needs)
            upstream = dy.host()
            with np.errstate(all="ignore"):
                # there is one: run_backward has looked
                found = self.host_backward(upstream, _to_host(saved), needs)  # type: ignore[misc]
            return tuple(
                None if dx is None else dy if dx is upstream else from_host(device, dx, _float_of(dx), f"d {self.name}")
                for dx in found
            )

    def _run_backward_on_device(self, device: Device, dy: Array, saved: Saved, needs: Needs) -> Gradients:
        if self.backward is None or not table.is_idle:
            why = table.why(self.name, "backward", self.backward is not None, device)
            if why:
                return self._run_backward_through_host(dy, saved, needs, why)
        try:
            made = self.backward(dy, saved, needs)  # type: ignore[misc]  # there is one, or there is a why
        except PipelineError as error:
            why = table.broke(self.name, "backward", error, device)
            return self._run_backward_through_host(dy, saved, needs, why)
        if checking.is_on:
            twin = self.host_backward
            compare(f"{self.name}.backward", lambda x: twin(x[0], tuple(x[1:]), needs), [dy, *saved], made)  # type: ignore[misc]
        return made

    def _run_on_host(
        self, device: Device, out: Spec, inputs: Sequence[Operand], attributes: dict[str, Any]
    ) -> tuple[Array, Saved]:
        operands = [x.host() if isinstance(x, Array) else x for x in inputs]
        with np.errstate(all="ignore"):  # inf and NaN are values here, as on an adapter
            y, saved = self.host_forward(*operands, **attributes)
        result = from_host(device, y, out.dtype, self.name)
        known: list[tuple[Any, Any]] = [(y, result), *zip(operands, inputs, strict=True)]
        return result, tuple(_keep(device, item, known, self.name) for item in saved)

    def _run_through_host(
        self, device: Device, out: Spec, inputs: Sequence[Operand], attributes: dict[str, Any], why: str
    ) -> tuple[Array, Saved]:
        arrays = [x for x in inputs if isinstance(x, Array)]
        plain = [None if isinstance(x, Array) else x for x in inputs]
        is_array = [isinstance(x, Array) for x in inputs]
        places: list[tuple[str, Any]] = []  # of what is saved: an operand, something made, or a plain value
        name = self.name

        def twin(elements: list[HostArray]) -> list[HostArray]:
            rest = iter(elements)
            operands = [next(rest) if there else x for x, there in zip(plain, is_array, strict=True)]
            with np.errstate(all="ignore"):
                y, saved = self.host_forward(*operands, **attributes)
            made = [np.asarray(y, out.dtype.numpy)]
            found: list[tuple[str, Any]] = []
            for item in saved:
                same = next((n for n, x in enumerate(operands) if x is item and isinstance(x, np.ndarray)), None)
                if same is not None:
                    found.append(("operand", same))
                elif item is y:
                    found.append(("made", 0))
                elif isinstance(item, np.ndarray | np.generic):
                    found.append(("made", len(made)))
                    made.append(np.asarray(item))
                else:
                    found.append(("plain", item))
            if places and places != found:
                raise CaptureError(f"{name}: its twin saves {found}, and saved {places} before; save numbers as arrays")
            places[:] = found
            return made

        made = call_on_host(f"{self.name}.forward", twin, arrays, device, why)
        sources = {"operand": inputs, "made": made}
        return made[0], tuple(item if kind == "plain" else sources[kind][item] for kind, item in places)

    def _run_backward_through_host(self, dy: Array, saved: Saved, needs: Needs, why: str) -> Gradients:
        plain = [None if isinstance(x, Array) else x for x in saved]
        is_array = [isinstance(x, Array) for x in saved]
        there: list[bool] = []

        def twin(elements: list[HostArray]) -> list[HostArray]:
            rest = iter(elements[1:])
            known = tuple(next(rest) if array else x for x, array in zip(plain, is_array, strict=True))
            with np.errstate(all="ignore"):
                made = self.host_backward(elements[0], known, needs)  # type: ignore[misc]
            there[:] = [dx is not None for dx in made]
            return [np.asarray(dx, np.float32) for dx in made if dx is not None]

        arrays = [dy, *(x for x in saved if isinstance(x, Array))]
        made = iter(call_on_host(f"{self.name}.backward", twin, arrays, dy.device, why))
        return tuple(next(made) if is_there else None for is_there in there)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


class _Types(tuple[DType | None, ...]):
    """The element types of the operands, where some were float16."""

    __slots__ = ()


@lru_cache(maxsize=512)
def _signature(spec: Callable[..., Spec]) -> tuple[list[str], list[str]] | None:
    """The names of operands and of attributes, told apart by the annotation HasSpec; None for any number of operands.
    Where nothing is annotated so, what has no name in a call is an operand.
    """
    parameters = inspect.signature(spec).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    operands = [p.name for p in parameters if "HasSpec" in str(p.annotation)]
    return operands, [p.name for p in parameters if p.name not in operands]


@lru_cache(maxsize=512)
def _optional(spec: Callable[..., Spec]) -> frozenset[str]:
    """The parameters that may be left out."""
    parameters = inspect.signature(spec).parameters.values()
    return frozenset(p.name for p in parameters if p.default is not p.empty)


def _keywords(spec: Callable[..., Spec]) -> list[str]:
    return [p.name for p in inspect.signature(spec).parameters.values() if p.kind is p.KEYWORD_ONLY]


def device_of(name: str, inputs: Sequence[Operand | None]) -> Device:
    """The one device on which all arrays among ``inputs`` live; DeviceError if there are two."""
    found: Device | None = None
    for x in inputs:
        if isinstance(x, Array):
            if found is None:
                found = x.device
            elif x.device is not found:
                same_device(name, found, x.device)
        elif not isinstance(x, bool | int | float | None):
            raise DtypeError(f"{name}: takes arrays and numbers, not {type(x).__name__}; gpu_backend.array makes one")
    if found is None:
        raise DtypeError(f"{name}: at least one operand must be an array")
    return found


def require_float(op: str, *operands: Any) -> None:
    """DtypeError unless every array among ``operands`` is float32."""
    for x in operands:
        dtype = getattr(x, "dtype", None)
        if dtype is not None and not dtype.is_float:
            raise DtypeError(f"{op}: takes float32, not {dtype}; convert with astype")


def _float_of(dx: HostArray) -> DType:
    return float16 if dx.dtype == float16.numpy else float32


def _keep(device: Device, item: Any, known: list[tuple[Any, Any]], label: str) -> Any:
    """What the tape saves for ``item``: the array it came from, or a new one."""
    for elements, array in known:
        if item is elements:
            return array
    if not isinstance(item, np.ndarray):
        return item
    dtype = next((d for d in DTYPES if d.numpy == item.dtype), DTYPES[0])
    return from_host(device, item, dtype, label)


def _to_host(saved: Saved) -> Saved:
    return tuple(item.host() if isinstance(item, Array) else item for item in saved)
