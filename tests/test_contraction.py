"""einsum and tensordot, of tensors and of arrays, against numpy in float64, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, ShapeError, contraction
from gpu_backend.device import GPUDevice
from gpu_backend.op_table.sample import normal

SUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("ji,jk->ki", [(4, 3), (4, 5)]),
    ("ij,kj->ik", [(3, 4), (5, 4)]),
    (" b i j , b j k -> b i k ", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->bki", [(2, 3, 4), (2, 5, 4)]),
    ("ibj,jkb->kib", [(3, 2, 4), (4, 5, 2)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bthd,bshd->bhts", [(2, 3, 4, 5), (2, 6, 4, 5)]),
    ("ijkl,klmn->mnij", [(2, 3, 4, 5), (4, 5, 3, 2)]),
    ("i,i", [(5,), (5,)]),
    ("i,i->i", [(5,), (5,)]),
    ("i,j", [(5,), (4,)]),
    ("j,i->ij", [(5,), (4,)]),
    ("bi,bi->b", [(3, 5), (3, 5)]),
    ("ij,ij->j", [(3, 4), (3, 4)]),
    ("ij,kl->", [(3, 2), (4, 5)]),
    ("ij,kl->il", [(3, 2), (4, 5)]),
    ("ii", [(4, 4)]),
    ("ii->i", [(4, 4)]),
    ("iji->j", [(4, 3, 4)]),
    ("jii->ij", [(3, 4, 4)]),
    ("iii->i", [(3, 3, 3)]),
    ("iijj->ij", [(3, 3, 2, 2)]),
    ("ii,i->i", [(4, 4), (4,)]),
    ("ii,jj->ij", [(3, 3), (2, 2)]),
    ("ij->ji", [(3, 4)]),
    ("ij->ij", [(3, 4)]),
    ("ba", [(3, 4)]),
    ("ij->", [(3, 4)]),
    ("ijk->k", [(3, 4, 2)]),
    ("aB,Bc", [(2, 3), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i...->...", [(3, 4, 2)]),
    ("...i", [(3, 4, 2)]),
    ("a...b,b->...a", [(2, 3, 4, 5), (5,)]),
    ("...,...->...", [(3, 1), (4,)]),
    ("...,ij->...ij", [(3, 1), (4, 2)]),
    ("...i,i", [(5,), (5,)]),
    (",ij->ij", [(), (2, 3)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]),
    ("ij,jk->ik", [(1, 1), (1, 1)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ("ab,bc,cd,d->a", [(2, 3), (3, 4), (4, 5), (5,)]),
    ("i,ij,j->", [(3,), (3, 4), (4,)]),
    ("aij,jb,bi->a", [(2, 3, 4), (4, 5), (5, 3)]),
    ("bi,oij,bj->bo", [(3, 4), (2, 4, 5), (3, 5)]),
    ("i,i,i->i", [(4,), (4,), (4,)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("...a,...b,ab->...", [(2, 1, 3), (4, 5), (3, 5)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("ij,j->i", [(0, 3), (3,)]),
    ("ii->i", [(0, 0)]),
]


def draw(shapes: list[tuple[int, ...]]) -> list[Any]:
    return [normal(*shape, seed=n) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize(("subscripts", "shapes"), SUMS, ids=lambda x: str(x).replace(" ", ""))
def test_einsum_agrees_with_numpy(subscripts: str, shapes: list[tuple[int, ...]], device: Device) -> None:
    elements = draw(shapes)
    wanted = np.einsum(subscripts, *(x.astype(np.float64) for x in elements))
    operands = [ad.tensor(x, requires_grad=True) for x in elements]
    y = F.einsum(subscripts, *operands)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, atol=1e-5)
    if wanted.size and all(x.size for x in elements):
        ad.gradient_check(lambda *xs: F.einsum(subscripts, *xs), *operands)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "text"),
    [
        (
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            r"index 'j' of 'ij,jk->ik' has the extents 3 and 4, in shapes \(2, 3\) and \(4, 5\)",
        ),
        ("ii", [(2, 3)], "index 'i' of 'ii' has the extents 2 and 3"),
        ("ii", [(3, 1)], "index 'i' of 'ii' has the extents 3 and 1"),
        ("...,...->...", [(2, 3), (2, 4)], "a dimension of ... of '...,...->...' has the extents 3 and 4"),
        ("ij,jk", [(2, 3)], "'ij,jk' has 2 operands, 1 are given"),
        ("ijk,jk", [(2, 3), (3, 4)], r"'ijk' in 'ijk,jk' is given shape \(2, 3\), of 2 dimensions"),
        ("i", [(2, 3)], r"'i' in 'i' is given shape \(2, 3\)"),
        ("i...j", [(2,)], r"'i...j' in 'i...j' is given shape \(2,\)"),
        ("ij->ik", [(2, 3)], "has the index 'k' on the right side only"),
        ("ij->ii", [(2, 3)], "has the index 'i' twice on the right side"),
        ("...i->i", [(2, 3)], "has ... on the left side only"),
        ("i1", [(2, 3)], "'1' in 'i1' is no letter"),
        ("i.j", [(2, 3)], "'.' in 'i.j' is no letter"),
        ("ij->j->i", [(2, 3)], "'-' in"),
    ],
)
def test_einsum_says_what_does_not_fit(
    subscripts: str, shapes: list[tuple[int, ...]], text: str, device: Device
) -> None:
    before = device.recorder.dispatches
    operands = [ad.tensor(x) for x in draw(shapes)]
    with pytest.raises(ShapeError, match=f"^einsum: .*{text}"):
        F.einsum(subscripts, *operands)
    if device.pool.on_take is None:
        assert device.recorder.dispatches == before


def test_einsum_takes_what_numpy_understands(device: Device) -> None:
    """Arrays and numbers beside tensors; integers are floats in a product, and stay what they are alone."""
    x = ad.tensor([[1, 2], [3, 4]])
    np.testing.assert_array_equal(F.einsum("ij,j->i", x, np.array([1.0, 10.0])).numpy(), [21, 43])
    np.testing.assert_array_equal(F.einsum(",ij", 2, x).numpy(), [[2, 4], [6, 8]])
    assert F.einsum("ij,j->i", x, x.sum(0)).dtype is gb.float32
    assert F.einsum("ij->j", x).dtype is gb.int32
    np.testing.assert_array_equal(F.einsum("ii->i", x).numpy(), [1, 4])


def test_einsum_of_one_tensor_is_another(device: Device) -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = F.einsum("ij", x)
    y += 1
    np.testing.assert_array_equal(x.numpy(), [[1, 2], [3, 4]])


def test_einsum_of_a_tensor_with_itself(device: Device) -> None:
    x = ad.tensor(normal(3, 3), requires_grad=True)
    ad.gradient_check(lambda x: F.einsum("ij,jk,ki->", x, x, x), x)


@pytest.mark.no_poison
def test_a_product_is_one_dispatch(gpu: GPUDevice) -> None:
    """However a matrix lies, the kernel reads it there."""
    a, at, b, bt = (ad.tensor(normal(*shape)) for shape in ((3, 4), (4, 3), (4, 5), (5, 4)))
    for subscripts, x, z in (("ij,jk->ik", a, b), ("ji,jk->ik", at, b), ("ij,kj->ik", a, bt), ("ji,kj->ik", at, bt)):
        before = gpu.recorder.dispatches
        F.einsum(subscripts, x, z)
        assert gpu.recorder.dispatches == before + 1


def test_a_long_chain_goes_the_cheap_way(device: Device) -> None:
    """(a b) v would be 10^7 products; a (b v) is 2 10^4."""
    a, b, v = ad.tensor(np.ones((1000, 10))), ad.tensor(np.ones((10, 1000))), ad.tensor(np.ones(1000))
    assert contraction._path(("ij", "jk", "k"), "i", (a.shape, b.shape, v.shape))[0] == (1, 2)
    np.testing.assert_array_equal(F.einsum("ij,jk,k->i", a, b, v).numpy(), np.full(1000, 10000))


def test_a_compiled_einsum(gpu: GPUDevice) -> None:
    """Captured and replayed, the diagonal and its gradient too."""
    w = ad.tensor(normal(3, 4, 4), requires_grad=True)

    def step(x: ad.Tensor) -> ad.Tensor:
        w.grad = None
        loss = (F.einsum("bjj,bi->bij", w, x) ** 2).sum()
        loss.backward()
        return loss

    compiled = ad.compiled(step)
    for seed in range(3):
        x = ad.tensor(normal(3, 5, seed=seed))
        wanted = step(x).item()
        assert w.grad is not None
        gradient = w.grad.numpy()
        assert compiled(x).item() == pytest.approx(wanted, rel=1e-6)
        np.testing.assert_allclose(w.grad.numpy(), gradient, rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((3, 4), (4, 5), 1),
        ((2, 3, 4), (3, 4, 5), 2),
        ((3, 4), (3, 4), 2),
        ((3,), (4,), 0),
        ((2, 3, 4), (4, 5, 3), ((1, 2), (2, 0))),
        ((2, 3, 4), (4, 5, 3), ((-1,), (0,))),
        ((2, 3, 4), (5, 2), ([0], [1])),
        ((2, 0), (0, 3), 1),
        ((), (2, 3), 0),
    ],
)
def test_tensordot(a: Any, b: Any, axes: Any, device: Device) -> None:
    x, z = draw([a, b])
    one, other = ad.tensor(x, requires_grad=True), ad.tensor(z, requires_grad=True)
    y = F.tensordot(one, other, axes)
    wanted = np.tensordot(x.astype(np.float64), z, axes)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, atol=1e-5)
    if x.size:
        ad.gradient_check(lambda x, z: F.tensordot(x, z, axes), one, other)


def test_tensordot_says_what_does_not_fit(device: Device) -> None:
    a, b = ad.tensor(np.ones((2, 3))), ad.tensor(np.ones((4, 5)))
    with pytest.raises(ShapeError, match=r"axis 1 of \(2, 3\) has extent 3, axis 0 of \(4, 5\) has 4"):
        F.tensordot(a, b, 1)
    with pytest.raises(ShapeError, match="have not 3 dimensions each"):
        F.tensordot(a, b, 3)
    with pytest.raises(ShapeError, match="name a dimension twice"):
        F.tensordot(a, a, ((0, 0), (0, 0)))
    with pytest.raises(ShapeError, match="two sequences of one length"):
        F.tensordot(a, a, ((0, 1), (0,)))
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        F.tensordot(a, b, ((2,), (0,)))
