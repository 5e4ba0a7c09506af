"""Imports go down only: the floors of the house, read from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Lowest first. A module may import from its own floor or from below; a package stands for all inside it.
FLOORS = [
    ["wgsl"],
    ["gpu_backend.errors", "gpu_backend.spec"],
    ["gpu_backend.operators", "gpu_backend.composite", "gpu_backend.contraction"],
    ["gpu_backend.syntax"],
    [
        "gpu_backend.adapter",
        "gpu_backend.observe",
        "gpu_backend.encoding",
        "gpu_backend.health",
        "gpu_backend.submission",
        "gpu_backend.storage",
        "gpu_backend.shader",
    ],
    ["gpu_backend.buffer_pool"],
    ["gpu_backend.pipeline"],
    ["gpu_backend.capture"],
    ["gpu_backend.recorder"],
    ["gpu_backend.dispatch"],
    ["gpu_backend.device"],
    ["gpu_backend.array", "gpu_backend.install"],
    [
        "gpu_backend.cast",
        "gpu_backend.check_mode",
        "gpu_backend.fallback_table",
        "gpu_backend.host_call",
        "gpu_backend.plan",
    ],
    ["gpu_backend.op"],
    ["gpu_backend.ops"],
    ["gpu_backend.memory", "gpu_backend.profiler", "gpu_backend.namespace"],
    ["gpu_backend.testing", "gpu_backend.op_table", "gpu_backend.register"],
    ["gpu_backend"],
    # The gradient line: below it no Tensor, no tape.
    ["autodiff.errors", "autodiff.freeze"],
    ["autodiff.trace"],
    ["autodiff.tape"],
    ["autodiff.in_place", "autodiff.indexing"],
    ["autodiff.tensor"],
    ["autodiff.random"],
    ["autodiff.functional"],
    ["autodiff.gradients", "autodiff.nn", "autodiff.data"],
    ["autodiff.optim"],
    ["autodiff.signature", "autodiff.surroundings"],
    ["autodiff.call", "autodiff.replay"],
    ["autodiff.explain", "autodiff.verify"],
    ["autodiff.compiled"],
    ["autodiff.checkpoint"],
    ["autodiff.trainer"],
    ["autodiff.recipes"],
    ["autodiff"],
    ["autodiff.cli"],
]
IMPORTS_WGPU = {
    f"gpu_backend.{room}"
    for room in (
        *("adapter", "device", "dispatch", "encoding", "health", "pipeline", "profiler", "submission"),
        *("testing.compilers", "testing.runner", "testing.watch"),
    )
}

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("wgsl", "gpu_backend", "autodiff")
    for path in (ROOT / package).rglob("*.py")
}


def floor_of(module: str) -> int:
    """The floor of a module: that of the longest name in the list which it is or lies in."""
    matches = [
        (len(name), height)
        for height, names in enumerate(FLOORS)
        for name in names
        if module == name or (module.startswith(name + ".") and name not in ("gpu_backend", "autodiff"))
    ]
    assert matches, f"{module} is on no floor"
    return max(matches)[1]


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below ``node``, those under ``if TYPE_CHECKING`` left out."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield child
            yield from _runtime_nodes(child)


def imports(module: str) -> set[str]:
    """Modules of this project, and wgpu, that ``module`` imports anywhere in its text."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in _runtime_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{name}.{alias.name}"
                found.add(inner if inner in MODULES else name)
    return {name for name in found if name.split(".")[0] in ("wgsl", "gpu_backend", "autodiff", "wgpu")}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_down(module: str) -> None:
    for target in imports(module):
        if target.startswith("wgpu"):
            assert module in IMPORTS_WGPU, f"{module} imports wgpu"
        elif module not in ("gpu_backend", "autodiff"):
            assert floor_of(target) <= floor_of(module), f"{module} imports {target}, which is above it"


def test_the_gradient_line() -> None:
    """gpu_backend never names autodiff; autodiff never names wgpu."""
    for module in MODULES:
        names = {name.split(".")[0] for name in imports(module)}
        if module.startswith("gpu_backend"):
            assert "autodiff" not in names
        if module.startswith("autodiff"):
            assert "wgpu" not in names


def test_files_stay_small() -> None:
    """Python files of at most 400 lines, WGSL files of at most 200."""
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= 400, path
    for path in (ROOT / "wgsl").rglob("*.wgsl"):
        assert len(path.read_text().splitlines()) <= 200, path
