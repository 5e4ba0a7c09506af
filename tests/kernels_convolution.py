"""Kernels of convolution, one by one, against the sums that define them, in float64."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from kernel_cases import Run, items, kernel, normal

from gpu_backend.testing import assert_close


class Case(NamedTuple):
    """Sizes in D, H, W; a group has ``terms`` channels of x and ``rows`` of y."""

    batch: int
    groups: int
    terms: int
    rows: int
    source: tuple[int, int, int]
    taps: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    pad: tuple[int, int, int] = (0, 0, 0)
    dilation: tuple[int, int, int] = (1, 1, 1)

    @property
    def made(self) -> tuple[int, int, int]:
        sizes = zip(self.source, self.taps, self.stride, self.pad, self.dilation, strict=True)
        d, h, w = ((e + 2 * p - s * (k - 1) - 1) // t + 1 for e, k, t, p, s in sizes)
        return d, h, w

    def arrays(self) -> tuple[Any, Any, Any]:
        """x, weight and dy."""
        x = normal(self.batch, self.groups, self.terms, *self.source)
        weight = normal(self.groups, self.rows, self.terms, *self.taps)
        return x, weight, normal(self.batch, self.groups, self.rows, *self.made)

    def meetings(self) -> Any:
        """For each tap and each position of y the element of x that they meet."""
        for tap, p in product(np.ndindex(*self.taps), np.ndindex(*self.made)):
            q = tuple(
                i * s - b + t * d for i, s, b, t, d in zip(p, self.stride, self.pad, tap, self.dilation, strict=True)
            )
            if all(0 <= i < e for i, e in zip(q, self.source, strict=True)):
                yield tap, p, q

    def forward(self, x: Any, weight: Any) -> Any:
        y = np.zeros((self.batch, self.groups, self.rows, *self.made))
        for tap, p, q in self.meetings():
            y[(..., *p)] += np.einsum("grt,ngt->ngr", weight[(..., *tap)], x[(..., *q)], dtype=np.float64)
        return y

    def input_backward(self, dy: Any, weight: Any) -> Any:
        dx = np.zeros((self.batch, self.groups, self.terms, *self.source))
        for tap, p, q in self.meetings():
            dx[(..., *q)] += np.einsum("grt,ngr->ngt", weight[(..., *tap)], dy[(..., *p)], dtype=np.float64)
        return dx

    def weight_backward(self, x: Any, dy: Any) -> Any:
        dweight = np.zeros((self.groups, self.rows, self.terms, *self.taps))
        for tap, p, q in self.meetings():
            dweight[(..., *tap)] += np.einsum("ngr,ngt->grt", dy[(..., *p)], x[(..., *q)], dtype=np.float64)
        return dweight

    def params(self, source: tuple[int, ...], made: tuple[int, ...]) -> dict[str, Any]:
        """What all kernels are told."""
        given = {"stride": self.stride, "pad": self.pad, "dilation": self.dilation}
        return {
            "groups": self.groups,
            "source_volume": prod(source),
            "taps": [*self.taps[::-1], prod(self.taps)],
            "source_extents": [*source[::-1], 0],
            "result_extents": [*made[::-1], 0],
            **{name: [*numbers[::-1], 0] for name, numbers in given.items()},
        }


BLOCKED = (
    Case(2, 1, 3, 9, (1, 6, 7), (1, 3, 2), (1, 2, 1), (0, 1, 1)),
    Case(2, 2, 5, 4, (3, 4, 5), (2, 1, 3), (1, 1, 2), (1, 0, 2), (2, 1, 2)),
    Case(1, 1, 150, 8, (1, 3, 5), (1, 2, 2), pad=(0, 1, 0)),  # more terms than are added up at a time
    Case(3, 1, 2, 5, (1, 1, 200), (1, 1, 3), dilation=(1, 1, 7)),  # more positions than a workgroup has; long lines
)
NARROW = (
    Case(2, 3, 1, 1, (1, 6, 7), (1, 3, 2), (1, 2, 1), (0, 1, 1)),
    Case(2, 2, 2, 3, (3, 4, 5), (2, 1, 3), (1, 1, 2), (1, 0, 2), (2, 1, 2)),
)


def blocks(run: Run, entry: str, case: Case, source: Any, weight: Any, result: Any, *bias: Any) -> Any:
    """The result of an entry point of conv.wgsl, whose weight is (groups, rows, terms, D, H, W)."""
    groups, rows, terms = weight.shape[:3]
    padded = -(-rows // 8) * 8
    arranged = np.zeros((groups, prod(case.taps), terms, padded), np.float32)
    arranged[..., :rows] = np.moveaxis(weight.reshape(groups, rows, terms, -1), (1, 3), (3, 1))
    columns = case.batch * prod(result)
    chunk = terms if bias else max(terms // 2, 1)  # parts are added up without a bias
    parts = -(-terms // chunk)
    params = {
        "rows": rows,
        "terms": terms,
        "padded_rows": padded,
        "columns": columns,
        "row_groups": padded // 8,
        "column_groups": -(-columns // (64 * 8)),
        "first_group": 0,
        "batch": case.batch,
        "parts": parts,
        "chunk": chunk,
        "result_volume": prod(result),
        **case.params(source.shape[3:], result),
    }
    made = run(
        "conv",
        entry=entry,
        inputs={"source": source, "arranged": arranged.reshape(-1, 4), **({"bias": bias[0]} if bias else {})},
        outputs={"result": (parts, case.batch, groups, rows, *result)},
        params=params,
        workgroups=parts * groups * params["row_groups"] * params["column_groups"],
    )["result"]
    return made.sum(axis=0, dtype=np.float64)


@kernel("conv.forward")
def conv_forward(run: Run) -> None:
    for case in BLOCKED:
        x, weight, _ = case.arrays()
        made = blocks(run, "forward", case, x, weight, case.made)
        assert_close(made, case.forward(x, weight), rtol=2e-6, atol=2e-5)


@kernel("conv.bias_forward")
def conv_bias_forward(run: Run) -> None:
    for case in BLOCKED[:2]:
        x, weight, _ = case.arrays()
        bias = normal(case.groups * case.rows)
        made = blocks(run, "bias_forward", case, x, weight, case.made, bias)
        assert_close(made, case.forward(x, weight) + bias.reshape(case.groups, -1, 1, 1, 1), rtol=2e-6, atol=2e-5)


@kernel("conv.input_backward")
def conv_input_backward(run: Run) -> None:
    for case in BLOCKED:
        _, weight, dy = case.arrays()
        made = blocks(run, "input_backward", case, dy, np.swapaxes(weight, 1, 2), case.source)
        assert_close(made, case.input_backward(dy, weight), rtol=2e-6, atol=2e-5)


@kernel("conv_weight.weight_backward")
def conv_weight_backward(run: Run) -> None:
    for case, chunk in zip(BLOCKED, (4, 3, 100, 2), strict=True):
        x, _, dy = case.arrays()
        line_segments = -(-case.made[2] // 64)
        segments = case.batch * case.made[0] * case.made[1] * line_segments
        columns = case.terms * prod(case.taps)
        row_blocks, column_blocks = -(-case.rows // 8), -(-columns // 8)
        parts = -(-segments // chunk)
        params = {
            "rows": case.rows,
            "terms": case.terms,
            "columns": columns,
            "row_blocks": row_blocks,
            "column_blocks": column_blocks,
            "first_group": 0,
            "segments": segments,
            "line_segments": line_segments,
            "chunk": chunk,
            "parts": parts,
            **case.params(case.source, case.made),
        }
        made = run(
            "conv_weight",
            entry="weight_backward",
            inputs={"x": x, "dy": dy},
            outputs={"dweight_parts": (parts, case.groups, case.rows, case.terms, *case.taps)},
            params=params,
            workgroups=items(parts * case.groups * row_blocks * column_blocks),
        )["dweight_parts"]
        assert_close(made.sum(axis=0, dtype=np.float64), case.weight_backward(x, dy), rtol=2e-6, atol=2e-5)


def few_rows(run: Run, entry: str, case: Case, source: Any, weight: Any, result: Any, *bias: Any) -> Any:
    """The result of an entry point of depthwise.wgsl; ``weight`` as it lies, (groups, rows, terms, D, H, W) of y."""
    backward = entry == "input_backward"
    rows, terms = (case.terms, case.rows) if backward else (case.rows, case.terms)
    quads = -(-prod(result) // 4)
    fields = dict.fromkeys(("positions", "chunk", "parts", "first_group"), 0)
    params = {
        "rows": rows,
        "terms": terms,
        "channels": case.groups * rows,
        "quads": quads,
        "items": case.batch * case.groups * rows * quads,
        "row_stride": 1 if backward else terms,
        "term_stride": rows if backward else 1,
        "result_volume": prod(result),
        **case.params(source.shape[3:], result),
    }
    return run(
        "depthwise",
        entry=entry,
        inputs={"source": source, "weight": weight, **({"bias": bias[0]} if bias else {})},
        outputs={"result": (case.batch, case.groups, rows, *result)},
        params=fields | params,
        workgroups=items(params["items"]),
    )["result"]


@kernel("depthwise.forward")
def depthwise_forward(run: Run) -> None:
    for case in NARROW:
        x, weight, _ = case.arrays()
        assert_close(few_rows(run, "forward", case, x, weight, case.made), case.forward(x, weight), atol=1e-5)


@kernel("depthwise.bias_forward")
def depthwise_bias_forward(run: Run) -> None:
    for case in NARROW:
        x, weight, _ = case.arrays()
        bias = normal(case.groups * case.rows)
        made = few_rows(run, "bias_forward", case, x, weight, case.made, bias)
        assert_close(made, case.forward(x, weight) + bias.reshape(case.groups, -1, 1, 1, 1), atol=1e-5)


@kernel("depthwise.input_backward")
def depthwise_input_backward(run: Run) -> None:
    for case in NARROW:
        _, weight, dy = case.arrays()
        made = few_rows(run, "input_backward", case, dy, weight, case.source)
        assert_close(made, case.input_backward(dy, weight), atol=1e-5)


@kernel("depthwise.weight_backward")
def depthwise_weight_backward(run: Run) -> None:
    for case, chunk in zip(NARROW, (100, 7), strict=True):
        x, _, dy = case.arrays()
        positions = case.batch * prod(case.made)
        parts = -(-positions // chunk)
        fields = dict.fromkeys(("quads", "items", "row_stride", "term_stride", "first_group"), 0)
        params = {
            "rows": case.rows,
            "terms": case.terms,
            "channels": case.groups * case.rows,
            "positions": positions,
            "chunk": chunk,
            "parts": parts,
            "result_volume": prod(case.made),
            **case.params(case.source, case.made),
        }
        shape = (parts, case.groups, case.rows, case.terms, *case.taps)
        made = run(
            "depthwise",
            entry="weight_backward",
            inputs={"source": x, "dy": dy},
            outputs={"dweight_parts": shape},
            params=fields | params,
            workgroups=prod(shape[:4]) * -(-prod(case.taps) // 4),
        )["dweight_parts"]
        assert_close(made.sum(axis=0, dtype=np.float64), case.weight_backward(x, dy), atol=2e-5)


@kernel("conv_bias.bias_backward")
def conv_bias_backward(run: Run) -> None:
    """Planes of less and of more than a workgroup; the last part has fewer images."""
    for shape, images in (((5, 3, 30), 2), ((3, 2, 1100), 1), ((4, 3, 65), 4)):
        dy = normal(*shape)
        batch, channels, volume = shape
        parts = -(-batch // images)
        sizes = {"batch": batch, "channels": channels, "volume": volume, "images": images, "parts": parts}
        made = run(
            "conv_bias",
            entry="bias_backward",
            inputs={"dy": dy},
            outputs={"dbias_parts": (parts, channels)},
            params=sizes,
            workgroups=parts * channels,
        )["dbias_parts"]
        expected = [dy[n : n + images].sum(axis=(0, 2), dtype=np.float64) for n in range(0, batch, images)]
        assert_close(made, np.stack(expected), atol=2e-5)
