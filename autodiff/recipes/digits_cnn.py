"""digits-cnn: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, and a convolutional network."""

from __future__ import annotations

from pathlib import Path

from ..nn import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, ReLU, Sequential
from ..trainer import Settings
from . import digits_mlp
from .recipe import Examples, Recipe


def load(data: Path | None) -> tuple[Examples, Examples]:
    """The examples of digits-mlp as images: (N, 1, 8, 8) in 0 .. 1, class indices (N,)."""
    (x_train, t_train), (x_val, t_val) = digits_mlp.load(data)
    return (x_train.reshape(-1, 1, 8, 8), t_train), (x_val.reshape(-1, 1, 8, 8), t_val)


def build() -> Module:
    """Two convolutions with batch norm and ReLU, a pool, a hidden layer of 64, 10 classes."""
    return Sequential(
        Conv2d(1, 16, 3, padding=1, bias=False),
        BatchNorm2d(16),
        ReLU(),
        Conv2d(16, 32, 3, padding=1, bias=False),
        BatchNorm2d(32),
        ReLU(),
        MaxPool2d(2),
        Dropout(0.25),
        Flatten(),
        Linear(32 * 4 * 4, 64, activation="relu"),
        Dropout(0.25),
        Linear(64, 10),
    )


DIGITS_CNN = Recipe(
    "digits-cnn",
    "1,797 handwritten digits, a convolutional network",
    Settings(epochs=15, batch_size=64, lr=2e-3, weight_decay=0.05, seed=0),
    load,
    build,
)
