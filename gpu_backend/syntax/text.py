"""A shader's whole text, put together from parts by plain concatenation, and where each line of it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_USES = re.compile(r"^//\s*uses:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """``whole`` is what the compiler sees; ``origins`` has, for each line of it, its file and its line there."""

    whole: str
    origins: tuple[tuple[str, int], ...]

    def place(self, line: int) -> tuple[str, int]:
        """The file and the line there that a line of the whole (from 1) comes from."""
        return self.origins[min(max(line, 1), len(self.origins)) - 1]

    def excerpt(self, line: int, around: int = 3) -> str:
        """Numbered lines around ``line`` (from 1), each with its file and its line there."""
        lines = self.whole.splitlines()
        rows = []
        for number in range(max(line - around, 1), min(line + around, len(lines)) + 1):
            file, own = self.place(number)
            rows.append(f"{'>' if number == line else ' '} {file}:{own:<4} {lines[number - 1]}")
        return "\n".join(rows)


def concatenate(parts: Sequence[tuple[str, str]]) -> Text:
    """The parts, names and texts, one after the other."""
    whole = "".join(part if part.endswith("\n") else part + "\n" for _, part in parts)
    origins = tuple((name, row + 1) for name, part in parts for row in range(max(len(part.splitlines()), 1)))
    return Text(whole, origins)


def libraries(body: str, read: Callable[[str], str]) -> list[tuple[str, str]]:
    """The library files that ``body`` names in ``// uses:`` lines, each once, those they need themselves first."""
    found: dict[str, str] = {}

    def visit(text: str) -> None:
        for line in _USES.findall(text):
            for name in (item.strip() for item in line.split(",")):
                if name not in found:
                    library = read(name)
                    visit(library)
                    found[name] = library

    visit(body)
    return list(found.items())
