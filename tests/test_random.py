"""Random numbers: known answers, equal bits on every device, positions, dropout."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn
from gpu_backend import Device
from gpu_backend.ops import random as draws

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "counter", "wanted"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES), (ONES,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(key: tuple[int, ...], counter: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """The vectors that come with Random123, the authors' own implementation of Philox4x32-10."""
    made = draws.philox(np.array(key, np.uint32), np.array([counter], np.uint32))
    assert tuple(int(word) for word in made[0]) == wanted


@pytest.mark.parametrize("size", [1, 3, 4, 5, 257, 1000])
@pytest.mark.parametrize("position", [0, 2**32 - 3, 2**64 - 5])
def test_words_are_those_of_the_twin(size: int, position: int, device: Device) -> None:
    """Bit by bit, across the carries of the 64-bit position, in eager form and relative to a base."""
    seed = 0x1234_5678_9ABC_DEF0
    wanted = draws.words(size, seed, position)
    zero = gb.array(np.zeros(4, np.uint32))
    np.testing.assert_array_equal(draws.random_bits(size, zero, seed, position).numpy(), wanted)
    base = gb.array(np.array([seed & ONES, seed >> 32, (position - 7) & ONES, (position - 7) % 2**64 >> 32], np.uint32))
    np.testing.assert_array_equal(draws.random_bits(size, base, 0, 7).numpy(), wanted)
    np.testing.assert_array_equal(
        draws.uniform((size, 1), zero, seed, position).numpy()[:, 0], (wanted >> 8).astype(np.float32) / 2**24
    )
    drawn = draws.bernoulli(size, 0.3, zero, seed, position).numpy()
    np.testing.assert_array_equal(drawn, wanted < round(0.3 * 2**32))


def test_numbers_look_random(device: Device) -> None:
    """Mean, variance, and no correlation of neighbours, to four standard errors."""
    ad.manual_seed(11)
    u = ad.random.uniform(40_000).numpy().astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / u.size)
    assert abs(u.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / u.size)
    assert abs(np.mean((u[1:] - 0.5) * (u[:-1] - 0.5)) * 12) < 4 / np.sqrt(u.size)
    assert abs(ad.random.bernoulli(40_000, 0.2).numpy().mean() - 0.2) < 4 * np.sqrt(0.16 / 40_000)
    assert ad.random.bernoulli(100, 1.0).numpy().all()
    assert not ad.random.bernoulli(100, 0.0).numpy().any()


def test_positions_are_saved_and_restored(device: Device) -> None:
    ad.manual_seed(3)
    ad.random.uniform(5)
    state = ad.random.get_state()
    assert state == (3, 2)
    first = [ad.random.random_bits(6).tolist(), ad.random.uniform(2).tolist()]
    assert ad.random.get_state().position == 5
    ad.random.set_state(state)
    assert [ad.random.random_bits(6).tolist(), ad.random.uniform(2).tolist()] == first
    with pytest.raises(ValueError, match="64-bit numbers"):
        ad.random.set_state((0, 2**64))
    assert ad.random.random_bits((0, 3)).shape == (0, 3)


def test_each_thread_has_a_stream() -> None:
    ad.manual_seed(1)
    before = ad.random.get_state()
    seen = []

    def other() -> None:
        ad.manual_seed(2)
        ad.random.host_uniform(0, 1, 9)
        seen.append(ad.random.get_state())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [(2, 3)]
    assert ad.random.get_state() == before


def test_another_process_draws_the_same(device: Device) -> None:
    program = (
        "import autodiff as ad; ad.manual_seed(9); print(ad.random.random_bits(5, device='host').tolist(), "
        "ad.random.host_uniform(-1, 1, 3).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ad.manual_seed(9)
    mine = f"{ad.random.random_bits(5).tolist()} {ad.random.host_uniform(-1, 1, 3).tolist()}"
    assert done.stdout.strip() == mine


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_rate_and_scales(p: float, device: Device) -> None:
    """The gradient goes through the mask of the forward; the mean stays."""
    ad.manual_seed(4)
    x = ad.tensor(np.ones(20_000), requires_grad=True)
    y = F.dropout(x, p)
    y.sum().backward()
    kept = y.numpy() != 0
    assert abs(kept.mean() - (1 - p)) < 4 * np.sqrt(p * (1 - p) / kept.size)
    np.testing.assert_array_equal(y.numpy()[kept], np.float32(1 / (1 - p)))
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_dropout_is_equal_on_both_devices(adapter: Device, host: Device) -> None:
    x = np.random.default_rng(0).standard_normal((33, 7)).astype(np.float32)
    results = []
    for device in (adapter, host):
        ad.manual_seed(8)
        results.append([F.dropout(ad.tensor(x, device=device), 0.4).numpy() for _ in range(3)])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(results[0][0], results[0][1])


def test_dropout_in_eval_is_the_identity(device: Device) -> None:
    layer = nn.Dropout(0.5)
    x = ad.tensor([1.0, 2.0])
    state = ad.random.get_state()
    assert layer.eval()(x) is x
    assert F.dropout(x, 0.0) is x
    assert ad.random.get_state() == state
    assert F.dropout(x, 1.0).tolist() == [0.0, 0.0]
    assert F.dropout(ad.tensor([np.nan, np.inf]), 1.0).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"a probability lies between 0 and 1, not -0\.1"):
        F.dropout(x, -0.1)
    with pytest.raises(ValueError, match="Dropout: a probability"):
        nn.Dropout(1.1)
    assert repr(layer) == "Dropout(p=0.5)"


@pytest.mark.parametrize("draw_before", [False, True])
def test_masks_of_replays_differ(draw_before: bool, adapter: Device) -> None:
    """P-CS12: four masks, each near its rate, the same four for the same seed, and the backward has them too."""
    with gb.default_device(adapter):

        @ad.compiled
        def f(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
            leaf = ad.tensor(x, requires_grad=True)
            y = F.dropout(leaf, 0.5)
            y.sum().backward()
            assert leaf.grad is not None
            return y, leaf.grad

        rounds = []
        for _ in range(2):
            ad.manual_seed(6)
            if draw_before:
                ad.random.uniform(3)
            rounds.append([[t.numpy() for t in f(np.ones(10_000, np.float32))] for _ in range(4)])
            ad.random.uniform(5)
    assert f.stats().replays == 7
    masks = [y for y, _ in rounds[0]]
    assert all(abs((mask == 0).mean() - 0.5) < 0.02 for mask in masks)
    assert len({mask.tobytes() for mask in masks}) == 4
    for one, other in zip(*rounds, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[0], one[1])
