"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .module import Module


class Sequential(Module):
    """Modules called one after the other; their names are their numbers."""

    def __init__(self, *modules: Module) -> None:
        for index, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(f"Sequential: takes modules, not {type(module).__name__}")
            setattr(self, str(index), module)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x

    def __iter__(self) -> Iterator[Module]:
        return (module for name, module in self.named_children() if name.isdigit())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> Module:
        return list(self)[index]
