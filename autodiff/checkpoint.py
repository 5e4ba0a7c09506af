"""Models on disk, as safetensors. A file is either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from .errors import CheckpointError
from .tensor import Tensor


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a ``state_dict`` to a safetensors file, replacing it in one move."""
    arrays = {name: np.asarray(x.numpy() if isinstance(x, Tensor) else x) for name, x in state.items()}
    write_whole(path, safetensors.numpy.save(arrays))


def load(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a safetensors file, for ``load_state_dict``.

    CheckpointError if it is damaged, is no safetensors file, or holds element types that numpy does not have;
    FileNotFoundError if there is none.
    """
    content = Path(path).read_bytes()
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = safetensors.numpy.load(content)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is no safetensors file, or is cut short: {error}") from error
    except KeyError as error:
        raise CheckpointError(f"{path} holds elements of type {error}, which numpy does not have") from error
    return arrays


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file beside its place and move it there, so that no reader and no interruption sees half of it."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
