"""The programs in README and docs run, their commands exist, the package ships what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import wgsl
from gpu_backend.adapter import Adapter

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    pytest.param(program, id=f"{page.name}-{number}")
    for page in PAGES
    # Those that are marked as files of a folder, or stand in a list, belong to a test of their page.
    for number, program in enumerate(
        re.findall(r"(?<!-->\n)^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_in_the_documentation_run(program: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_commands_in_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^    make (\w+)", text, re.MULTILINE))
    assert targets == {"train", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    for command in set(re.findall(r"shadertape (train|setup|info|check)", text)):
        program = "from autodiff.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", program, command, "--help"], capture_output=True, check=False)
        assert done.returncode == 0
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_wheel_holds_the_shaders_and_works_without_the_checkout(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(ROOT)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {f"wgsl/{name}.wgsl" for name in wgsl.names()} <= files
    assert {f"{package}/py.typed" for package in ("wgsl", "gpu_backend", "autodiff")} <= files
    program = (
        "import sys; sys.path.insert(0, 'site')\n"
        "import gpu_backend as gb, autodiff as ad, wgsl\n"
        "assert all('site' in module.__file__ for module in (gb, ad, wgsl))\n"
        "x = ad.tensor([2.0], requires_grad=True)\n"
        "(x.tanh() * x).sum().backward()\n"
        "print(x.grad.item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1.10533, abs=1e-4)


FILE_BLOCK = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def wheel_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment that has the built wheel, and sees this one's packages for what that needs."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")})
    subprocess.run([*pip, "install", "--no-deps", "--target", site, str(wheel)], check=True)
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Path(sysconfig.get_path("scripts", "venv", {"base": str(folder / "venv")})) / "python"


def test_the_example_of_the_docs_passes_with_the_installed_wheel(
    wheel_environment: Path, tmp_path: Path, wgsl_adapter: Adapter
) -> None:
    """docs/testing-shaders.md, from an empty folder: the files it names, and the fault it speaks of."""
    page = (ROOT / "docs" / "testing-shaders.md").read_text()
    files = dict(FILE_BLOCK.findall(page))
    assert {"double.wgsl", "test_double.py"} <= files.keys()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in ("double.wgsl", "test_double.py"):
        (tmp_path / name).write_text(files[name])
    hypothesis = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@given" in block)
    (tmp_path / "test_any_size.py").write_text(hypothesis)

    def pytest_there() -> subprocess.CompletedProcess[str]:
        command = [str(wheel_environment), "-m", "pytest", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, f"--wgsl-adapter={wgsl_adapter.name}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = pytest_there()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    where = [str(wheel_environment), "-c", "import gpu_backend; print(gpu_backend.__file__)"]
    assert "venv" in subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "double.wgsl").write_text(files["double.wgsl"].replace(">=", ">"))
    told = re.search(r"^    (\[past_end\].*)$", page, re.MULTILINE)
    assert told is not None
    assert told[1] in pytest_there().stdout


def test_the_shader_tests_of_the_examples_pass(pytester: pytest.Pytester, wgsl_adapter: Adapter) -> None:
    folder = pytester.copy_example(str(ROOT / "examples" / "shader_tests"))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--wgsl-adapter={wgsl_adapter.name}", str(folder))
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] >= 20


def test_the_workflows_are_yaml_that_runs_what_exists() -> None:
    """No YAML reader is installed, so by its lines: every command is one that a user has."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    commands = re.findall(r"- run: (.+)", text)
    assert ".ci/run" in commands
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    assert "shadertape info" in commands
    assert "\t" not in text


def test_a_run_in_which_every_adapter_test_was_skipped_fails() -> None:
    """Two adapter tests of this suite, in a process that finds no driver."""
    nowhere = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json", "GPU_BACKEND_DEVICE": ""}
    if not sys.platform.startswith("linux"):
        pytest.skip("only the Vulkan loader can be told to find nothing")
    import os

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_tiny.py"],
        cwd=ROOT,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "6 passed, 6 skipped" in done.stdout
    assert "every adapter test was skipped" in done.stdout
    assert done.returncode == 1
