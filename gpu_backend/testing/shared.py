"""What invocations of a workgroup have written into workgroup memory since the last barrier, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..syntax import tree
from ..syntax.module import Module


@dataclass(frozen=True)
class _Write:
    """``index`` as written, whether it ``varies``, the pass through a ``branch`` that made it (-1: none)."""

    index: str
    varies: bool
    branch: int
    is_sum: bool  # an atomic that adds up with others of its kind


class WorkgroupMemory:
    """The workgroup variables of one walk. Two accesses are told apart by the text of their indices."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._written: set[str] = set()
        self._pending: dict[str, list[_Write]] = {}

    def barrier(self) -> None:
        """All that was written is there for all."""
        self._pending.clear()

    def write(
        self, name: str, target: tree.Expression, varies: bool, passes: Sequence[int], *, is_sum: bool = False
    ) -> None:
        """A write, inside these passes through branches that only some invocations take."""
        self._written.add(name)
        write = _Write(self._index_text(target), varies, passes[-1] if passes else -1, is_sum)
        self._pending.setdefault(name, []).append(write)

    def read(
        self, name: str, target: tree.Expression, passes: Sequence[int], *, sums: bool
    ) -> Iterator[tuple[str, str]]:
        """A read: rules that it breaks, and what to say. Without ``sums`` it is an atomic that adds up with others."""
        if name not in self._written:
            yield "workgroup-read-before-write", f"{name} is read before any invocation has written to it"
        writes = [write for write in self._pending.get(name, []) if sums or not write.is_sum]
        text = self._index_text(target)
        if any(write.index == text and write.varies and not write.is_sum for write in writes):
            return  # what this invocation wrote itself
        for write in writes:
            if write.branch in passes:  # swapped within one branch, as a scan does: not looked into
                continue
            if write.index != text or write.branch != -1 or write.is_sum:
                message = f"{name} is read after a write of other invocations, with no workgroupBarrier between"
                yield "missing-barrier", message
                return

    def _index_text(self, node: tree.Expression) -> str:
        while isinstance(node, tree.Unary | tree.Member):  # a component lies where its vector does
            node = node.operand if isinstance(node, tree.Unary) else node.base
        variable = tree.root(node)
        text = self._module.text[variable.end : node.end] if variable is not None else ""
        return "".join(text.split())
