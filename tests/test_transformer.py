"""A transformer of one block learns to write: eager, compiled, on every device, and every parameter moves."""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device
from gpu_backend.device import GPUDevice

CONTEXT, WIDTH, HEADS, BATCH = 16, 32, 2, 8
TEXT = topics["for"]
LETTERS = sorted(set(TEXT))
CODES = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)


class Attention(nn.Module):
    """Causal attention of several heads with rotary positions."""

    def __init__(self) -> None:
        self.parts = {name: nn.Linear(WIDTH, WIDTH, bias=False) for name in ("q", "k", "v")}
        self.out = nn.Linear(WIDTH, WIDTH)
        self.tables = F.rotary_tables(CONTEXT, WIDTH // HEADS)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        B, T, D = x.shape
        q, k, v = (part(x).reshape(B, T, HEADS, D // HEADS).permute_dims(0, 2, 1, 3) for part in self.parts.values())
        q, k = (F.rotary_embedding(heads, *self.tables) for heads in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute_dims(0, 2, 1, 3).reshape(B, T, D))


class Transformer(nn.Module):
    """Letters (B, T) to scores of the next letter (B T, V)."""

    def __init__(self) -> None:
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH)]
        self.attention = Attention()
        self.wide = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH, activation="relu"), nn.Linear(2 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, ids: Any) -> ad.Tensor:
        x = self.letters(ids)
        x = x + self.attention(self.norms[0](x))
        x = x + self.wide(self.norms[1](x))
        return self.head(self.norms[2](x)).reshape(-1, len(LETTERS))


def batch(step: int) -> tuple[Any, Any]:
    """Letters and those that follow them."""
    starts = np.random.default_rng(step).integers(0, len(CODES) - CONTEXT - 1, BATCH)
    windows = np.stack([CODES[start : start + CONTEXT + 1] for start in starts])
    return windows[:, :-1].copy(), windows[:, 1:].reshape(-1).copy()


def learner(seed: int = 0) -> tuple[nn.Module, Any]:
    """A model and the function that trains it by one step."""
    ad.manual_seed(seed)
    model = Transformer()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(ids: Any, following: Any) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(ids)), ad.tensor(following))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step


def unmoved(model: nn.Module, before: dict[str, Any]) -> list[str]:
    return [name for name, p in model.named_parameters() if (p.numpy() == before[name]).all()]


def test_a_transformer_learns_on_every_device(device: Device) -> None:
    """P-CS04, T7: the loss falls, all parameters move, and adapter and host agree at first."""
    model, step = learner()
    before = {name: p.numpy() for name, p in model.named_parameters()}
    losses = [step(*batch(number)).item() for number in range(40)]
    assert losses[0] == pytest.approx(np.log(len(LETTERS)), abs=0.7)
    assert np.mean(losses[-5:]) < 0.75 * losses[0]
    assert not unmoved(model, before)


def test_adapter_and_host_take_the_same_steps(adapter: GPUDevice, host: Device) -> None:
    losses = []
    for device in (adapter, host):
        with gb.default_device(device):
            _, step = learner()
            losses.append([step(*batch(number)).item() for number in range(8)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_compiled_steps_are_those_of_eager(gpu: GPUDevice) -> None:
    """C19, P-CS04: losses and parameters, bit by bit, over 15 steps; the compiled path did run."""
    (mine, step), (theirs, eager_step) = learner(), learner()
    before = {name: p.numpy() for name, p in mine.named_parameters()}
    compiled = ad.compiled(step, fallback=False)
    for number in range(15):
        same(compiled(*batch(number)), eager_step(*batch(number)))
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        same(one, other)
    assert (compiled.stats().captures, compiled.stats().replays) == (1, 14)
    assert not unmoved(mine, before)


def test_a_chain_of_embedding_norm_and_linear_moves_every_parameter(device: Device) -> None:
    """P-CS04: embedding, layer_norm, linear, cross entropy; five compiled steps equal five eager ones."""
    runs = []
    for is_compiled in (True, False):
        ad.manual_seed(1)
        model = nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(ids: Any, following: Any, model: Any = model, optimizer: Any = optimizer) -> ad.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids), following)
            loss.backward()
            optimizer.step()
            return loss.detach()

        before = {name: p.numpy() for name, p in model.named_parameters()}
        run = ad.compiled(step) if is_compiled else step
        random = np.random.default_rng(0)
        losses = [run(*(ad.tensor(random.integers(0, 11, 32).astype(np.int32)) for _ in "ab")) for _ in range(5)]
        assert not unmoved(model, before)
        runs.append([*losses, *model.parameters()])
    for one, other in zip(*runs, strict=True):
        same(one, other)
