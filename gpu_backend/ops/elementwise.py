"""What makes elementwise ops from a line each: ``unary`` for functions of one array, ``binary`` for those of two.

The functions themselves stand in ``unary.py``, ``activation.py``, ``binary.py`` and ``logic.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..array import Array, allocate
from ..errors import DtypeError
from ..op import Gradients, HostArray, HostGradients, Needs, Op, Operand, Saved
from ..spec import DType, HasSpec, Scalar, Shape, Spec, as_scalar, bool_, broadcast_shapes, float32, result_type
from .broadcast import label, record_pair
from .reduction import sum_to, sum_to_host

HostFunction = Callable[..., Any]

FLOAT = ("float32",)
INTEGERS = ("int32", "uint32")
BITS = ("int32", "uint32", "bool")
NUMBERS = ("float32", "int32", "uint32")
ANY = ("float32", "int32", "uint32", "bool")

_PLACES = ("first", "second", "third")


def unary(
    name: str,
    formula: str,
    value: HostFunction,
    slope: HostFunction | None = None,
    saves: Literal["x", "y"] = "x",
    library: str = "scalar",
    takes: tuple[str, ...] = FLOAT,
    result: DType | None = None,
    numbers: dict[str, float] | None = None,
    check: Callable[..., None] | None = None,
) -> Op:
    """The op y = value(x), dx = dy slope(x), or slope(y) if it ``saves`` "y"; without a ``slope`` it has no gradient.

    wgsl/lib has ``<name>_value`` and ``<name>_slope`` for floats in the file ``library``, ``<name>_value`` for integers
    in ``whole``. ``takes`` are the element types, ``result`` is that of y if not that of x. ``numbers`` are up to three
    attributes with their defaults, which the functions take besides; ``check`` may raise because of them.
    """
    rule = _Unary(name, value, slope, saves, library, takes, result, numbers or {}, check)

    def spec(x: HasSpec, **attributes: float) -> Spec:
        return rule.spec(x, **attributes)

    spec.__doc__ = f"{formula}. Elementwise, {', '.join(takes)}."
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    spec.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("x", keyword, annotation="HasSpec"),
            *(inspect.Parameter(key, keyword, default=number) for key, number in rule.numbers.items()),
        ]
    )
    if slope is None:
        return Op(name, spec, rule.host_forward, rule.forward)
    return Op(name, spec, rule.host_forward, rule.forward, rule.host_backward, rule.backward)


@dataclass(frozen=True)
class _Unary:
    """The functions of an op of one array; the fields are the arguments of ``unary``."""

    name: str
    value: HostFunction
    slope: HostFunction | None
    saves: str
    library: str
    takes: tuple[str, ...]
    result: DType | None
    numbers: dict[str, float]
    check: Callable[..., None] | None
    preludes: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def spec(self, x: HasSpec, **attributes: float) -> Spec:
        _require(self.name, self.takes, x.dtype)
        self.constants(attributes)
        return Spec(x.shape, self.result or x.dtype)

    def constants(self, attributes: dict[str, float]) -> tuple[float, ...]:
        """The numbers in order, those not given by their defaults."""
        unknown = sorted(attributes.keys() - self.numbers.keys())
        if unknown:
            takes = ", ".join(self.numbers) or "none"
            raise TypeError(f"{self.name}: no attribute {', '.join(unknown)}; it takes {takes}")
        for key, number in attributes.items():
            if not isinstance(number, int | float | np.number):
                raise DtypeError(f"{self.name}: {key} is a number, not {type(number).__name__}")
        found = tuple(float(number) for number in {**self.numbers, **attributes}.values())
        if self.check is not None:
            self.check(*found)
        return found

    def host_forward(self, x: HostArray, **attributes: float) -> tuple[HostArray, Saved]:
        constants = self.constants(attributes)
        y = np.asarray(self.value(x, *constants), np.bool_ if self.result is bool_ else x.dtype)
        return y, (y if self.saves == "y" else x, *constants)

    def host_backward(self, dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        assert self.slope is not None
        return (np.asarray(dy * self.slope(*saved), dy.dtype),)

    def forward(self, out: Spec, x: Array, **attributes: float) -> tuple[Array, Saved]:
        constants = self.constants(attributes) if self.numbers else ()
        y = allocate(out.shape, out.dtype, x.device, self.name)
        self.record("forward", x, constants, x=x, y=y)
        return y, (y if self.saves == "y" else x, *constants)

    def backward(self, dy: Array, saved: Saved, needs: Needs) -> Gradients:
        dx = allocate(dy.shape, float32, dy.device, self.name)
        self.record("backward", dy, saved[1:], dy=dy, saved=saved[0], dx=dx)
        return (dx,)

    def record(self, entry: str, like: Array, constants: tuple[float, ...], **arrays: Array) -> None:
        prelude = self.preludes.get(like.dtype.name) or self.prelude(like.dtype)
        first, second, third = (*constants, 0.0, 0.0, 0.0)[:3] if constants else (0.0, 0.0, 0.0)
        kernel = like.device.kernel("unary", entry, prelude, (), label(self.name, entry, like.dtype))
        size = like.size
        like.device.recorder.record_over(
            kernel, -(-size // 4), size=size, first=first, second=second, third=third, **arrays
        )

    def prelude(self, dtype: DType) -> str:
        """What stands in front of unary.wgsl for elements of one type."""
        extra = "".join(f", params.{place}" for place, _ in zip(_PLACES, self.numbers, strict=False))
        has_slope = self.slope is not None and dtype.is_float
        slope = f"{self.name}_slope(v{extra})" if has_slope else "0.0"
        text = (
            f"// uses: lib/{self.library if dtype.is_float else 'whole'}\n"
            f"alias elem = {dtype.wgsl};\n"
            f"alias result = {(self.result or dtype).wgsl};\n"
            f"fn value(x: elem) -> result {{ return {self.name}_value(x{extra}); }}\n"
            f"fn slope(v: f32) -> f32 {{ return {slope}; }}\n"
        )
        self.preludes[dtype.name] = text
        return text


def _require(op: str, takes: tuple[str, ...], dtype: DType) -> None:
    if dtype.name not in takes:
        raise DtypeError(f"{op}: takes {' or '.join(takes)}, not {dtype}; convert with astype")


# Functions of two operands, either of which may be a number. da = dy * df/da summed to the shape of a, db likewise.

Slope = HostFunction | Literal[1, -1, 0] | None


def binary(
    name: str,
    formula: str,
    value: HostFunction,
    left: Slope = None,
    right: Slope = None,
    library: str = "arithmetic",
    whole: str = "",
    takes: tuple[str, ...] = NUMBERS,
    result: DType | None = None,
) -> Op:
    """The op y = value(a, b), broadcast; ``left`` and ``right``, its partial derivatives, are functions of both
    operands or a constant, and without them there is no gradient.

    wgsl/lib has ``<name>_value`` in the file ``library``, or in ``whole`` for integers if that is another, and
    ``<name>_left`` and ``<name>_right`` where a derivative is a function: the operands are saved then.
    """
    rule = _Binary(name, value, (left, right), library, whole or library, takes, result)

    def spec(a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
        return rule.spec(a, b)

    summed = "" if left is None else ", each summed to its shape"
    spec.__doc__ = f"{formula}{summed}. Broadcast, {', '.join(takes)}; either operand may be a number."
    promotion = "float" if takes == FLOAT else "common"
    if left is None:
        return Op(name, spec, rule.host_forward, rule.forward, promotion=promotion)
    return Op(name, spec, rule.host_forward, rule.forward, rule.host_backward, rule.backward, promotion=promotion)


@dataclass(frozen=True)
class _Binary:
    """The functions of an op of two operands; the fields are the arguments of ``binary``."""

    name: str
    value: HostFunction
    slopes: tuple[Slope, Slope]
    library: str
    whole: str
    takes: tuple[str, ...]
    result: DType | None

    @property
    def sides(self) -> tuple[str, ...]:
        """Which derivatives are functions."""
        return tuple(side for side, slope in zip(("left", "right"), self.slopes, strict=True) if callable(slope))

    def spec(self, a: HasSpec | Scalar, b: HasSpec | Scalar) -> Spec:
        dtype = common_type(self.name, a, b)
        _require(self.name, self.takes, dtype)
        return broadcast_spec(self.name, self.result or dtype, a, b)

    def host_forward(self, a: Any, b: Any) -> tuple[HostArray, Saved]:
        operands = (a, b) if self.sides else (None, None)
        dtype = (a if isinstance(a, np.ndarray) else b).dtype
        y = np.asarray(self.value(np.asarray(a, dtype), np.asarray(b, dtype)))
        return y.astype(np.bool_ if self.result is bool_ else dtype, copy=False), (*operands, shape_of(a), shape_of(b))

    def host_backward(self, dy: HostArray, saved: Saved, needs: Needs) -> HostGradients:
        operands = [np.asarray(x, dy.dtype) for x in saved[:2]] if self.sides else []

        def one(slope: Slope, shape: Shape | None) -> HostArray:
            factor = slope(*operands) if callable(slope) else slope
            return sum_to_host(np.asarray(dy * factor, dy.dtype), shape)

        made = [one(self.slopes[side], saved[2 + side]) if needs[side] else None for side in (0, 1)]
        return made[0], made[1]

    def forward(self, out: Spec, a: Operand, b: Operand) -> tuple[Array, Saved]:
        sides = self.sides
        operands = (a, b) if sides else (None, None)
        array = a if isinstance(a, Array) else b
        library = self.library if isinstance(array, Array) and array.dtype.is_float else self.whole
        used = sides if library == self.library else ()
        y = record_pair(self.name, "forward", out, a, b, used, library=library)
        return y, (*operands, shape_of(a), shape_of(b))

    def backward(self, dy: Array, saved: Saved, needs: Needs) -> Gradients:
        def one(side: int, slope: Slope, shape: Shape | None) -> Array:
            if callable(slope):
                entry = "right_backward" if side else "left_backward"
                out = Spec(dy.shape, float32)
                made = record_pair(self.name, entry, out, saved[0], saved[1], self.sides, dy, self.library)
                return sum_to(made, shape)
            if slope == 1:
                return sum_to(dy, shape)
            return sum_to(record_pair("multiply", "forward", Spec(dy.shape, float32), dy, float(slope or 0)), shape)

        made = [one(side, self.slopes[side], saved[2 + side]) if needs[side] else None for side in (0, 1)]
        return made[0], made[1]


def shape_of(x: Any) -> Shape | None:
    """The shape of an array, on a device or of numpy; None for a number."""
    return None if isinstance(x, bool | int | float) else x.shape


def broadcast_spec(op: str, dtype: DType, *operands: HasSpec | Scalar) -> Spec:
    """The spec of operands broadcast against each other."""
    shapes = [x.shape for x in operands if not isinstance(x, bool | int | float)]
    return Spec(shapes[0] if all(s == shapes[0] for s in shapes) else broadcast_shapes(op, *shapes), dtype)


def common_type(op: str, *operands: HasSpec | Scalar) -> DType:
    """The one element type of operands; a number takes that of the arrays."""
    arrays = [x for x in operands if not isinstance(x, bool | int | float)]
    if not arrays:
        raise DtypeError(f"{op}: at least one operand must be an array; full() makes one")
    dtype = arrays[0].dtype
    for x in operands:
        if isinstance(x, bool | int | float):
            if result_type(op, arrays[0], x) is not dtype:
                raise DtypeError(f"{op}: the number {x!r} does not go with {dtype}; convert the array with astype")
            as_scalar(op, x, dtype)
        elif x.dtype is not dtype:
            raise DtypeError(f"{op}: element types differ: {dtype} and {x.dtype}; convert one with astype")
    return dtype
