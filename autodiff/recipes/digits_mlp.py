"""digits-mlp: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, and a perceptron with two hidden layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..nn import Linear, Module, Sequential
from ..trainer import Settings
from .recipe import Examples, Recipe, require, split


def load(data: Path | None) -> tuple[Examples, Examples]:
    """Training examples and a fixed, stratified fifth for validation: (N, 64) in 0 .. 1, class indices (N,)."""
    datasets = require("sklearn.datasets", "scikit-learn", "digits-mlp")
    digits = datasets.load_digits()
    x = (digits.data / 16.0).astype(np.float32)
    target = digits.target.astype(np.int32)
    return split(x, target, "digits-mlp")


def build() -> Module:
    """64 pixels, two hidden layers of 256 and 128 with ReLU, 10 classes."""
    return Sequential(Linear(64, 256, activation="relu"), Linear(256, 128, activation="relu"), Linear(128, 10))


DIGITS_MLP = Recipe(
    "digits-mlp",
    "1,797 handwritten digits, a perceptron with two hidden layers",
    Settings(epochs=30, batch_size=64, lr=2e-3, weight_decay=0.1, seed=0),
    load,
    build,
)
