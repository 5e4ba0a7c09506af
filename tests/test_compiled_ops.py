"""Every op of the op table inside a compiled function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_helpers import same

import autodiff as ad
import gpu_backend as gb
from autodiff.tensor import apply
from gpu_backend.op_table import TABLE, Row, Sample

pytestmark = pytest.mark.usefixtures("gpu")

# A capture costs what a hundred calls cost: of each row some samples, from its first to its last.
SWEEP = [
    pytest.param(row, sample, id=f"{row.op.name}-{sample.id}")
    for row in TABLE
    for sample in row.samples[:: -(-len(row.samples) // 4)]
]


def other_inputs(sample: Sample) -> tuple[Any, ...]:
    """The arrays of a sample in reverse order: other values, the same shapes and domain."""
    return tuple(np.array(np.flip(x)) if isinstance(x, np.ndarray) else x for x in sample.inputs)


@pytest.mark.parametrize(("row", "sample"), SWEEP)
def test_every_op_is_replayed_with_new_inputs(row: Row, sample: Sample) -> None:
    """C2, C11, P-CS05: capture with A, replay with B: result and gradients are those of eager(B), bit by bit."""

    def run(*arrays: Any) -> list[ad.Tensor]:
        given = iter(arrays)
        inputs = [next(given) if isinstance(x, np.ndarray) else x for x in sample.inputs]
        has_gradient = row.op.host_backward is not None
        leaves = [
            ad.tensor(x, requires_grad=has_gradient and x.dtype is gb.float32) if isinstance(x, ad.Tensor) else x
            for x in inputs
        ]
        y = apply(row.op, *leaves, **sample.attributes)
        if not y.requires_grad or y.size == 0:
            return [y]
        weights = ad.tensor(np.linspace(-1, 2, y.size, dtype=np.float32).reshape(y.shape))
        (y * weights).sum().backward()
        return [y, *(x.grad for x in leaves if isinstance(x, ad.Tensor) and x.grad is not None)]

    first, second = (
        [x for x in inputs if isinstance(x, np.ndarray)] for inputs in (sample.inputs, other_inputs(sample))
    )
    replayed = ad.compiled(run, fallback=False)
    replayed(*first)
    got = replayed(*second)
    assert replayed.stats().replays == 1
    wanted = run(*[ad.tensor(x) for x in second])
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        same(mine, theirs)
