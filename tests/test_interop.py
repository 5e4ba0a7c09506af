"""numpy, DLPack, torch, pickle and deepcopy: elements go through the host, by documented rules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import GradientError, nn, optim
from gpu_backend import Device, DeviceError, DtypeError, ReleasedBufferError, memory

VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array([1, -2, 3], np.int32),
    np.array([1, 2, 2**32 - 1], np.uint32),
    np.array([True, False, True]),
    np.float32(2.5),
    np.zeros((0, 3), np.float32),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda v: f"{v.dtype}{v.shape}")
def test_dlpack_to_numpy_and_back(values: Any, device: Device) -> None:
    x = gb.array(values)
    assert x.__dlpack_device__() == (1, 0)
    out = np.from_dlpack(x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, values)
    assert out.dtype == values.dtype
    back = gb.from_dlpack(np.asarray(values))
    assert back.device is device
    assert back.dtype is x.dtype
    np.testing.assert_array_equal(back.numpy(), values)
    np.testing.assert_array_equal(np.from_dlpack(ad.tensor(values)), values)  # type: ignore[arg-type]


def test_dlpack_gives_a_copy_and_says_what_it_cannot(device: Device) -> None:
    x = gb.array([1.0, 2.0])
    out = np.from_dlpack(x)  # type: ignore[arg-type]
    gb.ops.update.accumulate(x, x)
    assert out.tolist() == [1.0, 2.0]
    for wrong in ({"copy": False}, {"dl_device": (2, 0)}, {"stream": 1}):
        with pytest.raises(BufferError, match="a device that DLPack does not know; it gets a copy on the host"):
            x.__dlpack__(**wrong)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="from_dlpack: list gave no elements on the host"):
        gb.from_dlpack([1.0])


def test_dlpack_with_torch(device: Device) -> None:
    torch = pytest.importorskip("torch", reason="torch is for comparisons, not a dependency")
    x = gb.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    out = torch.from_dlpack(x)
    assert out.tolist() == x.tolist()
    np.testing.assert_array_equal(gb.from_dlpack(out.T * 2).numpy(), x.numpy().T * 2)
    np.testing.assert_array_equal(ad.tensor(torch.ones(3, dtype=torch.float64)).numpy(), np.ones(3, np.float32))
    assert gb.from_dlpack(torch.tensor([1, 2])).dtype is gb.int32
    with pytest.raises(DeviceError, match="require gradient"):
        gb.from_dlpack(torch.ones(2, requires_grad=True))


def test_a_transposed_parameter_trains_like_its_copy(device: Device) -> None:
    """P-AP04: memory order, byte order and type of the numpy input change nothing."""
    base = np.arange(6, dtype=np.float32).reshape(2, 3)
    read_only = base.copy()
    read_only.flags.writeable = False
    sources = (base.T, base.T.copy(), base.T.astype(np.float64), base.T.astype(">f4"), read_only.T)
    results = []
    for source in sources:
        w = nn.Parameter(source)
        optimizer = optim.AdamW([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        results.append(w.numpy())
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_array_equal(base, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_odd_counts_come_back_at_their_length(count: int, device: Device) -> None:
    """P-LM09: bytes are padded on the device, never in the result."""
    for values in (np.arange(count) % 2 == 0, np.arange(count, dtype=np.int8), np.arange(count, dtype=np.float16)):
        out = gb.array(values).numpy()
        assert out.shape == (count,)
        np.testing.assert_array_equal(out, values)


def test_int64_past_int32_raises_and_makes_nothing(device: Device) -> None:
    before = memory.stats().in_use_bytes
    for wrong in ([2**31], [-(2**31) - 1]):
        with pytest.raises(DtypeError, match="int64 holds numbers outside the range of int32"):
            gb.array(np.array(wrong))
    assert gb.array(np.array([2**31 - 1, -(2**31)])).tolist() == [2**31 - 1, -(2**31)]
    assert memory.stats().in_use_bytes == before


@pytest.mark.parametrize("values", VALUES, ids=lambda v: f"{v.dtype}{v.shape}")
def test_pickle_and_deepcopy_of_arrays(values: Any, device: Device) -> None:
    x = gb.array(values, label="mine")
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device is device
        assert y.dtype is x.dtype
        assert y.shape == x.shape
        assert y.storage.label == "mine"
        assert y.storage is not x.storage
        np.testing.assert_array_equal(y.numpy(), values)
    assert copy.copy(x).storage is x.storage


def test_an_unpickled_array_lands_on_the_host_or_on_the_default_device(adapter: Device, host: Device) -> None:
    here, there = gb.array([1.0], device=adapter), gb.array([2.0], device=host)
    packed = pickle.dumps((here, there))
    for default in (adapter, host):
        with gb.default_device(default):
            x, y = pickle.loads(packed)
            assert x.device is default
            assert y.device is host
            assert (x.item(), y.item()) == (1.0, 2.0)


def test_tensors_keep_their_kind_and_lose_their_past(device: Device) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (x * 3.0).sum().backward()
    w = nn.Parameter([1.0, 2.0], label="mine")
    for make in (lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy):
        y, v = make(x), make(w)
        assert y.requires_grad
        assert y.is_leaf
        assert y.grad is None
        assert not y.array.storage.persistent
        assert type(v) is nn.Parameter
        assert v.array.storage.persistent
        assert v.array.storage.label == "mine"
        assert (y.tolist(), v.tolist()) == ([1.0, 2.0], [1.0, 2.0])
        with ad.no_grad():
            y.add_(1.0)
        assert x.tolist() == [1.0, 2.0]
        with pytest.raises(GradientError, match="is the result of an op; use detach"):
            make(x * 2.0)


@pytest.mark.parametrize("kind", ["pickle", "deepcopy"])
@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.SGD(p, lr=0.1, momentum=0.9)], ids=["AdamW", "SGD"])
def test_a_model_with_its_optimizer_trains_on_as_if_never_copied(kind: str, make: Any, device: Device) -> None:
    """State, step counts and which parameter is whose survive; the copy and the original go apart."""

    def step(model: nn.Module, optimizer: optim.Optimizer, seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((4, 3))
        optimizer.zero_grad()
        F.cross_entropy(model(ad.tensor(x)), np.array([0, 1, 1, 0])).backward()
        optimizer.step()

    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    optimizer = make(model.parameters())
    for seed in range(3):
        step(model, optimizer, seed)
    pair = (model, optimizer)
    twin, twin_optimizer = pickle.loads(pickle.dumps(pair)) if kind == "pickle" else copy.deepcopy(pair)
    before = twin.state_dict()["0.weight"].numpy()
    for seed in range(3, 6):
        step(model, optimizer, seed)
    np.testing.assert_array_equal(twin.state_dict()["0.weight"].numpy(), before)
    for seed in range(3, 6):
        step(twin, twin_optimizer, seed)
    for (name, p), (_, q) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy(), err_msg=name)
    memory.reclaim()
    step(twin, twin_optimizer, 6)


def test_tied_weights_stay_tied(device: Device) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    first, second = model
    second.weight = first.weight  # type: ignore[assignment]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        first, second = twin
        assert second.weight is first.weight
        assert len(list(twin.parameters())) == len(list(model.parameters())) == 3


def test_released_arrays_are_not_copied(device: Device) -> None:
    x = gb.array([1.0])
    memory.release(x)
    for make in (pickle.dumps, copy.deepcopy, lambda x: np.from_dlpack(x), np.asarray):
        with pytest.raises(ReleasedBufferError):
            make(x)


def test_a_device_is_not_pickled_and_not_copied(device: Device) -> None:
    assert copy.deepcopy(device) is device
    with pytest.raises(TypeError, match="a device cannot be pickled"):
        pickle.dumps(device)
