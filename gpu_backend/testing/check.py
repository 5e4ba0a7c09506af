"""``check_wgsl``: what compilers and rules say to a shader before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..adapter import Adapter
from ..errors import ShaderError
from ..syntax.module import Number
from ..syntax.tokens import SyntaxFault
from . import compilers
from .lint import RULES, lint
from .run import Arguments, Dispatch, names_of, prepare
from .runner import runner_for
from .source import Source, load

_ENABLES_F16 = re.compile(r"^\s*enable\b[^;]*\bf16\b", re.MULTILINE)
_ALLOWED_HERE = re.compile(r"//\s*wgsl-allow:\s*([\w\-, ]+)")


@dataclass(frozen=True)
class Finding:
    """What a rule or a compiler found: where in which file, and the source lines around."""

    rule: str
    file: str
    line: int
    message: str
    excerpt: str
    by: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: [{self.rule}] {self.message} ({self.by})\n{self.excerpt}"


class Findings(list[Finding]):
    """Empty if there is nothing to say, so that ``assert not check_wgsl(path)`` reads well and shows everything.

    ``skipped`` says which reader was not asked, and why.
    """

    skipped: dict[str, str]

    def __repr__(self) -> str:
        return "\n" + "\n".join(map(str, self)) if self else "[]"


def check_wgsl(
    source: str | Path,
    *,
    allow: Iterable[str] = (),
    overrides: Mapping[str, Number] | None = None,
    prelude: str = "",
    aliases: Mapping[str, str] | None = None,
    libraries: Iterable[str | Path] = (),
    folder: Path | None = None,
    adapter: Adapter | str | None = None,
    example: Arguments | Mapping[str, Any] | None = None,
) -> Findings:
    """Show a shader to naga, to Tint if ``wgpudawn`` is installed, and to the rules of ``lint.RULES``.

    ``source``, ``overrides``, ``prelude``, ``aliases``, ``libraries``, ``folder`` and ``adapter`` are as in
    ``run_wgsl``. ``allow`` leaves out rules; so does a comment ``// wgsl-allow: rule`` for its own line and the next.
    ``example``: arguments of ``run_wgsl`` with which ``wgsl_reflect`` looks for races, where node and the package are
    there. Returns what was found, with file, line and source lines.
    """
    allowed = set(names_of(allow))
    unknown = allowed - RULES.keys()
    if unknown:
        raise ValueError(f"allow: no rule {', '.join(sorted(unknown))}; there are {', '.join(RULES)}")
    shader = load(source, prelude=prelude, aliases=aliases, libraries=libraries, folder=folder)
    values = dict(overrides or {})
    found = Findings()
    found.skipped = {}
    told: list[tuple[str, int, str, str]] = []  # rule, line of the whole text, message, by whom
    chosen = runner_for(adapter).adapter
    if compilers.tint_is_missing():
        found.skipped["tint"] = compilers.tint_is_missing()
    complaints = compilers.naga_text(shader, chosen)
    lacks_f16 = "shader-f16" not in chosen.features and _ENABLES_F16.search(shader.text.whole) is not None
    if complaints and not lacks_f16:  # the rules are for texts that mean something
        complaints += compilers.tint(shader, [], values)
    else:
        try:
            _check_overrides(shader, values)
            entries = shader.module.entries
            if not complaints:
                complaints = compilers.naga(shader, entries, values, chosen)
            complaints += compilers.tint(shader, entries, values)
            faults = lint(shader.module, values)
            told += [(fault.rule, shader.module.line(fault.start), fault.message, "rules") for fault in faults]
            told += _races(shader, values, example, found)
        except SyntaxFault as fault:
            told.append(("syntax", shader.module.line(fault.start), str(fault), "parser"))
    told += [("syntax", one.line, one.message, one.compiler) for one in complaints]
    for rule, line, message, by in told:
        if rule not in allowed | _allowed_at(shader, line):
            file, own = shader.text.place(line)
            found.append(Finding(rule, file, own, message, shader.text.excerpt(line) if line else "", by))
    found.sort(key=lambda finding: (finding.file, finding.line))
    return found


def _check_overrides(shader: Source, values: Mapping[str, Number]) -> None:
    unknown = [name for name in values if name not in shader.module.overrides]
    if unknown:
        known = ", ".join(shader.module.overrides) or "none"
        raise ShaderError(shader.label, f"no override {', '.join(unknown)}; there are {known}")


def _allowed_at(shader: Source, line: int) -> set[str]:
    lines = shader.text.whole.splitlines()
    near = "\n".join(lines[max(line - 2, 0) : line])
    return {name.strip() for names in _ALLOWED_HERE.findall(near) for name in names.split(",")}


def _races(
    shader: Source, overrides: dict[str, Number], example: Mapping[str, Any] | None, found: Findings
) -> list[tuple[str, int, str, str]]:
    if example is None:
        return []
    if not compilers.reflect_library():
        found.skipped["wgsl_reflect"] = "node or the npm package wgsl_reflect is not installed"
        return []
    wrong = [name for name in example if name not in Arguments.__annotations__]
    if wrong:
        raise TypeError(f"example: run_wgsl takes no {', '.join(wrong)} here")
    arguments: Any = {"overrides": overrides, **example}
    dispatch = prepare(shader, **arguments)
    try:
        complaints = list(detect_races(dispatch))
    except ShaderError as error:
        found.skipped["wgsl_reflect"] = error.message
        return []
    return [("race", one.line, one.message, one.compiler) for one in complaints]


def detect_races(dispatch: Dispatch) -> list[compilers.Complaint]:
    """Unordered accesses of invocations in one workgroup of a dispatch."""
    buffers = [(one.group, one.number, one.is_uniform, dispatch.content_of(one.name)) for one in dispatch.bindings]
    x, y, z = dispatch.groups
    grid = (min(x, 2), min(y, 2), min(z, 2))
    return list(compilers.races(dispatch.source, dispatch.entry, grid, buffers, dispatch.overrides))
