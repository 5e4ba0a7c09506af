"""Kernels of pools, one by one, against the windows that define them, in float64."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from kernel_cases import Run, items, kernel, normal

from gpu_backend.testing import assert_close

NOWHERE = 2**32 - 1


class Case(NamedTuple):
    """Sizes in H, W. ``adaptive``: the rest is not looked at."""

    source: tuple[int, int]
    made: tuple[int, int]
    taps: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    adaptive: bool = False

    def elements(self, axis: int, i: int) -> list[int]:
        """What window i along an axis looks at, padding included."""
        if self.adaptive:
            extent, made = self.source[axis], self.made[axis]
            return list(range(i * extent // made, -(-(i + 1) * extent // made)))
        start = i * self.stride[axis] - self.pad[axis]
        end = min(start + self.taps[axis] * self.dilation[axis], self.source[axis] + self.pad[axis])
        return list(range(start, end, self.dilation[axis]))

    def window(self, p: tuple[int, ...]) -> tuple[list[tuple[int, int]], int]:
        """The elements of a window that exist, and how many there are with padding."""
        rows, cols = (self.elements(axis, i) for axis, i in enumerate(p))
        H, W = self.source
        inside = [(h, w) for h in rows for w in cols if 0 <= h < H and 0 <= w < W]
        return inside, len(rows) * len(cols)

    def params(self, count: int, **more: int) -> dict[str, Any]:
        fields = ("source", "made", "taps", "stride", "pad", "dilation")
        own = {field: [*getattr(self, field)[::-1], 0, 0] for field in fields}
        return {"items": count, "divisor": 0, "counts_padding": 1} | own | more


CASES = (
    Case((7, 9), (4, 4), (3, 4), (2, 2), (1, 1), (1, 2)),
    Case((3, 200), (3, 2), (1, 150), (1, 100), (0, 75)),  # longer than what is added up at a time
    Case((2, 2), (1, 1), (2, 2), (1, 1), (1, 1), (3, 3)),  # all padding
    Case((7, 5), (3, 4), adaptive=True),
    Case((2, 3), (5, 4), adaptive=True),
)
PLANES = 3


def pool(run: Run, entry: str, case: Case, count: int, inputs: Any, outputs: Any, **more: int) -> Any:
    return run(
        "pool",
        entry=entry,
        overrides={"adaptive": case.adaptive},
        inputs=inputs,
        outputs=outputs,
        params=case.params(count, **more),
        workgroups=items(count),
    )


def quads(case: Case) -> int:
    return PLANES * case.source[0] * -(-case.source[1] // 4)


def largest(case: Case, x: Any) -> tuple[Any, Any]:
    y = np.full((PLANES, *case.made), -np.inf)
    places = np.full(y.shape, NOWHERE, np.uint32)
    for n, *p in np.ndindex(*y.shape):
        for h, w in case.window(tuple(p))[0]:
            value = x[n, h, w]
            if places[n, *p] == NOWHERE or value > y[n, *p] or (np.isnan(value) and not np.isnan(y[n, *p])):
                y[n, *p], places[n, *p] = value, h * case.source[1] + w
    return y, places


@kernel("pool.max_forward")
def max_forward(run: Run) -> None:
    """Random planes, ties and infinities, a NaN."""
    for case in CASES:
        x = normal(PLANES, *case.source)
        x[1] = np.where(x[1] > 0, 1, -np.inf)
        x[2].reshape(-1)[1::3] = np.nan
        shape = (PLANES, *case.made)
        made = pool(run, "max_forward", case, prod(shape), {"x": x}, {"y": shape, "places": np.zeros(shape, np.uint32)})
        y, places = largest(case, x)
        np.testing.assert_array_equal(made["y"], y)
        np.testing.assert_array_equal(made["places"], places)


@kernel("pool.max_backward")
def max_backward(run: Run) -> None:
    for case in CASES:
        x, dy = normal(PLANES, *case.source), normal(PLANES, *case.made)
        _, places = largest(case, x)
        made = pool(run, "max_backward", case, quads(case), {"dy": dy, "saved_places": places}, {"dx": x.shape})
        dx = np.zeros((PLANES, prod(case.source) + 1))
        for n, *p in np.ndindex(*dy.shape):
            dx[n, min(places[n, *p], prod(case.source))] += dy[n, *p]
        assert_close(made["dx"], dx[:, :-1].reshape(x.shape), atol=2e-6)


def divisor(case: Case, p: tuple[int, ...], more: dict[str, int]) -> int:
    inside, with_padding = case.window(p)
    return more.get("divisor") or (with_padding if more.get("counts_padding", 1) else len(inside))


AVERAGES = [(case, more) for case in CASES if case.dilation == (1, 1) for more in ({}, {"counts_padding": 0})]
AVERAGES += [(CASES[1], {"divisor": 7}), (Case((7, 9), (4, 3), (3, 4), (2, 2), (1, 1)), {})]


@kernel("pool.average_forward")
def average_forward(run: Run) -> None:
    for case, more in AVERAGES:
        x, shape = normal(PLANES, *case.source), (PLANES, *case.made)
        made = pool(run, "average_forward", case, prod(shape), {"x": x}, {"y": shape}, **more)
        y = np.zeros(shape)
        for n, *p in np.ndindex(*shape):
            inside, _ = case.window(tuple(p))
            y[n, *p] = sum(np.float64(x[n, h, w]) for h, w in inside) / divisor(case, tuple(p), more)
        assert_close(made["y"], y, atol=2e-6)


@kernel("pool.average_backward")
def average_backward(run: Run) -> None:
    for case, more in AVERAGES:
        dy, shape = normal(PLANES, *case.made), (PLANES, *case.source)
        made = pool(run, "average_backward", case, quads(case), {"dy": dy}, {"dx": shape}, **more)
        dx = np.zeros(shape)
        for n, *p in np.ndindex(*dy.shape):
            for h, w in case.window(tuple(p))[0]:
                dx[n, h, w] += np.float64(dy[n, *p]) / divisor(case, tuple(p), more)
        assert_close(made["dx"], dx, atol=2e-6)
