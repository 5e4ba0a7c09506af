"""What a plan depends on beside its inputs, and what it holds: ways in which a replay could go wrong unnoticed."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import CaptureError, CaptureWarning, GradientError, nn, optim
from autodiff.tensor import apply
from gpu_backend import Op, memory, ops
from gpu_backend.device import GPUDevice
from gpu_backend.plan import Arena

ONE = np.ones(1, np.float32)
pytestmark = pytest.mark.no_poison  # poison is a kernel, which a capture records as well


@pytest.fixture(autouse=True)
def gpu(adapter: GPUDevice) -> Iterator[GPUDevice]:
    """The adapter as the default device."""
    with gb.default_device(adapter):
        yield adapter


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


def test_a_constant_that_is_changed_in_place_starts_anew() -> None:
    """Weights made inside, and moved: each call starts from the numbers of the host."""

    def adapted(x: ad.Tensor) -> ad.Tensor:
        w = nn.Parameter(np.zeros(1, np.float32))
        for _ in range(2):
            w.grad = None
            ((w - x) * (w - x)).sum().backward()
            with ad.no_grad():
                assert w.grad is not None
                w.sub_(w.grad * 0.25)
        return w

    f = ad.compiled(adapted)
    assert [f(ONE).item() for _ in range(4)] == [0.75] * 4
    assert f.stats().replays == 3
    g = ad.compiled(lambda x: memory.persist(ad.tensor(values(0))).add_(x))
    assert [g(ONE).item() for _ in range(3)] == [1.0] * 3


def test_work_of_another_thread_gives_the_capture_up() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f = ad.compiled(lambda x: pool.submit(lambda: x * 2.0).result() + 1.0)
        with pytest.warns(CaptureWarning, match="another thread made a tensor that it uses"):
            assert [f(values(n)).item() for n in (1, 2, 3)] == [3.0, 5.0, 7.0]


def test_a_twin_may_save_a_numpy_number() -> None:
    """What a twin saves is made anew by each replay, numbers as well; a Python number that changes is an error."""

    def host_backward(dy: Any, saved: Any, needs: Any) -> Any:
        return (dy * saved[0],)

    numpy_number = Op("peak", ops.exp.spec, lambda x: (x * x.max(), (x.max(),)), host_backward=host_backward)
    python_number = Op("peak2", ops.exp.spec, lambda x: (x * x.max(), (float(x.max()),)), host_backward=host_backward)

    def run(op: Op) -> Any:
        def gradient(x: ad.Tensor) -> Any:
            leaf = ad.tensor(x, requires_grad=True)
            apply(op, leaf).sum().backward()
            return leaf.grad

        return ad.compiled(gradient)

    with pytest.warns(gb.HostFallbackWarning):
        f = run(numpy_number)
        assert [f(values(n, 0)).tolist() for n in (1, 2, 5)] == [[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]
        g = run(python_number)
        g(values(1, 0))
        with pytest.raises(CaptureError, match=r"peak2: its twin saves .* save numbers as arrays"):
            g(values(2, 0))


def test_gradients_that_are_kept() -> None:
    """Held between calls, gathered inside, and the old one returned beside the new."""
    w = nn.Parameter([1.0])
    gathered: list[Any] = []

    def backward(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    f = ad.compiled(backward)
    f(values(1))
    first = w.grad
    f(values(7))
    assert first is not None
    assert first.tolist() == [1.0]
    assert w.grad is not None
    assert w.grad.tolist() == [7.0]

    class Keeper:
        def keep(self, x: Any) -> None:
            gathered.append(x)

    keeper = Keeper()
    g = ad.compiled(lambda x: (backward(x), keeper.keep(w.grad))[0])
    with pytest.warns(CaptureWarning, match="a gradient that it made is held after the call, beside grad"):
        for n in (1, 2, 3):
            g(values(n))
    assert [gradient.item() for gradient in gathered] == [1.0, 2.0, 3.0]

    def swap(x: ad.Tensor) -> Any:
        old = w.grad
        backward(x)
        return old

    h = ad.compiled(swap)
    assert [h(values(n)).item() for n in (1, 2, 3, 4, 5)] == [3.0, 1.0, 2.0, 3.0, 4.0]
    assert w.grad.item() == 5.0
    assert h.stats().replays >= 2


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


def test_a_graph_from_outside_is_checked_each_time() -> None:
    w = nn.Parameter([2.0])
    optimizer = optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    f = ad.compiled(lambda: loss.backward(retain_graph=True))
    with pytest.warns(CaptureWarning, match="goes back through a graph that was made before"):
        f()
    f()
    assert w.grad is not None
    assert w.grad.item() == 8.0
    optimizer.step()
    with pytest.raises(GradientError, match="modified in place"):
        f()


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


def test_skipping_may_be_turned_off_after_a_skipped_step(device: gb.Device) -> None:
    w = nn.Parameter([1.0], device=device)
    optimizer = optim.SGD([w], lr=0.5, skip_nonfinite=True)
    w.grad = ad.tensor([np.inf], device=device)
    optimizer.step()
    optimizer.skip_nonfinite = False
    w.grad = ad.tensor([1.0], device=device)
    optimizer.step()
    assert w.item() == 0.5
    assert optimizer.skipped_steps == 1


@pytest.mark.parametrize("error", [gb.OutOfMemoryError, KeyboardInterrupt])
def test_a_plan_that_cannot_be_made_spoils_no_other(error: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory runs out, or Ctrl-C comes, while a second plan finds its buffers: what the first pinned stays pinned."""
    w = ad.tensor([1.0])
    f, g = ad.compiled(lambda x: x * w), ad.compiled(lambda x: (x + w).tanh() * w)
    f(ONE)
    makes: list[int] = []

    def make(self: Arena, nbytes: int) -> Any:
        makes.append(nbytes)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Arena, "make", make)
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                g(ONE)
        else:
            with pytest.warns(CaptureWarning, match="there is no memory for the buffers of its plan"):
                assert g(ONE).item() == pytest.approx(np.tanh(2.0))
    assert makes
    assert w.array.storage.persistent
    w.copy_(values(2.0))
    assert f(ONE).item() == 2.0
    assert f.stats().captures == 1
    g(ONE)
    assert g.stats().captures == 1
    f.invalidate(), g.invalidate()
    assert not w.array.storage.persistent


def test_empty_results() -> None:
    f = ad.compiled(nn.Linear(4, 2))
    for _ in range(3):
        assert f(np.zeros((0, 4), np.float32)).shape == (0, 2)
    assert f.stats().replays == 2
    g = ad.compiled(lambda x: (x * 2.0, x.sum()))
    assert [g(np.zeros((0, 3), np.float32))[1].item() for _ in range(2)] == [0.0, 0.0]


def test_a_leaf_on_another_device_is_left_alone() -> None:
    there = ad.tensor([1.0], device="host", requires_grad=True)
    (there * 2.0).sum().backward()
    f = ad.compiled(lambda x: x * 2.0 if there.grad is not None else x)
    assert [f(ONE).item() for _ in range(3)] == [2.0] * 3
    assert f.stats().replays == 2


def test_what_is_gone_lets_go() -> None:
    """A compiled function that is collected unpins; a compiled method dies with its object; failures are bounded."""
    w = ad.tensor([1.0])
    f = ad.compiled(lambda x: x * w)
    f(ONE)
    assert w.array.storage.persistent
    del f
    gc.collect()
    assert not w.array.storage.persistent

    class Model(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(4, 4)

        @ad.compiled
        def run(self, x: ad.Tensor) -> ad.Tensor:
            return self.layer(x)

    model = Model()
    model.run(np.ones((1, 4), np.float32))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    g = ad.compiled(lambda leaf: leaf.sum().item())
    gc.collect()
    before = memory.stats().in_use_bytes
    with pytest.warns(CaptureWarning):
        for _ in range(20):
            g(ad.tensor(np.ones(1000), requires_grad=True))
    gc.collect()
    assert memory.stats().in_use_bytes == before


def test_plans_are_spared_by_reclaim() -> None:
    f = ad.compiled(lambda x: (x * 2.0).tanh() + x)
    wanted = f(ONE).item()
    for _ in range(3):
        memory.reclaim()
        noise = [ad.tensor([9.0]) * 9.0 for _ in range(5)]
        assert f(ONE).item() == wanted
        del noise
    assert f.stats().captures == 1


def test_a_released_argument_moves_nothing() -> None:
    """ReleasedBufferError before schedules, random position and counters move on."""
    w = nn.Parameter([1.0])
    optimizer = optim.SGD([w], lr=1.0)
    schedule = optim.StepLR(optimizer, 1, 0.5)

    @ad.compiled
    def step(x: ad.Tensor) -> None:
        optimizer.zero_grad()
        (w * F.dropout(x, 0.5)).sum().backward()
        optimizer.step()
        schedule.step()

    for _ in range(2):
        step(ad.tensor([1.0]))
    x = ad.tensor([1.0])
    memory.release(x)
    before = schedule.last_epoch, ad.random.get_state(), step.stats().replays
    with pytest.raises(gb.ReleasedBufferError):
        step(x)
    assert (schedule.last_epoch, ad.random.get_state(), step.stats().replays) == before


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


def test_bounds_past_the_range_of_float32() -> None:
    w = nn.Parameter([1.0, 2.0])
    w.grad = ad.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(w, 1e39).item() == 5.0
    nn.utils.clip_grad_value_(w, 1e39)
    same(w.grad, ad.tensor([3.0, 4.0]))


def backward_of(w: nn.Parameter) -> Any:
    """A compiled function that replaces the gradient of ``w`` by its argument, summed up to the shape of ``w``."""

    def backward(x: ad.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    return ad.compiled(backward)


@pytest.mark.parametrize("between", ["another shape", "cleared outside", "an eager step", "verified", "detached"])
def test_a_held_gradient_is_kept_in_every_way(between: str) -> None:
    w = nn.Parameter([1.0, 1.0])
    f = backward_of(w)
    if between == "verified":
        f = ad.compiled(f.fn, verify=5)
    f(values(1, 1))
    assert w.grad is not None
    held = w.grad.detach() if between == "detached" else w.grad
    if between == "another shape":
        f(np.full((3, 2), 7, np.float32))
    elif between == "an eager step":
        f.fn(ad.tensor(values(7, 7)))
        f(values(9, 9))
    else:
        if between != "detached":
            w.grad = None
        f(values(7, 7))
    assert held.tolist() == [1.0, 1.0]
    assert w.grad is not None
    assert w.grad.tolist()[0] in (7.0, 9.0, 21.0)
    memory.reclaim()
    assert held.tolist() == [1.0, 1.0]


def test_memory_that_is_exchanged_is_seen() -> None:
    """A held gradient that moved, named by another function; a weight that went to another device and back."""
    w = nn.Parameter([1.0])
    f = backward_of(w)
    f(values(1)), f(values(5))
    previous = w.grad
    assert previous is not None
    g = ad.compiled(lambda x: previous * x)
    assert g(ONE).item() == 5.0
    f(values(7))
    assert [previous.item(), g(ONE).item()] == [5.0, 5.0]
    layer = nn.Linear(1, 1, bias=False)
    weight = layer.weight
    h = ad.compiled(lambda x: x.reshape(1, 1) @ weight)
    h(ONE)
    here = weight.device
    layer.to("host").to(here)
    with ad.no_grad():
        weight.copy_(9.0)
    assert h(ONE).item() == 9.0


def test_a_release_inside_gives_the_capture_up() -> None:
    t = ad.tensor([2.0])
    f = ad.compiled(lambda x: (x * t, memory.release(t))[0])
    with pytest.warns(CaptureWarning, match=r"it releases an array \(1,\)|it releases array \(1,\)"):
        f(ONE)
    with pytest.raises(gb.ReleasedBufferError):
        f(ONE)


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


def test_a_gradient_that_is_a_constant() -> None:
    """An op whose backward uploads numbers: each replay brings them again."""

    def backward(dy: Any, saved: Any, needs: Any) -> Any:
        return (gb.array(np.full(dy.shape, 3.0, np.float32), device=dy.device),)

    op = Op("threes", ops.exp.spec, ops.exp.host_forward, ops.exp.forward, lambda *a: None, backward)  # type: ignore[arg-type, return-value]
    w = nn.Parameter([1.0])

    def threes(x: ad.Tensor) -> None:
        w.grad = None
        apply(op, w * x).sum().backward()

    f, g = ad.compiled(lambda x: threes(x)), backward_of(w)
    seen = []
    for _ in range(3):
        for run in (f, g):
            run(values(8))
            assert w.grad is not None
            seen.append(w.grad.item())
    assert seen == [24.0, 8.0] * 3


def test_plans_of_objects_that_are_gone() -> None:
    """They go, and take nothing along: no error, no memory, also where the function refers to its own owner."""
    f = ad.compiled(lambda m, x: m(x))
    gc.collect()
    before = memory.stats().in_use_bytes
    for _ in range(5):
        m = nn.Linear(64, 64)
        f(m, np.ones((1, 64), np.float32))
        m.eval()
        f(m, np.ones((1, 64), np.float32))
        del m
    gc.collect()
    assert memory.stats().in_use_bytes - before < 60_000
    f.invalidate()

    class Model(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter([1.0])
            self.step = ad.compiled(self._step)

        def _step(self, x: ad.Tensor) -> ad.Tensor:
            return self.w * x

    model = Model()
    model.step(ONE)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


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


def test_assigned_gradients_are_carried() -> None:
    """A gradient assigned before each call, wherever it lies, is what a captured update reads."""
    w = nn.Parameter([0.0])
    optimizer = optim.SGD([w], lr=1.0)
    update = ad.compiled(lambda: optimizer.step())
    total = 0.0
    for number in range(1, 6):
        w.grad = ad.tensor([float(number)])
        update()
        total -= number
        assert w.item() == total
    assert (update.stats().captures, update.stats().replays) == (1, 4)

    def take() -> None:
        optimizer.step()
        optimizer.zero_grad()

    taking = ad.compiled(take)
    for number in range(1, 4):
        w.grad = ad.tensor([float(number)])
        taking()
        total -= number
        assert w.item() == total
        assert w.grad is None
    assert taking.stats().replays == 2


def test_captures_that_are_never_replayed_are_told() -> None:
    f = ad.compiled(lambda x, step: x * step)
    with pytest.warns(CaptureWarning, match="was captured 12 times in a row and not replayed: a number among its"):
        for step in range(15):
            f(ONE, step)
