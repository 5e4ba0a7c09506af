"""The compilers that a shader is shown to: naga, by wgpu, and Tint, by the PyPI package ``wgpudawn`` where it is there.

And a third reader, the npm package ``wgsl_reflect``, which runs a workgroup in lockstep and reports races.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..adapter import Adapter
from ..errors import ShaderError
from ..syntax import tree
from ..syntax.module import Number
from .runner import runner_for
from .slot import Memory
from .source import Source

_TINT_PLACE = re.compile(r":(\d+):\d+ (?:error|warning)")
_NODE_PROGRAM = """
import { readFileSync } from "node:fs";
const job = JSON.parse(readFileSync(0, "utf8"));
const { detectRaces } = await import(job.library);
const groups = {};
for (const { group, number, uniform, words } of job.buffers) {
  const memory = new Uint32Array(words).buffer;
  (groups[group] ??= {})[number] = uniform ? { uniform: memory } : memory;
}
const found = detectRaces(job.code, job.entry, job.groups, groups, {});
const races = found.races.map((race) => ({ name: race.bufferId, lines: [race.a.line, race.b.line],
  kinds: [race.a.kind, race.b.kind], invocations: [race.a.invocation, race.b.invocation] }));
console.log(JSON.stringify({ races: races.slice(0, 100), errors: found.errors }));
"""


@dataclass(frozen=True)
class Complaint:
    """What a compiler said: its name, the line of the whole text (0 if it names none), its words."""

    compiler: str
    line: int
    message: str


def naga_text(source: Source, adapter: Adapter) -> list[Complaint]:
    """What naga says to the text as a whole."""
    try:
        runner_for(adapter).module(source)
    except ShaderError as error:
        return [Complaint("naga", marked_line(source, error), _first_sentence(error.message))]
    return []


def naga(source: Source, entries: Sequence[str], overrides: Mapping[str, Number], adapter: Adapter) -> list[Complaint]:
    """What naga and the driver below it say to each entry point."""
    runner = runner_for(adapter)
    found = []
    try:
        for entry in entries:
            runner.program(source, entry, source.module.bindings_of(entry), dict(overrides))
    except ShaderError as error:
        line = marked_line(source, error)
        found.append(Complaint("naga", line, _first_sentence(error.message)))
    return found


def marked_line(source: Source, error: ShaderError) -> int:
    """The line of the whole text that the excerpt of an error marks; 0 without one."""
    place = re.search(r"^> (.*?):(\d+) ", error.excerpt, re.MULTILINE)
    if place is None:
        return 0
    return source.text.origins.index((place[1], int(place[2]))) + 1


@functools.cache
def _tint_device() -> tuple[Any, str]:
    """A device of Dawn, or None and why there is none."""
    try:
        import wgpudawn
    except ImportError:
        return None, "the package wgpudawn is not installed"
    try:
        adapter = wgpudawn.gpu.request_adapter_sync()
        features = [name for name in ("shader-f16", "subgroups") if name in adapter.features]
        return adapter.request_device_sync(required_features=features), ""
    except Exception as error:  # wgpudawn raises plain RuntimeErrors with the text of Dawn
        return None, f"Dawn found no adapter here: {error}"


def tint_is_missing() -> str:
    """Why Tint cannot be asked; empty if it can."""
    return _tint_device()[1]


def tint(source: Source, entries: Sequence[str], overrides: Mapping[str, Number]) -> list[Complaint]:
    """What Tint says to each entry point; nothing where it is not installed."""
    device, _ = _tint_device()
    if device is None:
        return []
    import wgpudawn

    found = []
    try:
        module = device.create_shader_module(code=source.text.whole, label=source.label)
        for entry in entries:
            device.create_compute_pipeline(
                layout="auto",
                compute={"module": module, "entry_point": entry, "constants": source.module.override_keys(overrides)},
            )
    except wgpudawn.GPUError as error:
        place = _TINT_PLACE.search(str(error))
        found.append(Complaint("tint", int(place[1]) if place else 0, _first_sentence(str(error))))
    return found


def _first_sentence(message: str) -> str:
    """What an error says, without the frames around it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and line.lower() != "validation error"]
    return (telling or lines or [message])[0].removeprefix("Error while parsing WGSL: ")


@functools.cache
def reflect_library() -> str:
    """The file of ``wgsl_reflect`` that node can import; empty without node or the package."""
    if shutil.which("node") is None:
        return ""
    folders = [folder / "node_modules" for folder in (Path.cwd(), *Path.cwd().parents)]
    folders += [Path(part) for part in os.environ.get("NODE_PATH", "").split(os.pathsep) if part]
    folders += [Path(prefix) / "lib" / "node_modules" for prefix in ("/usr", "/usr/local")]
    for folder in folders:
        file = folder / "wgsl_reflect" / "wgsl_reflect.module.js"
        if file.is_file():
            return file.as_uri()
    return ""


def races(
    source: Source,
    entry: str,
    groups: tuple[int, int, int],
    buffers: Sequence[tuple[int, int, bool, Memory]],
    overrides: Mapping[str, Number],
) -> Iterator[Complaint]:
    """Unordered accesses of two invocations, by ``wgsl_reflect``; nothing without it.

    ``buffers`` are group, number, whether it is a uniform, and content. ShaderError if the package cannot run the text.
    """
    library = reflect_library()
    if not library:
        return
    job = {
        "library": library,
        "code": _with_constants(source, overrides),
        "entry": entry,
        "groups": list(groups),
        "buffers": [
            {"group": group, "number": number, "uniform": uniform, "words": _words(content)}
            for group, number, uniform, content in buffers
        ],
    }
    done = subprocess.run(
        ["node", "--input-type=module", "-e", _NODE_PROGRAM],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        told = re.search(r"^\w*Error: .*$", done.stderr, re.MULTILINE)
        raise ShaderError(source.label, f"wgsl_reflect could not run {entry}: {told[0] if told else done.returncode}")
    found = json.loads(done.stdout)
    if found["errors"]:
        raise ShaderError(source.label, f"wgsl_reflect could not run {entry}: {found['errors'][0]}")
    seen = set()
    for race in found["races"]:
        key = (race["name"], *sorted(race["lines"]))
        if key not in seen:
            seen.add(key)
            first, second = race["invocations"]
            one, two = race["kinds"]
            message = (
                f"{race['name']}: invocation {first} ({one}) and invocation {second} ({two}, line {race['lines'][1]} "
                "of the whole text) are unordered"
            )
            yield Complaint("wgsl_reflect", int(race["lines"][0]), message)


def _words(content: Memory) -> list[int]:
    return [int(word) for word in np.pad(content, (0, -content.size % 4)).view(np.uint32)]


def _with_constants(source: Source, overrides: Mapping[str, Number]) -> str:
    """The text with overrides as constants, which is what ``wgsl_reflect`` can run."""
    module = source.module
    text = source.text.whole
    for one in sorted(module.overrides.values(), key=lambda node: node.start, reverse=True):
        value = module.evaluate(tree.Name(one.start, one.end, one.name), overrides)
        spelled = str(value).lower() if isinstance(value, bool) else str(value)
        kind = f": {source.text.whole[one.type.start : one.type.end]}" if one.type is not None else ""
        suffix = "u" if kind.endswith("u32") else ""
        text = text[: one.start] + f"const {one.name}{kind} = {spelled}{suffix};" + text[one.end :]
    return text
