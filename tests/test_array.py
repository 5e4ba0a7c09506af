"""Arrays in and out: what numpy input becomes, what cannot be taken, shapes and copies."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_backend as gb
from gpu_backend import Device, DtypeError, OutOfMemoryError, ShapeError
from gpu_backend.device import GPUDevice


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 0), (2, 3, 4)])
def test_a_round_trip_is_identical(dtype: str, shape: tuple[int, ...], device: Device) -> None:
    x = np.random.default_rng(0).integers(0, 2**31, shape).astype(dtype)
    y = gb.array(x)
    assert y.shape == shape
    assert y.dtype.name == dtype
    np.testing.assert_array_equal(y.numpy(), x)
    assert y.numpy().dtype == x.dtype


def test_any_memory_order_and_byte_order(device: Device) -> None:
    """P-AP04: values as numpy has them."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    read_only = x.copy()
    read_only.flags.writeable = False
    for source in (x.T, x[::2], x[::-1, ::-1], x.astype(">f4"), read_only, np.asfortranarray(x), x[1:1], np.float32(3)):
        np.testing.assert_array_equal(gb.array(source).numpy(), source)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("float64", "float32"),
        ("float16", "float16"),
        ("int64", "int32"),
        ("int16", "int32"),
        ("int8", "int32"),
        ("uint8", "int32"),
        ("uint16", "int32"),
        ("uint64", "uint32"),
        (">i4", "int32"),
    ],
)
def test_other_types_convert_by_rule(given: str, stored: str, device: Device) -> None:
    x = np.array([0, 1, 100]).astype(given)
    assert gb.array(x).dtype.name == stored
    np.testing.assert_array_equal(gb.array(x).numpy(), x)


def test_python_values(device: Device) -> None:
    assert gb.array(2.5).shape == ()
    assert gb.array([1, 2]).dtype is gb.int32
    assert gb.array([True]).dtype is gb.bool_
    assert gb.array([[1.0], [2.0]], dtype="float32").tolist() == [[1.0], [2.0]]
    assert gb.array([1.0, 2.0], dtype="int32").tolist() == [1, 2]
    assert gb.array(gb.array([1.0])).tolist() == [1.0]


def test_what_does_not_fit_raises(device: Device) -> None:
    with pytest.raises(DtypeError, match="int64 holds numbers outside the range of int32"):
        gb.array([2**31])
    with pytest.raises(DtypeError, match="int64 holds numbers outside the range of uint32"):
        gb.array([-1], dtype="uint32")
    for edge, dtype in ((2.0**31, "int32"), (2.0**32, "uint32")):
        with pytest.raises(DtypeError, match="float32 holds numbers outside the range"):
            gb.array(np.float32([edge]), dtype)
    with pytest.raises(DtypeError, match="float64 holds numbers that are not whole"):
        gb.array([0.5], dtype="int32")
    for foreign in (np.array([1j]), np.array(["a"]), np.array([None])):
        with pytest.raises(DtypeError, match="have no counterpart on a device"):
            gb.array(foreign)
    with pytest.raises(ValueError, match="inhomogeneous"):
        gb.array([[1.0], [1.0, 2.0]])


def test_reshape_shares_and_checks(device: Device) -> None:
    x = gb.array(np.arange(6, dtype=np.float32))
    assert x.reshape(2, 3).storage is x.storage
    assert x.reshape((3, -1)).shape == (3, 2)
    with pytest.raises(ShapeError, match="has 6 elements"):
        x.reshape(4)


def test_numpy_is_a_copy(device: Device) -> None:
    x = gb.array([1.0, 2.0])
    out = x.numpy()
    out[:] = 9
    assert x.tolist() == [1.0, 2.0]
    assert np.asarray(x).tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="numpy gets a copy"):
        x.__array__(copy=False)


def test_repr_and_len(device: Device) -> None:
    assert repr(gb.array([1, 2])).startswith("Array(array([1, 2], dtype=int32), dtype=int32, device=")
    assert len(gb.array([1, 2])) == 2
    with pytest.raises(TypeError, match=r"shape \(\) has no length"):
        len(gb.array(1))
    with pytest.raises(ShapeError, match="negative extent -1"):
        gb.empty((2, -1))


def test_an_array_past_the_binding_limit_raises_before_anything_is_recorded(adapter: GPUDevice) -> None:
    """P-LM03: the limit, what was asked, and the next op works."""
    elements = adapter.limits["max-storage-buffer-binding-size"] // 4 + 1
    before = adapter.recorder.dispatches
    with pytest.raises(
        OutOfMemoryError, match=r"full: shape \(\d+,\) takes \d+ bytes; the largest buffer this device can bind has \d+"
    ):
        gb.full((elements,), 1.0, device=adapter)
    row = gb.full((1, 2**16), 1.0, device=adapter)
    with pytest.raises(OutOfMemoryError, match=r"broadcast_to: shape \(1048576, 65536\) takes 274877906944 bytes"):
        gb.broadcast_to(row, shape=(2**20, 2**16))
    assert adapter.recorder.dispatches - before <= 2
    assert gb.sum(row).item() == 2**16
