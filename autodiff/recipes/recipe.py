"""What a training job consists of."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..nn import Module
from ..trainer import Settings

Examples = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class MissingExtraError(RuntimeError):
    """A recipe needs a package that is not installed; the text says which pip command brings it."""


@dataclass(frozen=True)
class Recipe:
    """``load`` gives training and validation examples with their class indices, ``build`` a fresh model."""

    name: str
    description: str
    defaults: Settings
    load: Callable[[], tuple[Examples, Examples]]
    build: Callable[[], Module]


def require(module: str, package: str, purpose: str) -> Any:
    """Import ``module``; MissingExtraError names the pip command if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed: pip install 'shadertape[examples]'"
        ) from error
