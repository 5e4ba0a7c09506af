"""Check mode, ``shadertape check``, and ops from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff as ad
import gpu_backend as gb
import wgsl
from autodiff import nn, optim
from autodiff.functional import cross_entropy
from gpu_backend import DivergenceError, ops
from gpu_backend.device import GPUDevice
from gpu_backend.op_table import TABLE, Row
from gpu_backend.op_table.run import evaluate, run_row
from gpu_backend.op_table.sample import Sample

ROOT = Path(__file__).parent.parent
X = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.op.name)
def test_the_catalogue_passes(row: Row, gpu: GPUDevice) -> None:
    """No false alarm: every op on two of its samples, with gradients."""
    with gb.check_mode() as mode:
        before = mode.checked
        for sample in row.samples[1:3]:
            evaluate(row.op, gpu, sample)
        assert mode.checked > before or row.op.is_view


def test_a_wrong_kernel_is_found(gpu: GPUDevice) -> None:
    wrong = replace(ops.exp, forward=ops.exp2.forward)
    x = gb.array(X)
    wrong(x)
    with (
        gb.check_mode(),
        pytest.raises(
            DivergenceError,
            match=r"exp\.forward: 14 of 15 .* first at \(0, 0\): 0\.25 where the twin has 0\.135335.*\(3, 5\)",
        ),
    ):
        wrong(x)
    wrong = replace(ops.exp, backward=ops.tanh.backward)
    _, saved = wrong.run([x], {})
    with gb.check_mode(), pytest.raises(DivergenceError, match=r"exp\.backward: \d+ of 15 elements"):
        wrong.run_backward(x, saved, [True])


def test_one_wrong_element_is_found(gpu: GPUDevice) -> None:
    """The first that differs is named, and what is right to rounding is not."""

    def forward(out: Any, x: Any) -> Any:
        y, saved = ops.square.run([x], {})
        made = y.numpy()
        made[1, 3] += 0.01
        return gb.array(made), saved

    wrong = replace(ops.square, forward=forward)
    with gb.check_mode(), pytest.raises(DivergenceError, match=r"square\.forward: 1 of 15 .* first at \(1, 3\)"):
        wrong(gb.array(X))


def test_sums_that_cancel_are_no_divergence(gpu: GPUDevice) -> None:
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    x[-1] = -x[:-1].sum(dtype=np.float64)
    with gb.check_mode():
        gb.sum(gb.array(x))
        gb.subtract(gb.array(x), gb.array(x * np.float32(1 + 1e-7)))


def test_a_program_runs_in_check_mode(gpu: GPUDevice) -> None:
    """Training gives the same, and a compiled step runs op by op meanwhile."""
    losses = []
    for is_checked in (False, True):
        ad.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @ad.compiled
        def step(x: ad.Tensor, t: ad.Tensor, model: Any = model, optimizer: Any = optimizer) -> ad.Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss

        with gb.check_mode(is_checked) as mode:
            before = mode.checked
            losses.append([float(step(ad.tensor(X), ad.tensor([0, 1, 2]))) for _ in range(3)])
            assert (mode.checked > before) == is_checked
        assert step.stats().captures == (0 if is_checked else 1)
    assert losses[0] == losses[1]


def run(*command: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_the_environment_turns_it_on(adapter: GPUDevice) -> None:
    program = (
        "import gpu_backend as gb; from gpu_backend.check_mode import checking\n"
        "gb.exp(gb.array([1.0])); print(checking.is_on, checking.checked)"
    )
    assert run("-c", program, GPU_BACKEND_CHECK="1").stdout.split() == ["True", "1"]
    assert run("-c", program, GPU_BACKEND_CHECK="0").stdout.split() == ["False", "0"]


COMMAND = ("-c", "from autodiff.cli import main; main()", "check")


def test_the_command(adapter: GPUDevice, tmp_path: Path) -> None:
    """A table for each adapter; status 1 if an op fails, or there is none of that name."""
    done = run(*COMMAND, "--op", "add", "--op", "softmax")
    assert done.returncode == 0, done.stderr
    assert adapter.summary in done.stdout
    assert re.search(r"binary +1/1 +\d+/\d+ ", done.stdout)
    assert re.search(r"all +2/2 ", done.stdout)
    assert "lacks: " in done.stdout
    assert run(*COMMAND, "--op", "ad").returncode == 1
    (tmp_path / "broken.py").write_text(
        "from dataclasses import replace\nimport numpy as np\nimport gpu_backend as gb\n"
        "from gpu_backend.op_table import Row, Sample\n"
        "op = replace(gb.exp, name='wrong_exp', forward=gb.exp2.forward)\n"
        "gb.register(op, Row(op, (Sample('some', (np.ones(3, np.float32),)),)))\n"
    )
    done = run(*COMMAND, "--import", "broken", "--op", "wrong_exp", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 1
    assert re.search(r"registered +0/1 +0/1 ", done.stdout)
    assert "FAILED wrong_exp some: Not equal to tolerance" in done.stdout
    done = run(*COMMAND, "--import", "no_such_module")
    assert done.returncode == 1
    assert "cannot import no_such_module" in done.stderr


def test_a_failure_of_one_sample_is_noted(gpu: GPUDevice) -> None:
    wrong = replace(ops.exp, forward=ops.exp2.forward)
    zero = np.zeros(3, np.float32)
    outcome = run_row(Row(wrong, (Sample("one", (X,)), Sample("zero", (zero,)))), gpu)
    assert (outcome.passed, outcome.failed) == (1, 1)
    assert outcome.faults[0].startswith("exp one: Not equal to tolerance")


def test_register_and_add_folder_refuse(tmp_path: Path) -> None:
    row = Row(ops.exp, ())
    with pytest.raises(ValueError, match="the row is of exp, not of log"):
        gb.register(ops.log, row)
    other = replace(ops.exp, forward=None)
    with pytest.raises(ValueError, match="there is an op 'exp' already"):
        gb.register(other, Row(other, ()))
    assert gb.register(ops.exp, row) is ops.exp
    with pytest.raises(NotADirectoryError, match="nowhere is not a folder"):
        wgsl.add_folder("some", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="the name 'lib' is taken"):
        wgsl.add_folder("lib", tmp_path)
    wgsl.add_folder("of_a_test", tmp_path)
    (tmp_path / "here.wgsl").write_text("// nothing\n")
    assert wgsl.read("of_a_test/here") == "// nothing\n"
    with pytest.raises(FileNotFoundError, match="no shader 'of_a_test/there'; there are here"):
        wgsl.read("of_a_test/there")


def test_the_page_on_adding_an_op(adapter: GPUDevice, tmp_path: Path) -> None:
    """Its files, written as it says, run; so does the command that it ends with."""
    page = (ROOT / "docs" / "adding-an-op.md").read_text()
    files = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in files] == ["shaders/swirl.wgsl", "swirl.py", "use.py"]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = run("use.py", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.stdout.strip() == "[5.0, 9.0, 13.0]", done.stderr
    assert done.stdout.strip() in page
    done = run(*COMMAND, "--import", "swirl", "--op", "swirl", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"registered +1/1 +2/2 ", done.stdout)
    program = "import gpu_backend as gb\nwith gb.check_mode(): import use"
    assert run("-c", program, cwd=tmp_path, PYTHONPATH=str(ROOT)).returncode == 0


def test_the_page_adds_one_inside(adapter: GPUDevice, tmp_path: Path) -> None:
    """The four pieces of the first half, put where it says into a copy, make an op."""
    import shutil

    page = (ROOT / "docs" / "adding-an-op.md").read_text()
    inside = page[: page.index("## From outside")]
    pieces = [
        re.sub(r"^   ", "", piece, flags=re.MULTILINE)
        for piece in re.findall(r"   ```\w+\n(.*?)   ```", inside, re.DOTALL)
    ]
    places = re.findall(r"^\d\. `([\w/.]+)`", inside, re.MULTILINE)
    row = re.search(r"`(unary\(ops\.bump\))`", inside)
    assert row is not None
    for package in ("wgsl", "gpu_backend", "autodiff"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for place, piece in zip(places, pieces, strict=False):
        with (tmp_path / place).open("a") as file:
            file.write("\n\n" + piece)
    unary = tmp_path / "gpu_backend" / "ops" / "unary.py"
    unary.write_text(unary.read_text().replace("__all__ = [", '__all__ = [\n    "bump",', 1))
    table = tmp_path / places[3]
    table.write_text(table.read_text().replace("ROWS = (", f"ROWS = (\n    {row[1]},", 1))
    done = run(*COMMAND, "--op", "bump", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"unary +1/1 +8/8 ", done.stdout)
    program = (
        "import autodiff as ad; x = ad.tensor([1.0], requires_grad=True)\n"
        "x.bump().sum().backward(); print(x.grad.item())"
    )
    assert run("-c", program, cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout.strip() == "-0.5"
