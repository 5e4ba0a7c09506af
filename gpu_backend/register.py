"""Ops from outside: an op of another project becomes one of the catalogue.

Its functions are those that ``gpu_backend.op`` describes, its shaders stand in a folder of its own
(``wgsl.add_folder``), and its row lets ``shadertape check --import`` and the project's own tests run it.
docs/adding-an-op.md has a whole example.
"""

from __future__ import annotations

from .op import Op
from .op_table.sample import Row
from .operators import catalogue

REGISTERED: list[Row] = []
"""The rows of ops from outside."""


def register(op: Op, row: Row) -> Op:
    """Enter an op, with its row of the op table, under its name; returns it.

    ``shadertape check`` and check mode know it then. ValueError if another op has its name, or the row is of another.
    """
    if row.op is not op:
        raise ValueError(f"register: the row is of {row.op.name}, not of {op.name}")
    known = catalogue.get(op.name)
    if known is not None and known is not op:
        raise ValueError(f"register: there is an op {op.name!r} already")
    if known is None:
        catalogue[op.name] = op
        REGISTERED.append(row)
    return op
