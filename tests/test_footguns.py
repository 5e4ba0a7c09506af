"""What surprises in a compiled function, with the value that one would not expect; docs/compiled.md lists them."""

from __future__ import annotations

import io

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import CaptureWarning, nn

pytestmark = pytest.mark.usefixtures("gpu")


ONES = np.ones(2, np.float32)


def test_a_number_behind_a_function_is_a_constant() -> None:
    settings = {"scale": 2.0}

    def scale() -> float:
        return settings["scale"]

    f = ad.compiled(lambda x: x * scale())
    f(ONES)
    settings["scale"] = 5.0
    assert f(ONES).tolist() == [2.0, 2.0]  # not 5
    assert "number 2" in f.explain()
    g = ad.compiled(lambda x: x * settings["scale"])  # what the function itself names is looked at
    assert g(ONES).tolist() == [5.0, 5.0]
    settings["scale"] = 7.0
    assert g(ONES).tolist() == [7.0, 7.0]


def test_an_attribute_of_an_object_is_a_constant() -> None:
    class Settings:
        scale = 2.0

    settings = Settings()
    f = ad.compiled(lambda x: x * settings.scale)
    f(ONES)
    settings.scale = 5.0
    assert f(ONES).tolist() == [2.0, 2.0]  # not 5
    g = ad.compiled(lambda x, scale: x * scale)
    assert [g(ONES, scale).tolist()[0] for scale in (2.0, 5.0)] == [2.0, 5.0]


def test_a_large_numpy_array_from_elsewhere_is_a_constant() -> None:
    offsets = np.ones(20_000, np.float32)
    small = np.ones(2, np.float32)
    f, g = ad.compiled(lambda x: x + offsets), ad.compiled(lambda x: x + small)
    zeros = np.zeros(20_000, np.float32)
    f(zeros), g(ONES)
    offsets[:] = small[:] = 9.0
    assert f(zeros).numpy().max() == 1.0  # not 9: only small arrays are compared
    assert g(ONES).tolist() == [10.0, 10.0]
    assert "constant of 80,000 bytes" in f.explain()
    h = ad.compiled(lambda x, offsets: x + offsets)
    assert h(ONES, small).tolist() == [10.0, 10.0]


def test_noise_from_numpy_repeats() -> None:
    random = np.random.default_rng(0)
    f = ad.compiled(lambda x: x + random.standard_normal(2).astype(np.float32))
    assert f(ONES).tolist() == f(ONES).tolist()  # the same noise
    g = ad.compiled(lambda x: x + ad.random.uniform(2))
    assert g(ONES).tolist() != g(ONES).tolist()


def test_python_runs_once() -> None:
    log = io.StringIO()

    @ad.compiled
    def f(x: ad.Tensor) -> ad.Tensor:
        print("called", file=log)
        return x * 2.0

    for _ in range(3):
        f(ONES)
    assert log.getvalue() == "called\n"  # not three times


def test_a_list_that_it_appends_to_gives_the_capture_up() -> None:
    calls = []

    @ad.compiled
    def f(x: ad.Tensor) -> ad.Tensor:
        calls.append("called")
        return x * 2.0

    with pytest.warns(CaptureWarning, match="it changes a variable or a container that it names"):
        for _ in range(5):
            f(ONES)
    assert len(calls) == 5
    assert f.stats().captures == 0


def test_an_attribute_left_changed_gives_the_capture_up() -> None:
    class Counting(nn.Module):
        seen = 0

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            self.seen += 1
            return x * float(self.seen)

    model = Counting()
    f = ad.compiled(model)
    with pytest.warns(CaptureWarning, match=r"it changes Counting\.seen, which a replay would not"):
        assert [f(ONES).tolist()[0] for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]  # right, and never replayed
    assert f.stats().captures == 0


def test_a_tensor_left_behind_gives_the_capture_up() -> None:
    kept: list[ad.Tensor] = []

    @ad.compiled
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x * 2.0
        kept.append(y)
        return y + 1.0

    with pytest.warns(CaptureWarning, match=r"a tensor that it made, multiply \(2,\), is still held after the call"):
        for number in range(4):
            f(np.full(2, number, np.float32))
    assert [y.tolist()[0] for y in kept] == [0.0, 2.0, 4.0, 6.0]
    assert f.stats().captures == 0


def test_numpy_arrays_arrive_as_tensors() -> None:
    f = ad.compiled(lambda x: (x, type(x).__name__))
    assert f(ONES)[1] == "Tensor"  # not ndarray


def test_an_index_out_of_range_is_told_by_the_read_back() -> None:
    logits, target = np.zeros((1, 3), np.float32), np.array([7], np.int32)
    with pytest.raises(IndexError):
        F.cross_entropy(ad.tensor(logits), target)  # at once
    loss = ad.compiled(F.cross_entropy)(logits, target)  # no error yet
    with pytest.raises(IndexError, match="index 7 is out of range for 3"):
        loss.item()


def test_a_number_that_changes_captures_each_time() -> None:
    f = ad.compiled(lambda x, step: x * step, max_plans=4)
    for step in range(10):
        f(ONES, step)
    assert (f.stats().captures, f.stats().replays, f.stats().plans) == (10, 0, 4)
    g = ad.compiled(lambda x, step: x * step)
    for step in range(10):
        g(ONES, np.full(1, step, np.float32))
    assert (g.stats().captures, g.stats().replays) == (1, 9)


def test_results_are_off_the_tape() -> None:
    w = nn.Parameter([1.0, 2.0])
    y = ad.compiled(lambda x: x * w)(ONES)
    assert not y.requires_grad
    with pytest.raises(ad.GradientError, match="not on the tape"):
        y.sum().backward()


def test_arguments_are_values() -> None:
    w = ad.tensor([1.0, 1.0])

    def body(x: ad.Tensor) -> ad.Tensor:
        w.add_(1.0)
        return x * 10.0

    assert body(w).tolist() == [20.0, 20.0]  # the argument is the memory that was changed
    assert ad.compiled(body)(w).tolist() == [20.0, 20.0]  # not 30: it is as it was at the call


def test_forward_called_through_an_object_is_not_noted() -> None:
    class Scaled(nn.Module):
        scale = 2.0

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.scale

    class Holder:
        model = Scaled()

    holder, model = Holder(), Scaled()
    f = ad.compiled(lambda x: holder.model.forward(x))
    g = ad.compiled(lambda x: holder.model(x))
    h = ad.compiled(lambda x: model.forward(x))  # named by the function itself
    f(ONES), g(ONES), h(ONES)
    holder.model.scale = model.scale = 3.0
    assert f(ONES).tolist() == [2.0, 2.0]  # not 3
    assert g(ONES).tolist() == [3.0, 3.0]
    assert h(ONES).tolist() == [3.0, 3.0]


def test_a_gradient_held_across_replays_is_a_copy() -> None:
    w = nn.Parameter([1.0, 1.0])

    @ad.compiled
    def f(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    held = []
    for number in (1.0, 2.0, 3.0):
        f(np.full(2, number, np.float32))
        held.append(w.grad)
    assert [g.tolist()[0] for g in held if g is not None] == [1.0, 2.0, 3.0]
    f(np.full(2, 4.0, np.float32))
    assert w.grad is not None
    view = w.grad.reshape(1, 2)
    f(np.full(2, 5.0, np.float32))
    assert view.tolist() == [[5.0, 5.0]]  # a view is of the memory, which all replays share
