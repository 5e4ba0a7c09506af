"""The shaders, as text. A file is one algorithm, its forward and backward entry points together.

Style sheet
-----------
1. Header comment: the formula, the backward formula, what one invocation does; then ``// uses: lib/a, lib/b``.
2. Order: overrides, ``struct Params``, bindings, workgroup memory, entry points, helpers. One declaration a line.
3. Entry points are ``forward``, ``backward`` or ``<part>_<role>``. Group 0 only. At most 8 storage buffers,
   256 invocations and 16,384 bytes of workgroup memory. Two entry points may give one binding number to two names.
4. What changes from call to call stands in ``Params`` (``u32``, ``i32``, ``f32``, ``elem``, ``vec4<u32>`` and arrays of
   that). What is chosen per pipeline is an ``override`` with a default. Element types and the functions of a family
   come in the prelude, a few generated lines in front. There is no fourth place.
5. Storage is bound as ``array<vec4<...>>`` where that helps; element i is ``x[i >> 2u][i & 3u]``. A store never goes
   past the logical size. A store of one component may touch the whole vector, so two invocations never store into
   the same one: where they would, the result is bound as scalars.
6. Sums are made in f32 and in a fixed order: same input, same bits. Barriers stand in uniform control flow only.
7. NaN and infinity are told by their bits (lib/numeric); no signed ``%``; the argument of ``tanh`` is clamped.
8. The workgroup grid is folded into two axes; ``group_index`` of lib/index undoes it.

A library file in ``lib/`` opens by saying what it provides, declares no binding, and is added by plain concatenation.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parent
_folders: dict[str, Path] = {}


def add_folder(name: str, folder: str | Path) -> None:
    """Make the shaders of another project known: after ``add_folder("mine", path)``, ``read("mine/swirl")`` reads
    ``swirl.wgsl`` there. NotADirectoryError if there is no such folder, ValueError if the name is taken by another.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        raise NotADirectoryError(f"add_folder: {folder} is not a folder")
    if not name or "/" in name or (_ROOT / name).is_dir() or _folders.get(name, path) != path:
        raise ValueError(f"add_folder: the name {name!r} is taken, empty, or has a slash in it")
    _folders[name] = path


def read(name: str) -> str:
    """The text of a shader: ``read("matmul")``, ``read("lib/index")``. FileNotFoundError names what there is."""
    first, _, rest = name.partition("/")
    path = _folders[first] / f"{rest}.wgsl" if first in _folders else _ROOT / f"{name}.wgsl"
    if not path.is_file():
        known = [f"{path.stem}" for path in _folders[first].glob("*.wgsl")] if first in _folders else names()
        raise FileNotFoundError(f"no shader {name!r}; there are {', '.join(sorted(known))}")
    return path.read_text(encoding="utf-8")


def names() -> list[str]:
    """The names of all shaders of this project, the library files included."""
    return sorted(path.relative_to(_ROOT).with_suffix("").as_posix() for path in _ROOT.rglob("*.wgsl"))
