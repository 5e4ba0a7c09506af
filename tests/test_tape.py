"""The tape: invariants T1 to T8 and the autograd cases, by their numbers."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import GradientError, Tensor, nn, optim
from gpu_backend import Device, DtypeError


def leaf(values: object) -> Tensor:
    return ad.tensor(values, requires_grad=True)


def gradient(x: Tensor) -> np.ndarray:
    assert x.grad is not None
    return x.grad.numpy()


def test_an_op_after_the_loss_changes_no_gradient(device: Device) -> None:
    """T1: a metric computed after the loss; bit-equal gradients."""
    values = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)

    def run(with_metric: bool) -> np.ndarray:
        w = leaf(values)
        h = F.tanh(w)
        loss = (h * h).mean()
        if with_metric:
            metric = (h - 1.0).exp().sum() + loss * 3.0
            assert metric.requires_grad
        loss.backward()
        return gradient(w)

    np.testing.assert_array_equal(run(True), run(False))


def test_a_loss_off_the_tape_raises(device: Device) -> None:
    """T2: a plain tensor, one made under no_grad, a detached one."""
    w = leaf([1.0, 2.0])
    with ad.no_grad():
        silent = (w * w).sum()
    for loss in (ad.tensor(1.0), silent, (w * w).sum().detach()):
        with pytest.raises(GradientError, match="not on the tape"):
            loss.backward()


def test_backward_and_step_record_nothing_and_restore_the_state(device: Device) -> None:
    """T4: also after an exception."""
    w = nn.Parameter([1.0, 2.0])
    (w * w).sum().backward()
    assert w.grad is not None
    assert not w.grad.requires_grad
    optim.SGD([w]).step()
    assert w.is_leaf
    assert ad.is_grad_enabled()

    def fail_inside() -> None:
        with ad.no_grad():
            assert not ad.is_grad_enabled()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert ad.is_grad_enabled()

    @ad.no_grad()
    def silent(x: Tensor) -> Tensor:
        return x * 2.0

    assert not silent(w).requires_grad


def test_a_gradient_shared_by_two_users(device: Device) -> None:
    """T5: y = exp(a) + 3 a has gradient 3 + exp(a); a residual; one dy for two leaves."""
    a = leaf([0.0, 1.0])
    (a.exp() + 3 * a).sum().backward()
    np.testing.assert_allclose(gradient(a), 3 + np.exp([0.0, 1.0]), rtol=1e-6)
    x = leaf([1.0, 2.0])
    (x + x.tanh()).sum().backward()
    np.testing.assert_allclose(gradient(x), 2 - np.tanh([1.0, 2.0]) ** 2, rtol=1e-5)
    p, q = leaf([1.0]), leaf([2.0])
    (p + q).sum().backward()
    (p + p).sum().backward()
    assert (gradient(p).item(), gradient(q).item()) == (3.0, 1.0)
    assert p.grad is not None
    assert q.grad is not None
    assert p.grad.array.storage is not q.grad.array.storage


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (), (4, 2, 3), (4, 1, 1)])
def test_gradients_have_the_shape_and_type_of_their_inputs(shape: tuple[int, ...], device: Device) -> None:
    """T6, P-AG03: broadcast against (4, 2, 3), each operator, either side."""
    b = ad.tensor(np.random.default_rng(0).uniform(1, 2, (4, 2, 3)))
    for op in (F.add, F.subtract, F.multiply, F.divide):
        for swap in (False, True):
            a = leaf(np.random.default_rng(1).uniform(1, 2, shape))
            (op(b, a) if swap else op(a, b)).sum().backward()
            assert a.grad is not None
            assert a.grad.shape == shape
            assert a.grad.dtype is gb.float32
            ad.gradient_check(lambda x, y, op=op, swap=swap: op(y, x) if swap else op(x, y), a, b)


def test_gradients_through_broadcast_reshape_permute_and_sum(device: Device) -> None:
    """T8: sum, broadcast_to and the rest are on the tape."""
    x = leaf(np.arange(6.0).reshape(2, 3))
    y = x.broadcast_to(4, 2, 3).permute(2, 0, 1).reshape(3, -1).sum(axis=1)
    (y * ad.tensor([1.0, 10.0, 100.0])).sum().backward()
    np.testing.assert_array_equal(gradient(x), [[4, 40, 400], [4, 40, 400]])


def test_astype_passes_gradients_between_floats_and_stops_them_at_integers(device: Device) -> None:
    x = leaf([1.5, -2.5])
    assert x.astype("float32") is x
    whole = x.astype("int32")
    assert not whole.requires_grad
    (x * whole.astype("float32")).sum().backward()
    np.testing.assert_array_equal(gradient(x), [1.0, -2.0])


def test_mse_and_its_gradient(device: Device) -> None:
    """T8: 2 (x - t) / N, computed on the device."""
    x, t = leaf([[1.0, 2.0], [3.0, 5.0]]), [[0.0, 2.0], [5.0, 5.0]]
    loss = F.mse(x, t)
    assert loss.item() == 1.25
    loss.backward()
    np.testing.assert_array_equal(gradient(x), [[0.5, 0], [-1, 0]])
    with pytest.raises(gb.ShapeError, match=r"mse: shapes differ: \(2, 2\) and \(2,\)"):
        F.mse(x, [1.0, 2.0])


def test_a_diamond(device: Device) -> None:
    """P-AG01: x = 1.5; y = 4 x; L = 3 y + y y: dL/dx = 60."""
    x = leaf(1.5)
    y = x * 4.0
    (y * 3.0 + y * y).backward()
    assert gradient(x).item() == 60.0


def test_the_gradient_of_a_batched_product_with_one_matrix(device: Device) -> None:
    """P-AG03: the matrix serves the whole stack, its gradient is summed over it."""
    a, b = leaf(np.arange(8.0).reshape(2, 2, 2)), leaf(np.ones((2, 3)))
    (a @ b).sum().backward()
    np.testing.assert_array_equal(gradient(b), [[12, 12, 12], [16, 16, 16]])
    np.testing.assert_array_equal(gradient(a), np.full((2, 2, 2), 3.0))


@pytest.mark.parametrize("through", ["itself", "reshape", "detach", "optimizer"])
def test_a_saved_array_changed_in_place_raises(through: str, device: Device) -> None:
    """P-AG07: never the gradient of other values."""
    x = nn.Parameter([3.0])
    y = (x * x).sum()
    if through == "optimizer":
        (x * 1.0).sum().backward()
        optim.SGD([x], lr=0.1).step()
    else:
        with ad.no_grad():
            target = {"itself": x, "reshape": x.reshape(1, 1), "detach": x.detach()}[through]
            target.add_(1.0)
    with pytest.raises(GradientError, match=r"multiply: an array of shape \(1,\) .* was modified in place"):
        y.backward()


def test_a_temporary_changed_in_place_raises_as_well(device: Device) -> None:
    x = leaf([1.0, 2.0])
    h = x.exp()
    y = h.sum() + (h * h).sum()
    with ad.no_grad():
        h.detach().mul_(2.0)
    with pytest.raises(GradientError, match="modified in place"):
        y.backward()
    assert x.grad is None, "an error on the way changes no gradient"


def test_a_comparison_inside_the_graph(device: Device) -> None:
    """P-AG08: L = sum(t (t < 0)): gradient [1, 0]."""
    t = leaf([-2.0, 1.0])
    (t * (t < 0)).sum().backward()
    np.testing.assert_array_equal(gradient(t), [1.0, 0.0])


def test_a_second_backward(device: Device) -> None:
    """P-AG09: it raises; with retain_graph gradients are added, interior ones not counted twice."""
    x = leaf(3.0)
    loss = x * x
    loss.backward()
    with pytest.raises(GradientError, match=r"multiply: this part of the graph was freed .* retain_graph=True"):
        loss.backward()
    x.grad = None
    loss = (x * x) * 1.0
    loss.backward(retain_graph=True)
    assert gradient(x).item() == 6.0
    loss.backward()
    assert gradient(x).item() == 12.0


@pytest.mark.parametrize("layers", [1, 2, 5, 12, 24])
def test_a_weight_used_in_many_places(layers: int, device: Device) -> None:
    """P-AG12: y = w w ... w with w = 1: the gradient is the number of factors, the optimizer moves it once."""
    w = nn.Parameter([1.0])
    y = w * 1.0
    for _ in range(layers - 1):
        y = y * w
    y.sum().backward()
    assert gradient(w).item() == layers
    optim.SGD([w], lr=0.5).step()
    assert w.item() == 1.0 - 0.5 * layers


def test_a_loss_of_several_elements_wants_a_gradient(device: Device) -> None:
    """P-AG13: a clear error; (1,) and () work; a gradient may be given."""
    x = leaf([1.0, 2.0, 3.0])
    with pytest.raises(GradientError, match=r"shape \(3,\) has 3 elements; reduce it to one, with sum\(\) or mean\(\)"):
        (x * 2.0).backward()
    (x * 2.0).backward(ad.tensor([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(gradient(x), [2.0, 20.0, 200.0])
    y = leaf([5.0])
    (y * y).backward()
    assert gradient(y).item() == 10.0
    with pytest.raises(GradientError, match=r"the gradient has \(2,\) float32, the tensor \(3,\) float32"):
        (x * 2.0).backward(ad.tensor([1.0, 2.0]))


def test_a_gradient_given_by_the_user_stays_theirs(device: Device) -> None:
    x, dy = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0])
    (x + 0.0).backward(dy)
    (x + 0.0).backward(dy)
    np.testing.assert_array_equal(gradient(x), [6.0, 8.0])
    assert dy.tolist() == [3.0, 4.0]


def test_create_graph_says_that_it_does_not_exist(device: Device) -> None:
    x = leaf(1.0)
    with pytest.raises(GradientError, match="does not exist yet"):
        (x * x).backward(create_graph=True)


def test_an_op_without_a_gradient_raises_when_one_is_asked(device: Device) -> None:
    from dataclasses import replace

    from autodiff.tensor import apply
    from gpu_backend import ops

    mute = replace(ops.exp, name="mute", backward=None, host_backward=None)
    x = leaf([1.0])
    y = apply(mute, x)
    assert y.requires_grad
    with pytest.raises(DtypeError, match="mute: this op has no gradient"):
        y.backward()


def test_gradients_are_for_floats(device: Device) -> None:
    with pytest.raises(DtypeError, match="floats only, not for int32"):
        ad.tensor([1, 2], requires_grad=True)


def test_gradients_accumulate_until_they_are_dropped(device: Device) -> None:
    x = nn.Parameter([2.0])
    for expected in (4.0, 8.0, 12.0):
        (x * x).sum().backward()
        assert gradient(x).item() == expected
    x.grad = None
    (x * x).sum().backward()
    assert gradient(x).item() == 4.0


def test_reading_in_the_middle_of_a_graph_changes_nothing(device: Device) -> None:
    """M3."""

    def run(reads: bool) -> np.ndarray:
        x = leaf([0.5, -1.5])
        h = x.exp()
        if reads:
            h.numpy()
            repr(h)
        y = h * x
        if reads:
            y.tolist()
        y.sum().backward()
        return gradient(x)

    np.testing.assert_array_equal(run(True), run(False))


def test_a_forward_without_backward_frees_itself(device: Device) -> None:
    x = leaf(np.ones(10))
    y = (x * x).exp()
    gone = weakref.ref(y)
    before = gb.memory.stats().in_use_bytes
    del y
    gc.collect()
    assert gone() is None
    assert gb.memory.stats().in_use_bytes < before


def test_backward_gives_back_what_was_saved_as_it_goes(device: Device) -> None:
    x = leaf(np.ones(1000))
    start = gb.memory.stats().in_use_bytes
    loss = x.exp().exp().exp().sum()
    loss.backward()
    loss.item()
    del loss
    assert gb.memory.stats().in_use_bytes - start <= 2 * 4096 + 512


def test_a_graph_of_ten_thousand_ops_is_walked_without_recursion() -> None:
    with gb.default_device("host"):
        x = leaf(1.0)
        y = x
        for _ in range(10_000):
            y = y + 1.0
        y.backward()
        assert gradient(x).item() == 1.0
        y = x * 1.0
        for _ in range(10_000):
            y = y + 1.0
        del y  # freed without recursion as well


def test_gradient_check_finds_a_wrong_gradient(device: Device) -> None:
    from dataclasses import replace

    from autodiff.tensor import apply
    from gpu_backend import ops

    def halved(dy: gb.Array, saved: object, needs: object) -> tuple[gb.Array]:
        return (gb.multiply(ops.exp.run_backward(dy, saved, needs)[0], 0.5),)  # type: ignore[arg-type]

    def halved_host(dy: np.ndarray, saved: object, needs: object) -> tuple[np.ndarray]:
        return (0.5 * ops.exp.host_backward(dy, saved, needs)[0],)  # type: ignore[misc, operator]

    wrong = replace(ops.exp, name="wrong", backward=halved, host_backward=halved_host)
    x = leaf(np.linspace(-1, 1, 9))
    assert ad.gradient_check(F.exp, x) < 1e-4
    with pytest.raises(GradientError, match="gradient_check: along a random direction"):
        ad.gradient_check(lambda t: apply(wrong, t), x)


def test_a_backward_that_failed_can_be_tried_again(device: Device) -> None:
    x = leaf([1.0, 2.0])
    h = x.exp()
    y = (h * h).sum()
    before = h.numpy()
    with ad.no_grad():
        h.detach().mul_(2.0)
    for _ in range(2):
        with pytest.raises(GradientError, match="modified in place"):
            y.backward()
    np.testing.assert_array_equal(h.numpy(), 2 * before)


@pytest.mark.parametrize("change", ["write", "fill"])
def test_writes_from_the_host_are_noticed(change: str, device: Device) -> None:
    from gpu_backend.array import write
    from gpu_backend.ops.creation import fill

    x = leaf([3.0])
    y = (x * x).sum()
    if change == "write":
        write(x.array, np.array([4.0], np.float32))
    else:
        fill(x.array, 4.0)
    with pytest.raises(GradientError, match="modified in place"):
        y.backward()


def test_a_gradient_may_be_its_own_tensors_gradient(device: Device) -> None:
    x = leaf([1.0, 2.0])
    (x * 3.0).sum().backward()
    (x * 1.0).backward(x.grad)
    np.testing.assert_array_equal(gradient(x), [6.0, 6.0])


def test_a_gradient_of_another_kind_is_refused(adapter: Device, host: Device) -> None:
    x = ad.tensor([1.0], requires_grad=True, device=host)
    with pytest.raises(GradientError, match="backward: a gradient is a tensor, not ndarray"):
        (x * 1.0).backward(np.ones(1))  # type: ignore[arg-type]
    with pytest.raises(gb.DeviceError, match="backward: operands are on two devices"):
        (x * 1.0).backward(ad.tensor([1.0], device=adapter))
    with pytest.raises(GradientError, match="grad: a gradient is a tensor, not int"):
        x.grad = 0  # type: ignore[assignment]
    with pytest.raises(GradientError, match=r"grad: the gradient has \(2,\) float32, the tensor \(1,\) float32"):
        x.grad = ad.tensor([1.0, 2.0], device=host)
