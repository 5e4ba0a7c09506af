"""A shader under test: its whole text, where each line comes from, and what it declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import ShaderError
from ..syntax import tree
from ..syntax.layout import Layout, layout_of
from ..syntax.module import Binding, Module, Number
from ..syntax.parser import parse
from ..syntax.text import Text, concatenate
from ..syntax.text import libraries as used_libraries
from ..syntax.tokens import SyntaxFault


@dataclass(frozen=True)
class Source:
    """``text`` is what the compiler sees: generated lines, library files, the shader. Made by ``load``."""

    label: str
    text: Text

    @property
    def module(self) -> Module:
        """The parsed text; ShaderError with the lines around where it is no WGSL."""
        try:
            return _parsed(self.text.whole)
        except SyntaxFault as fault:
            raise self.fault(str(fault), fault.start) from None

    def fault(self, message: str, position: int) -> ShaderError:
        """An error that shows the lines around an offset in the text."""
        return ShaderError(self.label, message, self.text.excerpt(self.text.whole.count("\n", 0, position) + 1))

    def entry(self, name: str | None) -> str:
        """The entry point of that name, or the only one there is."""
        entries = self.module.entries
        if name is None and len(entries) == 1:
            return entries[0]
        if name not in entries:
            wanted = "which entry point" if name is None else f"no entry point {name!r}"
            raise ShaderError(self.label, f"{wanted}; there are {', '.join(entries) or 'none'}")
        return name

    def layout(self, binding: Binding, overrides: Mapping[str, Number]) -> Layout:
        """The layout of a binding's type."""
        try:
            return layout_of(self.module, binding.type, overrides)
        except SyntaxFault as fault:
            raise self.fault(str(fault), binding.declaration.start) from None


def load(
    source: str | Path,
    *,
    prelude: str = "",
    aliases: Mapping[str, str] | None = None,
    libraries: Iterable[str | Path] = (),
    folder: Path | None = None,
) -> Source:
    """The shader in a file, or given as text.

    A Path, or a string that ends in ``.wgsl``, is a file, looked for in ``folder`` first. ``prelude`` is put in front,
    ``aliases`` become ``alias`` declarations, ``libraries`` are files or texts in between. A line ``// uses: lib/a``
    in a file asks for ``lib/a.wgsl`` beside it.
    """
    path: Path | None = None
    label = "shader"
    if isinstance(source, Path) or (source.rstrip().endswith(".wgsl") and "\n" not in source):
        path = _find(Path(source), folder)
        label, body = path.name, path.read_text(encoding="utf-8")
    else:
        body = source
    front = "".join(f"alias {name} = {kind};\n" for name, kind in (aliases or {}).items()) + prelude
    parts = [("prelude", front)] if front else []
    if isinstance(libraries, str):
        raise TypeError("libraries is a list of files or texts, not one text")
    for number, library in enumerate(libraries):
        if isinstance(library, Path) or library.rstrip().endswith(".wgsl"):
            found = _find(Path(library), folder)
            parts.append((found.name, found.read_text(encoding="utf-8")))
        else:
            parts.append((f"library {number}", library))
    if path is not None:
        beside = path.parent
        parts += used_libraries(
            prelude + body, lambda name: _find(Path(f"{name}.wgsl"), beside).read_text(encoding="utf-8")
        )
    parts.append((label, body))
    return Source(label, concatenate(_enables_first(parts)))


@lru_cache(maxsize=256)
def _parsed(text: str) -> Module:
    return Module(text)


def _find(path: Path, folder: Path | None) -> Path:
    for candidate in ([folder / path] if folder is not None else []) + [path]:
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"no shader {path}" + (f", nor {folder / path}" if folder is not None else ""))


def _enables_first(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Directives have to stand in front of all declarations: those of later parts are moved there."""
    moved: list[str] = []
    rest: list[tuple[str, str]] = []
    for name, part in parts:
        try:
            nodes = parse(part)
        except SyntaxFault:  # the compiler has better words for it
            nodes = []
        for node in reversed(nodes):
            if isinstance(node, tree.Directive) and node.kind != "const_assert":
                moved.append(part[node.start : node.end])
                part = part[: node.start] + " " * (node.end - node.start) + part[node.end :]
        rest.append((name, part))
    if len(parts) < 2 or not moved:
        return parts
    return [("directives", "\n".join(dict.fromkeys(reversed(moved))) + "\n"), *rest]
