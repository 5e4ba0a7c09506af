"""The pytest plugin: fixture ``run_wgsl``, options ``--wgsl-*``, markers, and what is checked after each test.

pytest loads it by its entry point. wgpu is imported when a fixture is used, or to name the adapter in the header of a
run that has such tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..adapter import Adapter
    from .watch import Watch

ADAPTER_FIXTURE = "wgsl_adapter"
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wgsl", "tests of compute shaders (shadertape)")
    group.addoption(
        "--wgsl-adapter",
        metavar="NAME",
        action="append",
        help="adapter of the tests: hardware, software, a piece of a name, or all; given several times, several",
    )
    group.addoption("--wgsl-sanitize", choices=("on", "off"), help="run each dispatch again and compare; on by default")
    group.addoption(
        "--wgsl-require-adapter",
        action="store_true",
        default=None,
        help="without an adapter tests fail, instead of being skipped; on where CI is set",
    )
    group.addoption(
        "--wgsl-bench",
        action="store_true",
        default=None,
        help="measure the GPU time of the first run_wgsl of each test with pytest-benchmark",
    )
    parser.addini("wgsl_adapter", "like --wgsl-adapter, one a line", type="linelist", default=[])
    parser.addini("wgsl_sanitize", "like --wgsl-sanitize", type="bool", default=True)
    parser.addini("wgsl_require_adapter", "like --wgsl-require-adapter", type="bool", default=False)
    parser.addini("wgsl_bench", "like --wgsl-bench", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "wgsl(sanitize=True, allow=(), leaks=True, errors=True): how run_wgsl checks this test",
        "requires_feature(name): skipped where the adapter lacks a WebGPU feature, as shader-f16",
        "software_only: skipped on hardware adapters",
        "hardware_only: skipped on software adapters",
    ):
        config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if ADAPTER_FIXTURE not in metafunc.fixturenames:
        return
    wanted = _wanted(metafunc.config)
    if wanted == ["all"]:
        from ..adapter import adapters

        found: list[Any] = list(adapters())
        ids = _ids([adapter.name for adapter in found])
    elif len(wanted) > 1:
        found, ids = list(wanted), _ids(wanted)
    else:
        return
    metafunc.parametrize(ADAPTER_FIXTURE, found, ids=ids, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _flag(config, "bench"):
        for item in items:
            if "run_wgsl" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.benchmark(timer=gpu_clock))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    if not any(ADAPTER_FIXTURE in getattr(item, "fixturenames", ()) for item in items):
        return []
    return _describe(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist: what a worker says about its adapter."""
    for line in getattr(node, "workeroutput", {}).get("wgsl", []):
        if line not in _told_by_workers:
            _told_by_workers.append(line)


_told_by_workers: list[str] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None and any(ADAPTER_FIXTURE in getattr(item, "fixturenames", ()) for item in session.items):
        output["wgsl"] = _describe(session.config)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    adapter = getattr(item, "funcargs", {}).get(ADAPTER_FIXTURE)
    if adapter is not None:
        _skip_unless_fitting(item, adapter)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in _told_by_workers:
        terminalreporter.write_line(line)
    _told_by_workers.clear()


@pytest.fixture(scope="session")
def wgsl_adapter(request: pytest.FixtureRequest) -> Adapter:
    """The adapter that shaders are tested on."""
    from ..errors import DeviceError
    from .runner import runner_for

    try:
        return runner_for(getattr(request, "param", None) or _wanted(request.config)[0]).adapter
    except DeviceError as error:
        is_named = bool(request.config.getoption("--wgsl-adapter"))
        is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
        if is_named or is_ci or _flag(request.config, "require_adapter"):
            raise pytest.fail.Exception(f"an adapter is required: {error}", pytrace=False) from None
        raise pytest.skip.Exception(str(error)) from None


@pytest.fixture
def run_wgsl(request: pytest.FixtureRequest, wgsl_adapter: Adapter) -> Iterator[Callable[..., Any]]:
    """``gpu_backend.testing.run_wgsl`` on the adapter of this run; paths are looked for beside the test first."""
    from . import run
    from .watch import Watch

    node = request.node
    marked = node.get_closest_marker("wgsl")
    settings: dict[str, Any] = dict(marked.kwargs) if marked else {}
    wrong = [f"no {name}" for name in sorted(settings.keys() - {"sanitize", "allow", "leaks", "errors"})]
    if marked and marked.args:
        wrong.append(f"{marked.args} needs a name")
    if wrong:
        pytest.fail(f"marker wgsl: {', '.join(wrong)}; there are sanitize, allow, leaks, errors", pytrace=False)
    sanitize = settings.get("sanitize", _sanitizes(request.config))
    watch: Watch = Watch(wgsl_adapter)
    is_measured = _flag(request.config, "bench")

    def call(source: Any, **arguments: Any) -> Any:
        nonlocal is_measured
        chosen = {
            "adapter": wgsl_adapter,
            "folder": node.path.parent,
            "sanitize": sanitize,
            "allow": settings.get("allow", ()),
            **arguments,
        }
        result = run.run_wgsl(source, **chosen)
        if is_measured:
            is_measured = False
            _measure(request.getfixturevalue("benchmark"), source, chosen)
        return result

    yield call
    failed = node.stash.get(_FAILED, False)  # its traceback keeps buffers alive
    watch.finish(leaks=settings.get("leaks", True) and not failed, errors=settings.get("errors", True))


def _measure(benchmark: Any, source: Any, chosen: dict[str, Any]) -> None:
    """Give pytest-benchmark the GPU time of repeated dispatches: its clock is ``gpu_clock``."""
    from . import run

    arguments = {name: value for name, value in chosen.items() if name not in ("sanitize", "allow")}
    with run.prepare(source, **arguments).repeated() as again:
        benchmark.extra_info["clock"] = "wall" if again() is None else "gpu"
        benchmark.pedantic(again, rounds=50, warmup_rounds=5)


def gpu_clock() -> float:
    """Seconds that dispatches of tests have spent on GPUs; of the wall, where an adapter has no timestamps."""
    from .runner import gpu_clock as clock

    return clock()


def _skip_unless_fitting(node: pytest.Item, adapter: Adapter) -> None:
    from .runner import runner_for

    for marker in node.iter_markers("requires_feature"):
        missing = [name for name in marker.args if name not in runner_for(adapter).features]
        if missing:
            pytest.skip(f"{adapter.name} has no {', '.join(missing)}")
    for kind in ("software", "hardware"):
        if node.get_closest_marker(f"{kind}_only") and adapter.kind != kind:
            pytest.skip(f"{adapter.name} is {adapter.kind}, the test is for {kind}")


def _wanted(config: pytest.Config) -> list[str]:
    """The requests for adapters, at least one; GPU_BACKEND_DEVICE where neither option nor ini says."""
    from ..device import requested

    default = "" if requested() == "host" else requested()
    wanted = list(config.getoption("--wgsl-adapter") or config.getini("wgsl_adapter") or [default])
    return ["all"] if "all" in wanted else wanted


def _flag(config: pytest.Config, name: str) -> bool:
    given = config.getoption(f"--wgsl-{name.replace('_', '-')}")
    return bool(config.getini(f"wgsl_{name}") if given is None else given)


def _sanitizes(config: pytest.Config) -> bool:
    given = config.getoption("--wgsl-sanitize")
    return bool(config.getini("wgsl_sanitize")) if given is None else given == "on"


def _ids(names: list[str]) -> list[str]:
    """Names as they can stand in the id of a test, each once."""
    slugs = [re.sub(r"\W+", "-", re.sub(r"\(.*?\)", "", name)).strip("-").lower() for name in names]
    return [slug if slugs.count(slug) == 1 else f"{slug}-{number}" for number, slug in enumerate(slugs)]


def _describe(config: pytest.Config) -> list[str]:
    """A line for each adapter of this run, with its limits."""
    from ..adapter import PORTABLE_LIMITS, adapters, choose
    from ..errors import DeviceError

    wanted = _wanted(config)
    try:
        chosen = adapters() if wanted == ["all"] else [choose(name) for name in wanted]
    except DeviceError as error:
        return [f"wgsl: {error}"]
    found = [adapter for adapter in chosen if adapter is not None]
    if not found:
        return ["wgsl: no adapter"]
    limits = {name: PORTABLE_LIMITS[name] for name in PORTABLE_LIMITS if "workgroup-s" in name or "invocations" in name}
    told = ", ".join(f"{name.removeprefix('max-compute-')} {value}" for name, value in limits.items())
    lines = [
        f"wgsl: {adapter.summary}; features: {', '.join(sorted(_FEATURES & adapter.features)) or 'none'}"
        for adapter in found
    ]
    return [*lines, f"wgsl: limits {told}; sanitizer {'on' if _sanitizes(config) else 'off'}"]


_FEATURES = frozenset(("shader-f16", "timestamp-query", "subgroup"))
