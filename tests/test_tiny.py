"""The tour, from a constant to a trained model. It runs first: if it fails, start here."""

from __future__ import annotations

import numpy as np

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from autodiff import nn, optim
from gpu_backend import Device


def test_1_a_constant_goes_there_and_back(device: Device) -> None:
    x = gb.array([1.0, 2.0, 3.0])
    assert x.shape == (3,)
    assert x.dtype is gb.float32
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_2_an_op_computes(device: Device) -> None:
    x = gb.array([1.0, 2.0, 3.0])
    assert gb.add(gb.multiply(x, x), 1.0).tolist() == [2.0, 5.0, 10.0]


def test_3_a_matrix_product(device: Device) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(gb.matmul(gb.array(a), gb.array(a.T.copy())).numpy(), a @ a.T)


def test_4_a_gradient(device: Device) -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_5_a_step_downhill(device: Device) -> None:
    w = nn.Parameter([4.0])
    optimizer = optim.SGD([w], lr=0.25)
    loss = ((w - 1.0) * (w - 1.0)).sum()
    loss.backward()
    optimizer.step()
    assert w.tolist() == [2.5]


def test_6_a_model_learns(device: Device) -> None:
    ad.manual_seed(0)
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    target = np.array([0, 1, 1, 0])
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    first = last = 0.0
    for step in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ad.tensor(x)), target)
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = first if step else last
    assert first > 0.6
    assert last < 0.05
    assert np.argmax(model(ad.tensor(x)).numpy(), axis=1).tolist() == [0, 1, 1, 0]
