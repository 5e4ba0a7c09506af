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


def read(name: str) -> str:
    """The text of a shader: ``read("matmul")``, ``read("lib/index")``. FileNotFoundError names what there is."""
    path = _ROOT / f"{name}.wgsl"
    if not path.is_file():
        raise FileNotFoundError(f"no shader {name!r}; there are {', '.join(names())}")
    return path.read_text(encoding="utf-8")


def names() -> list[str]:
    """Every shader's name, the library files included."""
    return sorted(path.relative_to(_ROOT).with_suffix("").as_posix() for path in _ROOT.rglob("*.wgsl"))
