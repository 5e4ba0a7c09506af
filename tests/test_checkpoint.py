"""Checkpoints: whole or not there, and clear about what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import autodiff as ad
from autodiff import CheckpointError, checkpoint, nn
from gpu_backend import Device


def test_a_model_goes_to_disk_and_back(tmp_path: Path, device: Device) -> None:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    checkpoint.save(tmp_path / "model.safetensors", model.state_dict())
    ad.manual_seed(1)
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    other.load_state_dict(checkpoint.load(tmp_path / "model.safetensors"))
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, {"w": np.ones(100, np.float32)})
    content = path.read_bytes()
    for length in (0, 4, 40, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"model.safetensors is no safetensors file, or is cut short"):
            checkpoint.load(path)


def test_a_foreign_file_is_named(tmp_path: Path, host: Device) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(b"PK\x03\x04 something else entirely, long enough to look like a header")
    with pytest.raises(CheckpointError, match="foreign is no safetensors file"):
        checkpoint.load(path)
    path.write_bytes(safetensors.numpy.save({"encoder.weight": np.ones(3, np.float32)}))
    with pytest.raises(CheckpointError, match=r"does not fit Linear: missing weight; missing bias; unexpected encoder"):
        nn.Linear(2, 2, device=host).load_state_dict(checkpoint.load(path))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, {"w": np.ones(3, np.float32)})

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(path, {"w": np.zeros(3, np.float32)})
    assert (checkpoint.load(path)["w"] == 1).all()
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_elements_that_numpy_does_not_have_are_named(tmp_path: Path) -> None:
    header = b'{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    path = tmp_path / "half.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(CheckpointError, match=r"half.safetensors holds elements of type 'BF16'"):
        checkpoint.load(path)
