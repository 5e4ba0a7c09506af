"""Modules: names, state, loading, initial weights."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import autodiff as ad
from autodiff import CheckpointError, nn
from gpu_backend import Device, ShapeError


def model() -> nn.Sequential:
    ad.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2, bias=False))


def test_names_are_dotted(device: Device) -> None:
    m = model()
    assert [name for name, _ in m.named_parameters()] == ["0.weight", "0.bias", "2.weight"]
    assert list(m.state_dict()) == ["0.weight", "0.bias", "2.weight"]
    assert m.state_dict()["2.weight"].shape == (2, 5)
    assert [name for name, _ in m.named_modules()] == ["", "0", "1", "2"]


def test_modules_in_lists_and_dicts_count(device: Device) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.blocks = [nn.Linear(2, 2), nn.Linear(2, 2)]
            self.heads = {"a": nn.Linear(2, 1)}
            self.scale = nn.Parameter([1.0])

    names = [name for name, _ in Net().named_parameters()]
    assert names == [
        "scale",
        "blocks.0.weight",
        "blocks.0.bias",
        "blocks.1.weight",
        "blocks.1.bias",
        "heads.a.weight",
        "heads.a.bias",
    ]


def test_a_shared_parameter_comes_once(device: Device) -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    assert [name for name, _ in nn.Sequential(first, second).named_parameters()] == ["0.weight", "0.bias", "1.bias"]


def test_repr_is_readable() -> None:
    assert repr(model()) == ("Sequential(\n  (0): Linear(4, 5)\n  (1): Tanh()\n  (2): Linear(5, 2, bias=False)\n)")
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()))) == "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n)"
    assert repr(nn.Linear(2, 3, activation="relu")) == "Linear(2, 3, activation='relu')"


def test_train_and_eval_reach_every_module() -> None:
    m = model().eval()
    assert not any(module.training for _, module in m.named_modules())
    assert all(module.training for _, module in m.train().named_modules())


def test_a_seed_gives_the_same_weights_on_every_device(adapter: Device, host: Device) -> None:
    states = []
    for device in (adapter, host):
        with ad.default_device(device):
            states.append({name: x.numpy() for name, x in model().state_dict().items()})
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name])
    assert np.abs(states[0]["0.weight"]).max() <= 0.5
    assert len(np.unique(states[0]["0.weight"])) == 20


def test_activations_in_and_after_a_layer_agree(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    for name, module in (("relu", nn.ReLU()), ("tanh", nn.Tanh()), ("sigmoid", nn.Sigmoid())):
        ad.manual_seed(1)
        inside = nn.Linear(4, 9, activation=name)
        ad.manual_seed(1)
        after = nn.Sequential(nn.Linear(4, 9), module)
        results = []
        for m in (inside, after):
            a = ad.tensor(x, requires_grad=True)
            y = m(a)
            (y * y).sum().backward()
            assert a.grad is not None
            weight = next(m.parameters())
            assert weight.grad is not None
            results.append((y.numpy(), a.grad.numpy(), weight.grad.numpy()))
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_loading_keeps_memory_and_checks_first(device: Device) -> None:
    m = model()
    before = {name: x.numpy() for name, x in m.state_dict().items()}
    serial = m[0].weight.array.storage.buffer.serial  # type: ignore[union-attr]
    fresh = {name: np.full_like(x, 2.0) for name, x in before.items()}
    wrong = {**fresh, "extra": np.zeros(3), "0.bias": np.zeros(4)}
    del wrong["2.weight"]
    with pytest.raises(CheckpointError) as raised:
        m.load_state_dict(wrong)
    text = str(raised.value)
    assert text.startswith("the state does not fit Sequential: missing 2.weight; unexpected extra; 0.bias has (4,)")
    for name, x in m.state_dict().items():
        np.testing.assert_array_equal(x.numpy(), before[name])
    m.load_state_dict(fresh)
    assert m[0].weight.array.storage.buffer.serial == serial  # type: ignore[union-attr]
    assert m(ad.tensor(np.zeros((1, 4)))).shape == (1, 2)
    for x in m.state_dict().values():
        assert (x.numpy() == 2.0).all()
    m.load_state_dict({"0.bias": np.full(5, 7.0, np.float32)}, strict=False)
    assert (m.state_dict()["0.bias"].numpy() == 7.0).all()


def test_loading_between_forward_and_backward_is_noticed(device: Device) -> None:
    m = nn.Linear(2, 2)
    x = ad.tensor([[1.0, 2.0]], requires_grad=True)
    y = m(x).sum()
    m.load_state_dict(m.state_dict())
    with pytest.raises(ad.GradientError, match="modified in place"):
        y.backward()


def test_moving_a_model(adapter: Device, host: Device) -> None:
    with ad.default_device(host):
        m = model()
        x = np.ones((3, 4), np.float32)
        wanted = m(ad.tensor(x)).numpy()
    m.to(adapter)
    np.testing.assert_allclose(m(ad.tensor(x, device=adapter)).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_wrong_shapes_name_the_layer_op(device: Device) -> None:
    with pytest.raises(ShapeError, match=r"linear: the input has shape \(1, 3\), the weight \(5, 4\) wants \(..., 4\)"):
        model()(ad.tensor([[1.0, 2.0, 3.0]]))
    with pytest.raises(ValueError, match="features are positive numbers, not 0 and 2"):
        nn.Linear(0, 2)
    with pytest.raises(TypeError, match="takes modules, not function"):
        nn.Sequential(model)  # type: ignore[arg-type]


def test_a_model_can_be_copied(device: Device) -> None:
    m = model()
    twin = copy.deepcopy(m)
    m[0].weight.detach().zero_()  # type: ignore[union-attr]
    assert np.abs(twin.state_dict()["0.weight"].numpy()).max() > 0
    assert [name for name, _ in twin.named_parameters()] == ["0.weight", "0.bias", "2.weight"]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in twin.parameters())


def test_a_module_that_refers_to_its_parent(device: Device) -> None:
    parent, child = nn.Module(), nn.Linear(1, 1)
    parent.child, child.parent = child, parent  # type: ignore[attr-defined]
    assert [name for name, _ in parent.named_parameters()] == ["child.weight", "child.bias"]


def test_an_unknown_activation_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="Linear: no activation 'swish'; there are tanh, sigmoid, relu"):
        nn.Linear(1, 1, activation="swish")


def test_a_state_of_another_type_names_the_parameter(host: Device) -> None:
    m = nn.Linear(1, 1, device=host)
    with pytest.raises(CheckpointError, match="the state does not fit Linear: weight: array: elements of type complex"):
        m.load_state_dict({"weight": np.ones((1, 1), complex), "bias": np.ones(1, np.float32)})


def test_a_parameter_is_not_replaced_by_a_tensor(device: Device) -> None:
    m = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"Linear.weight is a parameter; change it in place under no_grad"):
        m.weight = m.weight * 2.0  # type: ignore[assignment]
    m.weight = nn.Parameter(np.ones((2, 2)))
    with ad.no_grad():
        m.weight -= 1.0  # type: ignore[assignment]
    assert m.state_dict()["weight"].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_only_numbered_modules_are_called_in_sequence(device: Device) -> None:
    m = nn.Sequential(nn.Linear(2, 2))
    m.extra = nn.Linear(2, 9)
    assert len(m) == 1
    assert m(ad.tensor([[1.0, 2.0]])).shape == (1, 2)
