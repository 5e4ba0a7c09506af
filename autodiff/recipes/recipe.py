"""What a training job consists of."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..nn import Module
from ..trainer import Settings

Examples = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class MissingExtraError(RuntimeError):
    """A recipe needs a package that is not installed; the text says which pip command brings it."""


@dataclass(frozen=True)
class Recipe:
    """``load`` gives training and validation examples with their class indices, ``build`` a fresh model.

    ``load`` is told the user's folder of data, which only a recipe that ``takes_data`` reads.
    """

    name: str
    description: str
    defaults: Settings
    load: Callable[[Path | None], tuple[Examples, Examples]]
    build: Callable[[], Module]
    takes_data: bool = False


def split(x: np.ndarray[Any, Any], target: np.ndarray[Any, Any], purpose: str) -> tuple[Examples, Examples]:
    """Training examples, and a fixed, stratified fifth for validation."""
    selection = require("sklearn.model_selection", "scikit-learn", purpose)
    x_train, x_val, t_train, t_val = selection.train_test_split(
        x, target, test_size=0.2, stratify=target, random_state=0
    )
    return (x_train, t_train), (x_val, t_val)


def require(module: str, package: str, purpose: str) -> Any:
    """Import ``module``; MissingExtraError names the pip command if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed: pip install 'shadertape[examples]'"
        ) from error
