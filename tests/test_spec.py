"""Shapes and element types without a device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_backend import DtypeError, ShapeError, spec
from gpu_backend.spec import Spec, bool_, float32, int32, uint32

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(shapes, shapes)
def test_broadcasting_is_that_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="op: shapes do not broadcast"):
            spec.broadcast_shapes("op", a, b)
    else:
        assert spec.broadcast_shapes("op", a, b) == wanted


@given(shapes, st.data())
def test_a_collapsed_walk_meets_the_same_elements(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    strides = spec.contiguous_strides(shape)
    target = tuple(shape[axis] for axis in order)
    walk = tuple(strides[axis] for axis in order)
    extents, (steps,) = spec.collapse(target, walk)
    assert len(extents) <= len(target)
    offsets = []
    for index in range(spec.size_of(target)):
        rest, offset = index, 0
        for extent, step in zip(extents, steps, strict=True):
            offset += rest % extent * step
            rest //= extent
        offsets.append(offset)
    wanted = np.arange(spec.size_of(shape)).reshape(shape).transpose(order).ravel()
    assert offsets == wanted.tolist()


def test_types_meet_as_documented() -> None:
    f, i, u, b = (Spec((), dtype) for dtype in (float32, int32, uint32, bool_))
    assert spec.result_type("op", f, i) is float32
    assert spec.result_type("op", i, b) is int32
    assert spec.result_type("op", u, 1) is uint32
    assert spec.result_type("op", i, 0.5) is float32
    assert spec.result_type("op", b, 1) is int32
    assert spec.result_type("op", b, True) is bool_
    with pytest.raises(DtypeError, match="int32 and uint32 have no common type"):
        spec.result_type("op", i, u)


def test_numbers_that_do_not_fit_raise() -> None:
    with pytest.raises(DtypeError, match="number 2147483648 does not fit int32"):
        spec.as_scalar("add", 2**31, int32)
    with pytest.raises(DtypeError, match="number -1 does not fit uint32"):
        spec.as_scalar("add", -1, uint32)


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("float32", float32),
        (np.float32, float32),
        (float, float32),
        (int, int32),
        (bool, bool_),
        (np.dtype("u4"), uint32),
    ],
)
def test_element_types_have_many_names(written: object, dtype: spec.DType) -> None:
    assert spec.as_dtype(written) is dtype  # type: ignore[arg-type]


def test_an_unknown_element_type_names_those_there_are() -> None:
    with pytest.raises(DtypeError, match="no element type float64: there are float32, float16, int32, uint32, bool"):
        spec.as_dtype(np.float64)


def test_sizes_do_not_overflow() -> None:
    assert spec.size_of((2**20, 2**20, 2**20, 2**20)) == 2**80
