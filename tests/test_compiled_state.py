"""What a plan depends on beside its inputs: ways in which a replay could go wrong unnoticed."""

from __future__ import annotations

import concurrent.futures
import copy
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import CaptureError, CaptureWarning, nn, optim

pytestmark = [pytest.mark.usefixtures("gpu"), pytest.mark.no_poison]  # poison is a kernel, which a capture records too


ONE = np.ones(1, np.float32)


def values(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def test_one_numpy_array_given_twice() -> None:
    """Two arguments are two inputs, whether or not they were one object at the capture."""
    f = ad.compiled(lambda x, y: x - y)
    assert f(ONE, ONE).item() == 0.0
    assert f(values(1), values(5)).item() == -4.0
    g = ad.compiled(lambda x, y: (x.add_(1.0), y * 1.0)[1])
    assert [g(ONE, ONE).item() for _ in range(2)] == [1.0, 1.0]


def test_the_order_of_keywords_counts() -> None:
    def weighted(**parts: ad.Tensor) -> ad.Tensor:
        a, b = parts.values()
        return a + b * 10.0

    f = ad.compiled(weighted)
    assert [f(a=values(1), b=values(2)).item(), f(b=values(2), a=values(1)).item()] == [21.0, 12.0]


def test_a_frozen_parameter_stays() -> None:
    """``requires_grad`` of what the function meets, set between calls."""
    w = nn.Parameter([1.0])
    layer = nn.Linear(1, 1)
    optimizer = optim.SGD([w, *layer.parameters()], lr=0.5)

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        (layer(x.reshape(1, 1)) * w).sum().backward()
        optimizer.step()

    step(ONE)
    w.requires_grad_(False)
    before = w.item()
    step(ONE)
    assert w.item() == before
    assert w.grad is None
    w.requires_grad_(True)
    step(ONE)
    assert w.item() != before
    g = ad.compiled(lambda x: (w.requires_grad_(False), x * 1.0)[1])
    with pytest.warns(CaptureWarning, match=r"it sets requires_grad of parameter \(1,\)"):
        g(ONE)


def test_modules_met_without_a_call_are_seen() -> None:
    """A method's own object, ``model.forward``, a module among the arguments, a weight that is replaced."""

    class Scaled(nn.Module):
        def __init__(self, k: float) -> None:
            self.k = k

        @ad.compiled
        def scaled(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.k

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.k

    model, linear = Scaled(2.0), nn.Linear(1, 1, bias=False)
    forward, by_argument = ad.compiled(model.forward), ad.compiled(lambda m, x: x * m.k)
    functions = [lambda: model.scaled(ONE), lambda: forward(ONE), lambda: by_argument(model, ONE)]
    for k in (2.0, 2.0, 5.0, 7.0):
        model.k = k
        assert [f().item() for f in functions] == [k] * 3
    g = ad.compiled(lambda x: x.reshape(1, 1) @ linear.weight)
    g(ONE)
    linear.weight = nn.Parameter(np.full((1, 1), 9.0))
    assert g(ONE).item() == 9.0
    del model.k
    with pytest.raises(AttributeError):
        functions[1]()


def test_names_that_stand_for_something_else_are_seen() -> None:
    """A closure cell and a global that are bound anew: a tensor, an optimizer."""
    w = ad.tensor([2.0])
    f = ad.compiled(lambda x: x * w)
    assert f(ONE).item() == 2.0
    w = ad.tensor([5.0])
    assert [f(ONE).item() for _ in range(2)] == [5.0, 5.0]
    p = nn.Parameter([1.0])
    optimizer = optim.SGD([p], lr=1.0)

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    step(ONE)
    optimizer = optim.SGD([p], lr=0.0)
    step(ONE)
    assert p.item() == 0.0


def test_attributes_changed_in_place() -> None:
    """A dict that the module changes itself; a numpy array that is changed between calls; mode set as it is."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            self.state = {"n": 0.0}
            self.table = values(2)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            self.state["n"] += 1
            return x * self.state["n"]

        def look_up(self, x: ad.Tensor) -> ad.Tensor:
            return x * ad.tensor(self.table)

    model = Counting()
    f = ad.compiled(model)
    with pytest.warns(CaptureWarning, match="it changes an attribute of Counting"):
        assert [f(ONE).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    g = ad.compiled(model.look_up)
    assert g(ONE).item() == 2.0
    model.table[0] = 3.0
    assert g(ONE).item() == 3.0
    layer = nn.Linear(1, 1)
    h = ad.compiled(lambda x: layer.train()(x.reshape(1, 1)))
    h(ONE), h(ONE)
    assert h.stats().captures == 1


def test_work_of_another_thread_gives_the_capture_up() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f = ad.compiled(lambda x: pool.submit(lambda: x * 2.0).result() + 1.0)
        with pytest.warns(CaptureWarning, match="another thread made a tensor that it uses"):
            assert [f(values(n)).item() for n in (1, 2, 3)] == [3.0, 5.0, 7.0]


def test_options_set_inside_give_the_capture_up() -> None:
    """The rate of each step, set in the function; a rate and a random position that are returned."""
    results = []
    for is_compiled in (True, False):
        w = nn.Parameter([0.0])
        optimizer = optim.SGD([w], lr=1.0)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> None:
            for lr in (1.0, 0.25):
                optimizer.param_groups[0]["lr"] = lr
                optimizer.zero_grad()
                (w * ad.tensor(x)).sum().backward()
                optimizer.step()

        run = ad.compiled(step) if is_compiled else step
        for _ in range(3):
            if is_compiled:
                with pytest.warns(CaptureWarning) if not results and w.item() == 0 else _nothing():
                    run(ONE)
            else:
                run(ONE)
        results.append(w.item())
    assert results[0] == results[1] == -3.75
    optimizer = optim.SGD([nn.Parameter([0.0])], lr=0.5)
    schedule = optim.StepLR(optimizer, 1, 0.5)
    f = ad.compiled(lambda x: (schedule.step(), schedule.get_last_lr()[0])[1])
    with pytest.warns(CaptureWarning, match="it reads learning rates on the host"):
        assert [f(ONE) for _ in range(3)] == [0.25, 0.125, 0.0625]
    ad.manual_seed(0)
    g = ad.compiled(lambda x: (ad.random.uniform(4), ad.random.get_state().position)[1])
    with pytest.warns(CaptureWarning, match="it reads the state of the random numbers"):
        assert [g(ONE) for _ in range(3)] == [1, 2, 3]


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *unused: object) -> None: ...


def test_a_module_that_is_a_dataclass_stays_itself() -> None:
    @dataclass(eq=False)
    class Scaled(nn.Module):
        k: float = 2.0

    model = Scaled()
    f = ad.compiled(lambda m, x: x * (m.k if m is model else 0.0))
    assert f(model, ONE).item() == 2.0
    model.k = 5.0
    assert f(model, ONE).item() == 5.0


def test_methods_of_instances_that_are_equal() -> None:
    class Equal:
        def __init__(self, k: float) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        @ad.compiled
        def scaled(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.k

    a, b = Equal(2.0), Equal(5.0)
    assert [a.scaled(ONE).item(), b.scaled(ONE).item()] == [2.0, 5.0]
    assert a.scaled is a.scaled

    class Slotted:
        __slots__ = ()

        @ad.compiled
        def scaled(self, x: ad.Tensor) -> ad.Tensor:
            return x

    with pytest.raises(TypeError, match="add '__weakref__' to the __slots__ of Slotted"):
        Slotted().scaled(ONE)


def test_an_error_that_is_swallowed_is_raised_again() -> None:
    def careful(x: ad.Tensor) -> ad.Tensor:
        try:
            return x * x.sum().item()
        except Exception:
            return x

    with pytest.raises(CaptureError, match="reads elements on the host"):
        ad.compiled(careful, fallback=False)(ONE)


def test_a_read_that_was_started_before() -> None:
    value = ad.tensor([2.0])
    reads = [value.download_async()]
    f = ad.compiled(lambda x: x * reads[0].item())
    with pytest.warns(CaptureWarning, match="reads elements on the host"):
        assert f(ONE).item() == 2.0


def test_copies_of_what_holds_a_compiled_function() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)
            self.step = ad.compiled(lambda x: x * 2.0)

    copied = copy.deepcopy(Holder())
    assert copied.step(ONE).item() == 2.0
    with pytest.raises(TypeError, match="a compiled function is not pickled; compile the plain one after loading"):
        copy.copy(copied.step).__reduce__()


def test_functions_that_call_each_other_from_two_threads() -> None:
    """No lock is held while a function runs."""
    barrier = threading.Barrier(2, timeout=20)
    functions: dict[str, Any] = {}

    def body(me: str, other: str, x: ad.Tensor, depth: int) -> ad.Tensor:
        x.sum().item()
        if depth:
            barrier.wait()
            return functions[other](x, depth - 1)
        return x * 2.0

    functions["a"] = ad.compiled(lambda x, depth: body("a", "b", x, depth))
    functions["b"] = ad.compiled(lambda x, depth: body("b", "a", x, depth))
    results: list[float] = []
    threads = [
        threading.Thread(target=lambda name=name: results.append(functions[name](ONE, 1).item()), daemon=True)
        for name in "ab"
    ]
    with pytest.warns(CaptureWarning):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == [2.0, 2.0]


def test_options_changed_in_place_are_seen() -> None:
    seen = []
    for is_compiled in (True, False):
        w = nn.Parameter([1.0])
        betas = [0.9, 0.999]
        optimizer = optim.Adam([{"params": [w], "betas": betas}], lr=0.1)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            (w * ad.tensor(x)).sum().backward()
            optimizer.step()

        run = ad.compiled(step) if is_compiled else step
        for number in range(4):
            run(values(number - 1.5))
            betas[0] = 0.5
        seen.append(w.item())
    assert seen[0] == seen[1]


SCALE = 2.0


def test_names_in_every_place() -> None:
    """Modules in a list, a global in a generator, defaults, a decorated function."""
    global SCALE

    class Scaled(nn.Module):
        def __init__(self, k: float) -> None:
            self.k = k

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return x * self.k

    models, model = [Scaled(2.0)], Scaled(2.0)
    settings = {"k": 2.0}

    def with_defaults(x: ad.Tensor, *, m: Any = model, s: Any = settings) -> ad.Tensor:
        return x * m.k * s["k"]

    @ad.compiled
    @ad.no_grad()
    def decorated(x: ad.Tensor) -> ad.Tensor:
        return model.forward(x)

    listed = ad.compiled(lambda x: x * models[0].k)
    generated = ad.compiled(lambda x: next(x * SCALE for _ in range(2)))
    defaulted = ad.compiled(with_defaults)
    assert [listed(ONE).item(), generated(ONE).item(), defaulted(ONE).item(), decorated(ONE).item()] == [2, 2, 4, 2]
    models[0].k = SCALE = settings["k"] = 5.0
    assert [listed(ONE).item(), generated(ONE).item(), defaulted(ONE).item()] == [5, 5, 10]
    model = Scaled(3.0)
    assert decorated(ONE).item() == 3.0
    SCALE = 2.0
    loop: list[Any] = []
    loop.append(loop)
    assert ad.compiled(lambda x: x * float(len(loop)))(ONE).item() == 1.0


def test_a_verified_replay_that_fails_is_undone() -> None:
    w = nn.Parameter(np.zeros((1, 3)))
    optimizer = optim.SGD([w], lr=1.0)
    schedule = optim.StepLR(optimizer, 1, 0.5)

    @ad.compiled(verify=9)
    def step(x: ad.Tensor, target: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(w * x, target)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    step(ONE.reshape(1, 1), np.zeros(1, np.int32))
    before, epoch = w.numpy(), schedule.last_epoch
    with pytest.raises(IndexError):
        step(ONE.reshape(1, 1), np.full(1, 7, np.int32))
    np.testing.assert_array_equal(w.numpy(), before)
    assert schedule.last_epoch == epoch


def test_dictionaries_keep_their_type() -> None:
    from collections import OrderedDict, defaultdict

    kinds = ad.compiled(lambda d: (d["a"] * 1.0, type(d).__name__)[1])
    assert kinds(OrderedDict(a=ONE)) == "OrderedDict"
    assert kinds(defaultdict(list, a=ONE)) == "defaultdict"
    assert kinds({"a": ONE}) == "dict"


def test_captures_that_are_never_replayed_are_told() -> None:
    f = ad.compiled(lambda x, step: x * step)
    with pytest.warns(CaptureWarning, match="was captured 12 times in a row and not replayed: a number among its"):
        for step in range(15):
            f(ONE, step)
