"""Slices, joining, padding, new arrays: against numpy, with their gradients, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import GradientError
from gpu_backend import Device, ShapeError
from gpu_backend.op_table.sample import normal
from gpu_backend.ops.indexing import assign_region

PATTERNS = np.array([1.0, np.nan, np.inf, -np.inf, -0.0], np.float32)


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Keys for arrays of ``shape``: integers, slices with any step, ... and None."""
    parts = [
        st.one_of(
            st.integers(-extent, extent - 1),
            st.slices(extent),
            st.builds(slice, st.none(), st.none(), st.sampled_from([-3, -1, 2])),
        )
        for extent in shape
    ]

    def shortened(chosen: tuple[Any, ...], count: int, new: list[int]) -> Any:
        key = [*chosen[:count], *([...] if count < len(chosen) else [])]
        for place in new:
            key.insert(min(place, len(key)), None)
        return tuple(key)

    return st.builds(
        shortened, st.tuples(*parts), st.integers(0, len(shape)), st.lists(st.integers(0, len(shape)), max_size=2)
    )


SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(data=st.data())
def test_slices_are_those_of_numpy(data: Any, device: Device) -> None:
    """Values, gradients, and the same key set in place."""
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    t = ad.tensor(x, requires_grad=True)
    y = t[key]
    np.testing.assert_array_equal(y.numpy(), x[key])
    dy = np.random.default_rng(0).integers(1, 9, x[key].shape).astype(np.float32)
    (y * dy).sum().backward()
    dx = np.zeros_like(x)
    dx[key] = dy
    assert t.grad is not None
    np.testing.assert_array_equal(t.grad.numpy(), dx)
    source = data.draw(st.sampled_from([dy, dy[..., :1] if dy.ndim else dy, 7.5]))
    with ad.no_grad():
        t[key] = source
    x[key] = source
    np.testing.assert_array_equal(t.numpy(), x)


@QUICK
@given(data=st.data())
def test_padding_and_rolling_are_those_of_numpy(data: Any, device: Device) -> None:
    shape = data.draw(SHAPES)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    widths = [(data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))) for n in shape]
    for mode, numpy_mode in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge")):
        made = gb.pad(gb.array(x), widths, mode)
        np.testing.assert_array_equal(made.numpy(), np.pad(x, widths, numpy_mode))  # type: ignore[call-overload]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    shift = data.draw(st.integers(-9, 9))
    np.testing.assert_array_equal(gb.roll(gb.array(x), shift, axis).numpy(), np.roll(x, shift, axis))
    np.testing.assert_array_equal(gb.flip(gb.array(x), axis).numpy(), np.flip(x, axis))


def test_concat_of_many_and_of_nothing(device: Device) -> None:
    """P-LM04: more arrays than a kernel binds. P-LM08: an empty part. Types meet."""
    parts = [normal(3, seed=n) for n in range(12)]
    np.testing.assert_array_equal(gb.concat([gb.array(x) for x in parts]).numpy(), np.concatenate(parts))
    np.testing.assert_array_equal(gb.stack([gb.array(x) for x in parts[:9]], axis=1).numpy(), np.stack(parts[:9], 1))
    nothing = gb.array(np.empty((0, 3), np.float32))
    np.testing.assert_array_equal(gb.concat([nothing, gb.array(parts[0][None])]).numpy(), parts[0][None])
    assert gb.concat([nothing, nothing]).shape == (0, 3)
    made = F.concat([ad.tensor([1, 2]), ad.tensor([0.5])])
    assert made.dtype is gb.float32
    assert made.tolist() == [1.0, 2.0, 0.5]
    assert gb.concat([gb.array([1, 2]), gb.array([0.5])]).tolist() == [1.0, 2.0, 0.5]


def test_a_slice_is_no_view(device: Device) -> None:
    """P-LM05: no offset is bound, so none has to be aligned."""
    x = gb.array(np.arange(1000, dtype=np.float32))
    assert gb.sum(x[1:65]).item() == 2080
    np.testing.assert_array_equal((x[63:] * 2).numpy(), np.arange(63, 1000) * 2.0)
    square = gb.array(np.arange(17, dtype=np.float32))[1:].reshape(4, 4)
    np.testing.assert_array_equal(square.T.numpy(), np.arange(1, 17, dtype=np.float32).reshape(4, 4).T)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_odd_numbers_of_bools(size: int, device: Device) -> None:
    """P-LM09, P-WN18: what was there before does not shine through."""
    x = np.arange(size) % 2 == 0
    a = gb.array(x)
    np.testing.assert_array_equal(a[::-1].numpy(), x[::-1])
    np.testing.assert_array_equal(gb.concat([a, a]).numpy(), np.concatenate([x, x]))
    b = gb.full(13, 255)
    assign_region(b, ..., gb.arange(13))
    assert (b + 1).tolist() == list(range(1, 14))


def test_bit_patterns_survive_a_move(device: Device) -> None:
    """P-WN06: moved as words, NaN stays the NaN it was."""
    a = gb.array(PATTERNS)
    moved = [
        gb.clone(a),
        gb.reshape(a, (5, 1)),
        gb.concat([a[:2], a[2:]]),
        a[::-1][::-1],
        gb.roll(gb.roll(a, 2), -2),
        gb.pad(a, 1)[1:-1],
        gb.tile(a, 2)[:5],
        gb.stack([a, a])[1],
        gb.tril(gb.broadcast_to(a, (6, 5)), 9)[5],
        gb.where(gb.full(5, True, "bool"), a, 0.0),
        gb.embedding(gb.arange(5), gb.reshape(a, (5, 1))),
    ]
    for y in moved:
        np.testing.assert_array_equal(y.numpy().reshape(-1).view(np.uint32), PATTERNS.view(np.uint32))
    assert gb.isnan(a).tolist() == [False, True, False, False, False]
    assert gb.isinf(a).tolist() == [False, False, True, True, False]
    assert gb.nan_to_num(a, 5.0, 6.0, 7.0).tolist() == [1.0, 5.0, 6.0, 7.0, 0.0]


def test_infinite_numbers_come_as_data(device: Device) -> None:
    """P-WN07, P-WN08: no text of a number is put into a shader."""
    x = ad.tensor([1.0, -1.0])
    assert F.full(5, float("inf")).tolist() == [float("inf")] * 5
    assert bool(np.isnan(F.full(5, float("nan")).numpy()).all())
    assert x.masked_fill(ad.tensor([True, False]), float("-inf")).tolist() == [float("-inf"), -1.0]
    assert (x * float("inf")).tolist() == [float("inf"), float("-inf")]
    for c in (-0.95, 1.17549435e-38, 3.4028235e38, 0.1):
        np.testing.assert_array_equal((x - c).numpy(), np.array([1, -1], np.float32) - np.float32(c))
        np.testing.assert_array_equal((x * c).numpy(), np.array([1, -1], np.float32) * np.float32(c))


def test_moves_copy(device: Device) -> None:
    """M12: a write to the source does not move what was made of it."""
    x = ad.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    made = [x[1:], x.T, F.pad(x, 1), *x.split(2), x.broadcast_to(2, 3, 4), x.flip(0), F.concat([x, x]), x.diagonal()]
    before = [y.numpy() for y in made]
    x += 100.0
    x[0] = -1.0
    for y, old in zip(made, before, strict=True):
        np.testing.assert_array_equal(y.numpy(), old)


def test_setting_a_slice(device: Device) -> None:
    """P-LM10: the source may be the target; persistent memory and shared memory are written where they should be."""
    x = ad.tensor(np.arange(8, dtype=np.float32))
    y = x.clone()
    z = x.reshape(2, 4)
    x[:3] = x[3:6]
    assert x.tolist() == [3, 4, 5, 3, 4, 5, 6, 7]
    assert y.tolist() == list(range(8))
    assert z.tolist() == [[3, 4, 5, 3], [4, 5, 6, 7]]
    x[:] = F.concat([x[4:], x[:4]])
    assert x.tolist() == [4, 5, 6, 7, 3, 4, 5, 3]
    x[::-1] = x
    assert x.tolist() == [3, 5, 4, 3, 7, 6, 5, 4]
    x[1] = 2
    x[-2:] = np.array([8, 9])
    x[2:4] = ad.tensor([True, False])
    assert x.tolist() == [3, 2, 1, 0, 7, 6, 8, 9]
    half = ad.tensor(np.zeros(3, np.float16))
    half[1:] = 1.5
    assert half.tolist() == [0, 1.5, 1.5]
    with pytest.raises(ShapeError, match=r"setitem: shapes do not broadcast: \(3,\) and \(2,\)"):
        x[:2] = np.ones(3)
    with pytest.raises(IndexError, match="setitem: index 8 is out of range for axis 0 with extent 8"):
        x[8] = 1.0
    assert x.tolist() == [3, 2, 1, 0, 7, 6, 8, 9]


def test_setting_a_slice_is_seen_by_the_tape(device: Device) -> None:
    """P-AG07: what was saved and then changed raises."""
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(GradientError, match="setitem: in-place changes are not recorded"):
        w[0] = 5.0
    y = (w * w).sum()
    with ad.no_grad():
        w[0] = 5.0
    with pytest.raises(GradientError, match="modified in place"):
        y.backward()


def test_a_slice_used_twice_adds_up(device: Device) -> None:
    """P-AG12."""
    x = ad.tensor(np.arange(6, dtype=np.float32), requires_grad=True)
    (x[1:4] * 2.0 + x[1:4] + x[::-1][1:4]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 3, 4, 4, 1, 0]


def test_split_chunk_unstack(device: Device) -> None:
    x = ad.tensor(np.arange(14, dtype=np.float32).reshape(7, 2), requires_grad=True)
    assert [y.shape for y in x.split(3)] == [(3, 2), (3, 2), (1, 2)]
    assert [y.shape for y in F.split(x, [2, 5], dim=0)] == [(2, 2), (5, 2)]
    assert [y.shape for y in x.chunk(3)] == [(3, 2), (3, 2), (1, 2)]
    assert [y.tolist() for y in x.unbind(1)] == [list(range(0, 14, 2)), list(range(1, 14, 2))]
    assert [y.shape for y in x] == [(2,)] * 7
    ad.gradient_check(lambda t: F.concat([y * (n + 1.0) for n, y in enumerate(t.split(3))]), x)
    with pytest.raises(ShapeError, match=r"split: sizes \[2, 4\] do not fill axis 0 of shape \(7, 2\)"):
        x.split([2, 4])


def test_names_of_numpy_and_of_pytorch(device: Device) -> None:
    a = normal(2, 3, 4)
    x = ad.tensor(a)
    same = np.testing.assert_array_equal
    same(x.transpose(0, 2).numpy(), a.swapaxes(0, 2))
    same(F.moveaxis(x, 0, -1).numpy(), np.moveaxis(a, 0, -1))
    same(x.moveaxis((0, 1), (2, 0)).numpy(), np.moveaxis(a, (0, 1), (2, 0)))
    same(x.unsqueeze(dim=1).squeeze(1).numpy(), a)
    same(F.expand_dims(x, (0, -1)).numpy(), a[None, ..., None])
    same(x.flatten(1).numpy(), a.reshape(2, 12))
    same(x.mT.numpy(), a.swapaxes(-1, -2))
    same(F.matrix_transpose(x).numpy(), a.swapaxes(-1, -2))
    same(x.repeat_interleave(2, dim=1).numpy(), a.repeat(2, 1))
    same(x.tile((2, 1, 1)).numpy(), np.tile(a, (2, 1, 1)))
    same(F.cat([x, x], dim=-1).numpy(), np.concatenate([a, a], -1))
    for one, other in zip(F.meshgrid(F.arange(3), F.arange(4)), np.meshgrid(range(3), range(4)), strict=True):
        same(one.numpy(), other)
    grids = F.meshgrid(F.arange(3), F.arange(4), F.arange(2), indexing="ij")
    for one, other in zip(grids, np.meshgrid(range(3), range(4), range(2), indexing="ij"), strict=True):
        same(one.numpy(), other)
    one, other = F.broadcast_arrays(x, ad.tensor([1.0, 2.0, 3.0, 4.0]))
    assert one.shape == other.shape == (2, 3, 4)
    with pytest.raises(TypeError, match="squeeze: dim and axis are one"):
        F.squeeze(x, axis=0, dim=0)  # type: ignore[call-arg]


def test_new_arrays(device: Device) -> None:
    same = np.testing.assert_array_equal
    same(gb.zeros((2, 3)).numpy(), np.zeros((2, 3), np.float32))
    same(gb.ones(3, "int32").numpy(), np.ones(3, np.int32))
    same(gb.arange(5).numpy(), np.arange(5, dtype=np.int32))
    same(gb.arange(1, 2, 0.1).numpy(), np.arange(1, 2, 0.1).astype(np.float32))
    same(gb.arange(5, 0, -2).numpy(), [5, 3, 1])
    same(gb.arange(3, 1).numpy(), np.empty(0, np.int32))
    same(gb.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5, dtype=np.float32))
    same(gb.linspace(0, 1, 4, endpoint=False).numpy(), [0, 0.25, 0.5, 0.75])
    for rows, cols, k in ((3, 3, 0), (3, 5, 1), (5, 3, -2), (3, 3, 7), (0, 3, 0), (70, 80, -5)):
        same(gb.eye(rows, cols, k).numpy(), np.eye(rows, cols, k, np.float32))
    x = gb.array([[1, 2]])
    same(gb.zeros_like(x).numpy(), [[0, 0]])
    assert gb.ones_like(x, "float16").dtype is gb.float16
    same(gb.full_like(x, 7).numpy(), [[7, 7]])
    assert gb.empty_like(x).shape == (1, 2)
    assert gb.asarray(x) is x
    assert gb.asarray(x, "float32").dtype is gb.float32
    assert gb.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match="must be copied"):
        gb.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="the step is not 0"):
        gb.arange(1, 2, 0)
    w = F.zeros(3, requires_grad=True)
    (w + F.arange(3)).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1, 1, 1]
