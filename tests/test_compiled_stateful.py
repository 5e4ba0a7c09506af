"""Random sequences of what people do to a model between compiled calls, beside an eager twin; equal bits after each.

``python tests/test_compiled_stateful.py SEED COUNT`` runs more of them.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import CaptureWarning, nn, optim
from gpu_backend import Device, memory

OPTIMIZERS: list[Callable[[Any], optim.Optimizer]] = [
    lambda p: optim.SGD(p, lr=0.1),
    lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, skip_nonfinite=True),
    lambda p: optim.Adam([{"params": p[:2]}, {"params": p[2:], "lr": 0.05}], lr=0.01),
    lambda p: optim.AdamW(p, lr=0.01, skip_nonfinite=True),
]


class Net(nn.Module):
    """Dropout, a plain number and a mutable attribute between two linear layers."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.3)
        self.scale = 1.0
        self.extra = {"bias": 0.5}

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.second(self.drop(self.first(x).relu())) * self.scale + self.extra["bias"]


class World:
    """A model, its optimizer and schedule, the functions that use them, compiled or not, and what the user holds."""

    def __init__(self, seed: int, compile_: Callable[[Any], Any]) -> None:
        ad.manual_seed(seed)
        self.model = Net()
        self.average = ad.tensor(0.0)
        self.value = ad.tensor(np.ones(2, np.float32))
        self.held: list[ad.Tensor] = []
        self.renew(seed % 4)
        self.plain = [self.step, self.micro, self.update, self.keep_old, self.only_second]
        self.compiled = [compile_(function) for function in self.plain]
        self.in_place = compile_(self.change)
        self.random = ad.random.get_state()

    def renew(self, kind: int) -> None:
        """Another optimizer and schedule for the parameters there are."""
        self.optimizer = OPTIMIZERS[kind](list(self.model.parameters()))
        self.schedule = optim.StepLR(self.optimizer, 2, 0.9)

    # What is compiled.

    def step(self, x: ad.Tensor, target: ad.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.average.mul_(0.9).add_(loss.detach() * 0.1)
        return {"loss": loss, "norm": norm}

    def micro(self, x: ad.Tensor, target: ad.Tensor) -> Any:
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        return [loss]

    def update(self, x: ad.Tensor, target: ad.Tensor) -> Any:
        if any(p.grad is not None for p in self.model.parameters()):
            nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return [x * 1.0]

    def keep_old(self, x: ad.Tensor, target: ad.Tensor) -> Any:
        old = self.model.second.weight.grad
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(x), target).backward()
        return [old, self.model.second.weight.grad]

    def only_second(self, x: ad.Tensor, target: ad.Tensor) -> Any:
        for parameter in self.model.second.parameters():
            parameter.grad = None
        F.cross_entropy(self.model(x), target).backward()
        return x.mean()

    @staticmethod
    def change(value: ad.Tensor, x: ad.Tensor) -> Any:
        value.add_(x.sum())
        doubled = value * 2.0
        value.mul_(0.5)
        return [doubled, value]

    # What the user does.

    def act(self, action: str, random: np.random.Generator) -> Any:
        parameters = list(self.model.parameters())
        one = parameters[int(random.integers(4))]
        if action in ("call", "call", "eager", "broken"):
            index, size = int(random.integers(5)), int(random.choice([2, 2, 3]))
            x = random.standard_normal((size, 4)).astype(np.float32)
            target = random.integers(0, 3, size).astype(np.int32)
            x[0, 0] = np.nan if action == "broken" else x[0, 0]
            function = (self.plain if action == "eager" else self.compiled)[index]
            return function(ad.tensor(x), ad.tensor(target))
        if action == "in place":
            x = random.standard_normal((2, 2)).astype(np.float32)
            self.value = self.in_place(self.value, ad.tensor(x))[int(random.integers(2))]
        elif action == "hold" and one.grad is not None:
            self.held.append([one.grad, one.grad.detach(), one.grad * 1.0][int(random.integers(3))])
        elif action == "drop":
            del self.held[:2]
        elif action == "mode":
            self.model.train(bool(random.integers(2)))
        elif action == "attribute":
            self.model.scale, self.model.extra["bias"] = (float(random.choice([1.0, 0.5])) for _ in range(2))
        elif action == "freeze":
            one.requires_grad_(not one.requires_grad)
        elif action == "clear":
            self.optimizer.zero_grad(set_to_none=bool(random.integers(2)))
        elif action == "assign":
            one.grad = ad.tensor(random.standard_normal(one.shape).astype(np.float32))
        elif action == "options":
            self.optimizer.param_groups[-1]["lr"] = float(random.choice([0.1, 0.01]))
            self.optimizer.param_groups[0]["weight_decay"] = float(random.choice([0.0, 0.1]))
            self.optimizer.skip_nonfinite = bool(random.integers(2))
        elif action == "renew":
            self.renew(int(random.integers(4)))
        elif action == "replace":
            self.model.first.weight = nn.Parameter(random.standard_normal((6, 4)))
            self.renew(int(random.integers(4)))
        elif action == "seed":
            ad.manual_seed(int(random.integers(9)))
        elif action == "load":
            self.model.load_state_dict({k: 0.5 * v.numpy() for k, v in self.model.state_dict().items()})
        elif action == "schedule":
            self.schedule.step()
        elif action == "trim":
            memory.trim()
        elif action == "invalidate":
            for function in self.compiled:
                getattr(function, "invalidate", lambda: None)()
        return None

    def state(self) -> list[Any]:
        """Everything that must be equal."""
        parameters = list(self.model.parameters())
        states = self.optimizer._states
        return [
            [p.numpy() for p in parameters],
            [None if p.grad is None else p.grad.numpy() for p in parameters],
            [moment.numpy() for state in states for row in state.moments for moment in row],
            [state.progress.numpy() for state in states],
            [self.optimizer.skipped_steps, self.schedule.last_epoch, *self.random],
            [group["lr"] for group in self.optimizer.param_groups],
            [x.numpy() for x in (self.average, self.value, *self.held)],
        ]


OTHERS = (
    "eager broken hold hold drop mode attribute freeze clear clear assign options renew replace seed load schedule "
    "trim invalidate"
)
ACTIONS = ["call"] * 30 + ["in place"] * 2 + OTHERS.split()


def run(seed: int, actions: int) -> tuple[int, int]:
    """One sequence in both worlds; captures and replays."""
    random = np.random.default_rng(seed)
    verify, max_plans = int(random.choice([0, 0, 0, 2])), int(random.choice([16, 2, 1]))
    worlds = [World(seed, lambda f: ad.compiled(f, verify=verify, max_plans=max_plans)), World(seed, lambda f: f)]
    done = []
    for _ in range(actions):
        action = str(random.choice(ACTIONS))
        choice = int(random.integers(2**31))
        done.append(action)
        outcomes = []
        for world in worlds:
            ad.random.set_state(world.random)
            try:
                result = world.act(action, np.random.default_rng(choice))
                outcomes.append([x.numpy() for x in leaves(result)])
            except ad.GradientError as error:
                outcomes.append([type(error).__name__])
            world.random = ad.random.get_state()
        np.testing.assert_equal(outcomes[0], outcomes[1], err_msg=f"seed {seed}: result after {done}")
        np.testing.assert_equal(worlds[0].state(), worlds[1].state(), err_msg=f"seed {seed}: state after {done}")
    stats = [function.stats() for function in (*worlds[0].compiled, worlds[0].in_place)]
    storages = [p.array.storage for p in worlds[0].model.parameters()]
    for function in (*worlds[0].compiled, worlds[0].in_place):
        function.invalidate()
    memory.stats()
    assert all(storage.buffer.pins == 0 for storage in storages)
    return sum(s.captures for s in stats), sum(s.replays for s in stats)


def leaves(result: Any) -> list[ad.Tensor]:
    """Every tensor of a result."""
    if isinstance(result, ad.Tensor):
        return [result]
    items = result.values() if isinstance(result, dict) else result or ()
    return [x for item in items for x in leaves(item)]


def sequences(seed: int, count: int, actions: int) -> tuple[int, int]:
    captures = replays = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        for number in range(seed, seed + count):
            made, replayed = run(number, actions)
            captures, replays = captures + made, replays + replayed
    return captures, replays


def test_compiled_and_eager_stay_equal(adapter: Device) -> None:
    with gb.default_device(adapter):
        gc.collect()
        before = memory.stats().in_use_bytes
        captures, replays = sequences(0, 8, 50)
        gc.collect()
        assert memory.stats().in_use_bytes <= before + 4096
    assert captures > 100
    assert replays > 50


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_compiled_and_eager_stay_equal_for_long(adapter: Device) -> None:
    with gb.default_device(adapter):
        sequences(1000, 100, 150)


if __name__ == "__main__":
    print("captures and replays:", sequences(int(sys.argv[1]), int(sys.argv[2]), 150))
