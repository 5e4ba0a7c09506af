"""Tensors: operators against numbers and numpy, element types, in-place changes, the host."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import GradientError, nn
from gpu_backend import Device, DeviceError, DtypeError, ShapeError


def test_operators(device: Device) -> None:
    a, b = np.array([1.0, -2.0, 4.0], np.float32), np.array([2.0, 0.5, -1.0], np.float32)
    x, y = ad.tensor(a), ad.tensor(b)
    cases: list[tuple[Any, Any]] = [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x / y, a / b),
        (-x, -a),
        (x + 1, a + 1),
        (1 + x, 1 + a),
        (2 - x, 2 - a),
        (x - 2, a - 2),
        (3 * x, 3 * a),
        (1 / x, 1 / a),
        (x == y, a == b),
        (x != 4, a != 4),
        (x < y, a < b),
        (x <= -2, a <= -2),
        (x < 0, a < 0),
        (x >= y, a >= b),
        (x.reshape(1, 3) @ y.reshape(3, 1), (a @ b).reshape(1, 1)),
    ]
    for index, (got, wanted) in enumerate(cases):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6, err_msg=str(index))


def test_numpy_on_either_side_becomes_a_tensor(device: Device) -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = ad.tensor([10.0, 20.0], requires_grad=True)
    for got in (a + x, x + a, a - x, a * x, a / x, a @ x.reshape(2, 1), a < x):
        assert isinstance(got, ad.Tensor)
    assert (a - x).tolist() == [[-9.0, -18.0], [-7.0, -16.0]]
    assert (np.float32(2) * x).tolist() == [20.0, 40.0]
    assert (x * np.float64(0.5)).tolist() == [5.0, 10.0]
    (a * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]


def test_numbers_are_weak(device: Device) -> None:
    i = ad.tensor([1, 2])
    assert (i + 1).dtype is gb.int32
    assert (i * 0.5).dtype is gb.float32
    assert (i * 0.5).tolist() == [0.5, 1.0]
    assert (i / 2).tolist() == [0.5, 1.0]
    assert (i + ad.tensor([0.5, 0.5])).tolist() == [1.5, 2.5]
    assert (ad.tensor([True, False]) + 1).tolist() == [2, 1]
    assert (ad.tensor([1.0]) + True).tolist() == [2.0]
    with pytest.raises(DtypeError, match="the number 4294967296 does not fit int32"):
        i + 2**32
    with pytest.raises(DtypeError, match="int32 and uint32 have no common type"):
        i + ad.tensor([1, 2], dtype="uint32")


def test_hash_is_identity_and_equality_elementwise(device: Device) -> None:
    x, y = ad.tensor([1.0]), ad.tensor([1.0])
    assert len({x, y}) == 2
    assert bool(x == y)
    assert {x: "x"}[x] == "x"


def test_the_truth_of_several_elements_raises(device: Device) -> None:
    with pytest.raises(ShapeError, match=r"the truth of shape \(2,\) is ambiguous"):
        bool(ad.tensor([1.0, 2.0]) > 0)
    assert float(ad.tensor([2.5])) == 2.5
    assert int(ad.tensor(7)) == 7
    with pytest.raises(ShapeError, match="has 2 elements, not one"):
        ad.tensor([1.0, 2.0]).item()


def test_where_takes_numbers_and_arrays(device: Device) -> None:
    x = ad.tensor([-1.0, 4.0], requires_grad=True)
    y = F.where(x > 0, x, 0.0)
    assert y.tolist() == [0.0, 4.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0]
    assert F.where(x > 0, 1.0, -1.0).tolist() == [-1.0, 1.0]
    assert F.where(x > 0, np.array([1, 2]), 0).dtype is gb.int32


def test_in_place_changes(device: Device) -> None:
    """P-LM10: the operand may be the tensor itself, or a view of it."""
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = x.reshape(4)
    assert x.add_(x) is x
    assert view.tolist() == [2.0, 4.0, 6.0, 8.0]
    x.mul_(view.reshape(2, 2))
    assert x.tolist() == [[4.0, 16.0], [36.0, 64.0]]
    x.sub_(ad.tensor([4.0, 6.0])).div_(2.0)
    assert x.tolist() == [[0.0, 5.0], [16.0, 29.0]]
    x.copy_(x.T)
    assert x.tolist() == [[0.0, 16.0], [5.0, 29.0]]
    x.copy_(np.array([7, 8]))
    assert x.tolist() == [[7.0, 8.0], [7.0, 8.0]]
    assert x.zero_().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ShapeError, match=r"add_: the result \(3, 2, 2\) float32 does not fit \(2, 2\) float32"):
        x.add_(np.ones((3, 1, 1)))
    with pytest.raises(ShapeError, match=r"add_: the result \(2,\) float32 does not fit \(2,\) int32"):
        ad.tensor([1, 2]).add_(0.5)


def test_in_place_changes_are_refused_where_they_would_be_recorded(device: Device) -> None:
    x = ad.tensor([1.0], requires_grad=True)
    with pytest.raises(GradientError, match="add_: in-place changes are not recorded"):
        x.add_(1.0)
    with ad.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0]


def test_a_tensor_copies_what_it_is_made_from(device: Device) -> None:
    source = np.array([1.0, 2.0], np.float32)
    x = ad.tensor(source)
    source[:] = 9
    assert x.tolist() == [1.0, 2.0]
    y = ad.tensor(x, requires_grad=True)
    x.add_(1.0)
    assert y.tolist() == [1.0, 2.0]


def test_detach_shares_memory_and_leaves_the_tape(device: Device) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2.0).detach()
    assert not y.requires_grad
    straight_through = x + (x.astype("int32").astype("float32") - x).detach()
    straight_through.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_repr_shows_values_type_and_origin(device: Device) -> None:
    assert repr(ad.tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert repr(ad.tensor([1, 2])) == "tensor([1, 2], dtype=int32)"
    x = ad.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x.exp() * 0.0) == "tensor([0.], op=multiply)"


def test_two_devices_do_not_meet(adapter: Device, host: Device) -> None:
    here, there = ad.tensor([1.0], device=adapter), ad.tensor([1.0], device=host)
    with pytest.raises(DeviceError, match=r"add: operands are on two devices, .* and host"):
        here + there
    assert (here.to("host") + there).tolist() == [2.0]
    assert here.to(adapter) is here
    with pytest.raises(GradientError, match="to: the way to another device is not recorded"):
        (here.requires_grad_() * 2.0).to("host")
    assert here.detach().to("host").tolist() == [1.0]


def test_matmul_methods_and_properties(device: Device) -> None:
    x = ad.tensor(np.arange(6.0).reshape(2, 3))
    assert (x.shape, x.ndim, x.size, len(x)) == ((2, 3), 2, 6, 2)
    assert (x @ x.T).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    assert F.matmul(x, x, transpose_a=True).shape == (3, 3)
    assert x.permute(1, 0).shape == x.permute_dims((1, 0)).shape == (3, 2)
    assert x.reshape(-1).shape == x.reshape((6,)).shape == (6,)
    assert x.expand(4, 2, 3).shape == (4, 2, 3)
    assert x.sum(axis=(0, 1)).item() == 15.0
    with pytest.raises(ShapeError, match=r"T: shape \(3,\) has not two dimensions"):
        _ = ad.tensor([1.0, 2.0, 3.0]).T
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


def test_class_indices_from_the_host_are_checked_at_once(device: Device) -> None:
    """K6: before anything is recorded."""
    logits = ad.tensor(np.zeros((2, 3)))
    before = device.recorder.dispatches
    for targets in ([0, 3], [-1, 0], np.array([0, 7], np.int64)):
        with pytest.raises(IndexError, match=r"cross_entropy: index .* is out of range for 3"):
            F.cross_entropy(logits, targets)
    with pytest.raises(DtypeError, match="class indices are integers, not float64"):
        F.cross_entropy(logits, [0.0, 1.0])
    assert device.recorder.dispatches == before


def test_integers_divide_as_floats(device: Device) -> None:
    a, b = ad.tensor([7, 8]), ad.tensor([2, -4])
    assert (a / b).tolist() == F.divide(a, b).tolist() == [3.5, -2.0]
    assert (a + b).dtype is gb.int32


@pytest.mark.no_poison
def test_a_copy_stays_on_its_device_and_reads_nothing_back(adapter: Device, host: Device) -> None:
    there = ad.tensor([1.0, 2.0], device=host)
    assert ad.tensor(there).device is host
    assert gb.array(there.array).device is host
    here = ad.tensor([1.0, 2.0], device=adapter)
    downloads = adapter.recorder.downloads
    twin = ad.tensor(here)
    assert adapter.recorder.downloads == downloads
    here.add_(1.0)
    assert twin.tolist() == [1.0, 2.0]


def test_mistakes_get_a_sentence(device: Device) -> None:
    x = ad.tensor([[1.0, 2.0]])
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: F.exp(np.ones(2)), DtypeError, "exp: takes tensors, not ndarray; autodiff.tensor makes one"),
        (lambda: gb.add(x.array, np.ones(2)), DtypeError, "add: takes arrays and numbers, not ndarray"),
        (lambda: gb.multiply(x.array, "2"), DtypeError, "multiply: takes arrays and numbers, not str"),
        (lambda: x @ 2, ShapeError, "matmul: operands are vectors or matrices, not numbers"),
        (lambda: x.sum(axis=0.0), ShapeError, "sum: an axis is an integer, not 0.0"),  # type: ignore[arg-type]
        (lambda: x + 10**400, DtypeError, "add: the number does not fit float32"),
        (lambda: F.add(1.0, 2.0), DtypeError, "add: at least one operand must be a tensor"),
    ]
    for call, error, text in calls:
        with pytest.raises(error) as raised:
            call()
        assert text in str(raised.value)
    assert gb.multiply(x.array, np.float32(2)).tolist() == [[2.0, 4.0]]
    assert F.where(np.array([[True, False]]), x, 0.0).tolist() == [[1.0, 0.0]]
    assert x != None  # noqa: E711


def test_deepcopy_copies_leaves(device: Device) -> None:
    x = ad.tensor([1.0], requires_grad=True)
    twin = copy.deepcopy(x)
    assert twin.requires_grad
    with ad.no_grad():
        x.add_(1.0)
    assert twin.tolist() == [1.0]
    with pytest.raises(GradientError, match="deepcopy: this tensor is the result of an op"):
        copy.deepcopy(x * 2.0)


def test_augmented_assignment(device: Device) -> None:
    """In place where nothing is recorded, so that a loop over parameters moves them; on the tape otherwise."""
    w = nn.Parameter([1.0, 2.0])
    alias = w
    with ad.no_grad():
        w -= ad.tensor([0.5, 0.5])
        w *= 2.0
        w += 1.0
        w /= 2.0
    assert w is alias
    assert alias.tolist() == [1.0, 2.0]
    with pytest.raises(GradientError, match="sub_: in-place changes are not recorded"):
        w -= 1.0
    total = ad.tensor(0.0)
    for _ in range(3):
        total += (w * w).sum()
    total.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [6.0, 12.0]


def test_format_and_requires_grad(device: Device) -> None:
    x = ad.tensor(2.5)
    assert f"{x:.2f}" == "2.50"
    assert f"{x}" == "tensor(2.5)"
    x.requires_grad = True
    assert x.requires_grad
    with pytest.raises(DtypeError, match="floats only"):
        ad.tensor([1]).requires_grad = True
    with pytest.raises(GradientError, match="result of an op"):
        (x * 2.0).requires_grad = False
