"""What a compiled function did, in numbers, and what it replays, as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gpu_backend.capture import Copy, Dispatch
from gpu_backend.plan import Plan

from .replay import TracedPlan


@dataclass
class CompiledStats:
    """What the calls of a compiled function came to.

    ``eager_calls``: how many calls ran plainly, by reason. ``kernels`` and ``host_calls``: dispatches, and calls of
    numpy twins, in all replays together. ``nbytes``: the buffers of all ``plans``. ``encoding``: how dispatches are
    encoded, ``"native"`` through functions of wgpu-native, ``"public"`` through the API of wgpu-py.
    """

    captures: int = 0
    replays: int = 0
    eager_calls: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    host_calls: int = 0
    plans: int = 0
    nbytes: int = 0
    encoding: str = "none"


def explanation(name: str, traced: TracedPlan | None, eager_calls: Counter[str]) -> str:
    """The kernels of a plan with shapes, bytes and numbers that are frozen; constants; why calls ran plainly.

    With the mean GPU time of each kernel, if replays have run inside ``gpu_backend.profiler.profile``.
    """
    lines = [f"{name}: nothing captured"]
    if traced is not None:
        plan = traced.plan
        encoding = plan.device.recorder.submissions.encoding.kind
        lines = [
            f"{name}: {plan.kernels} kernels, {plan.host_calls} host calls, {len(plan.segments)} submits, "
            f"{plan.nbytes:,} bytes, encoded through {encoding} functions, replayed {traced.replays} times"
        ]
        lines += [*_commands(plan), *_constants(plan)]
    lines += [f"plain calls: {count}, since {reason}" for reason, count in eager_calls.items()]
    return "\n".join(lines)


def _commands(plan: Plan) -> list[str]:
    seconds = iter(plan.gpu_seconds())
    rows = [("", "kernel", "shapes", "bytes", "gpu us", "frozen numbers")]
    for index, command in enumerate(plan.commands):
        if isinstance(command, Dispatch):
            label = command.kernel.label
            arrays = zip(command.kernel.storage_names, command.shapes, strict=True)
            shapes = ", ".join(f"{word} {shape}" for word, shape in arrays if word != "fault")
            numbers = command.kernel.numbers(command.params)
            frozen = ", ".join(f"{word} {value:g}" for word, value in numbers.items() if isinstance(value, float))
            taken = next(seconds, None)
            rows.append(
                (str(index), label, shapes, f"{command.work:,}", "" if taken is None else f"{taken * 1e6:.1f}", frozen)
            )
        elif isinstance(command, Copy):
            rows.append((str(index), "copy", "", f"{command.nbytes:,}", "", ""))
        else:
            rows.append((str(index), f"{command.label} on the host", "", "", "", ""))
    if not any(row[4] for row in rows[1:]):  # no profiler has seen a replay
        rows = [(*row[:4], "", row[5]) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        f"{a:>{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d:>{widths[3]}}  {e:>{widths[4]}}  {f}".rstrip()
        for a, b, c, d, e, f in rows
    ]


def _constants(plan: Plan) -> list[str]:
    return [f"constant of {nbytes:,} bytes, uploaded when it was captured" for nbytes in plan.constant_nbytes]
