"""``gpu_backend`` and ``autodiff.functional`` as namespaces of the array API, and the packages that rely on that."""

from __future__ import annotations

from typing import Any

import array_api_compat
import array_api_extra as xpx
import einops.array_api as einops
import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
import gpu_backend as gb
from gpu_backend import Device, DtypeError
from gpu_backend.op_table.sample import normal

NAMES = [
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
    "bool",
    "float32",
    "int32",
    "uint32",
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "broadcast_arrays",
    "broadcast_to",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_invert",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "take",
    "matmul",
    "matrix_transpose",
    "tensordot",
    "vecdot",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
    "argmax",
    "argmin",
    "count_nonzero",
    "where",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
    "all",
    "any",
    "diff",
]
MISSING = [
    "float64",
    "int64",
    "uint64",
    "complex64",
    "int8",
    "uint16",
    "sort",
    "argsort",
    "nonzero",
    "unique_values",
    "conj",
]


@pytest.mark.parametrize("xp", [gb, F], ids=["gpu_backend", "functional"])
def test_the_names_are_there(xp: Any) -> None:
    absent = [name for name in NAMES if not hasattr(xp, name)]
    assert not absent
    assert xp.__array_api_version__ == "2023.12"


@pytest.mark.parametrize("xp", [gb, F], ids=["gpu_backend", "functional"])
@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_says_so(xp: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"{xp.__name__} has no {name}: "):
        getattr(xp, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = xp.nonsense


def test_questions_about_types() -> None:
    assert gb.result_type(gb.float16, gb.float32) is gb.float32
    assert gb.result_type("int32", 2.5) is gb.float32
    assert gb.result_type(gb.bool, True) is gb.bool
    assert gb.can_cast(gb.int32, gb.float32)
    assert not gb.can_cast(gb.float32, gb.int32)
    assert not gb.can_cast(gb.int32, gb.uint32)
    assert gb.isdtype(gb.uint32, "integral")
    assert gb.isdtype(gb.float16, ("bool", "real floating"))
    assert not gb.isdtype(gb.bool, "numeric")
    assert gb.finfo(gb.float32).eps == np.finfo(np.float32).eps
    assert gb.iinfo("uint32").max == 2**32 - 1
    with pytest.raises(DtypeError, match="finfo: int32 is no float type"):
        gb.finfo("int32")
    info = gb.__array_namespace_info__()
    assert info.dtypes(kind="integral") == {"int32": gb.int32, "uint32": gb.uint32}
    assert info.default_dtypes()["real floating"] is gb.float32
    assert "host" in info.devices()
    assert info.capabilities()["boolean indexing"] is False


def test_arrays_and_tensors_name_their_namespace(device: Device) -> None:
    x = ad.tensor([1.0, 2.0])
    assert x.__array_namespace__() is F
    assert x.array.__array_namespace__() is gb
    assert array_api_compat.array_namespace(x, x) is F
    assert array_api_compat.array_namespace(x.array) is gb
    assert x.array.to_device(device) is x.array


PATTERNS = [
    ("rearrange", "a b c -> c (b a)", {}),
    ("rearrange", "a (b d) c -> a d b c", {"d": 3}),
    ("rearrange", "a b c -> a 1 (b c)", {}),
    ("repeat", "a b c -> a b k c", {"k": 2}),
    ("repeat", "a b c -> (a k) b c", {"k": 3}),
    ("reduce-sum", "a b c -> b", {}),
    ("reduce-mean", "a b c -> a 1 c", {}),
    ("reduce-max", "a (b d) c -> a b", {"d": 3}),
    ("reduce-min", "a b c -> c", {}),
    ("reduce-prod", "a b c -> a c", {}),
]


@pytest.mark.parametrize(("function", "pattern", "sizes"), PATTERNS)
def test_einops(function: str, pattern: str, sizes: dict[str, int], device: Device) -> None:
    """Values as of numpy, and gradients by finite differences."""
    import einops as reference

    a = normal(2, 6, 4)
    name, _, reduction = function.partition("-")
    extra = (reduction,) if reduction else ()

    def apply(x: Any) -> Any:
        return getattr(einops, name)(x, pattern, *extra, **sizes)

    wanted = getattr(reference, name)(a, pattern, *extra, **sizes)
    np.testing.assert_allclose(apply(gb.array(a)).numpy(), wanted, rtol=1e-6, atol=1e-6)
    x = ad.tensor(a, requires_grad=True)
    np.testing.assert_allclose(apply(x).numpy(), wanted, rtol=1e-6, atol=1e-6)
    ad.gradient_check(apply, x)


def test_einops_packs_and_unpacks(device: Device) -> None:
    parts = [ad.tensor(normal(2, 3)), ad.tensor(normal(2, 4, 3)), ad.tensor(normal(2, 3, seed=1))]
    packed, shapes = einops.pack(parts, "a * c")
    assert packed.shape == (2, 6, 3)
    for made, part in zip(einops.unpack(packed, shapes, "a * c"), parts, strict=True):
        np.testing.assert_array_equal(made.numpy(), part.numpy())
    np.testing.assert_array_equal(einops.asnumpy(parts[0]), parts[0].numpy())
    stacked = einops.rearrange([parts[0], parts[2]], "k a b -> a k b")
    assert stacked.shape == (2, 2, 3)


def test_array_api_extra(device: Device) -> None:
    """Functions written for any namespace, with gradients where they are made of differentiable ones."""
    a = normal(3, 4)
    x = ad.tensor(a, requires_grad=True)
    assert xpx.atleast_nd(x, ndim=4).shape == (1, 1, 3, 4)
    assert xpx.expand_dims(x, axis=(0, 2)).shape == (1, 3, 1, 4)
    np.testing.assert_allclose(xpx.kron(x, x).numpy(), np.kron(a, a), rtol=1e-6)
    ad.gradient_check(lambda t: xpx.kron(t, t), x)
    np.testing.assert_allclose(xpx.sinc(x).numpy(), np.sinc(a), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(xpx.create_diagonal(x.detach()[0]).numpy(), np.diag(a[0]), rtol=1e-6)
    np.testing.assert_allclose(xpx.create_diagonal(gb.array(a[0])).numpy(), np.diag(a[0]), rtol=1e-6)


def softplus_of_any_namespace(x: Any) -> Any:
    """What a library writes for arrays of any kind."""
    xp = array_api_compat.array_namespace(x)
    return xp.where(x > 20, x, xp.log1p(xp.exp(xp.minimum(x, xp.asarray(20.0)))))


def test_a_function_for_any_namespace(device: Device) -> None:
    a = normal(5) * 10
    wanted = softplus_of_any_namespace(a.astype(np.float64))
    np.testing.assert_allclose(softplus_of_any_namespace(gb.array(a)).numpy(), wanted, rtol=1e-6)
    x = ad.tensor(a, requires_grad=True)
    y = softplus_of_any_namespace(x)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + np.exp(-a.astype(np.float64))), rtol=1e-4, atol=1e-6)
