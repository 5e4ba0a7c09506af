"""DataLoader: numpy arrays, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class DataLoader:
    """Batches of arrays that have one row per example. Each pass over it is one epoch.

    ``shuffle``: a new order each epoch, from ``seed`` alone, so a run can be repeated. The last batch may be short.
    """

    def __init__(self, *arrays: np.ndarray[Any, Any], batch_size: int, shuffle: bool = False, seed: int = 0) -> None:
        if not arrays or any(len(x) != len(arrays[0]) for x in arrays):
            raise ValueError(f"DataLoader: arrays of equal length, not {[len(x) for x in arrays]}")
        if batch_size < 1:
            raise ValueError(f"DataLoader: the batch size is a positive number, not {batch_size}")
        self.arrays = arrays
        self.batch_size = batch_size
        self.shuffle = shuffle
        self._random = np.random.Generator(np.random.Philox(seed))

    def __len__(self) -> int:
        """The number of batches."""
        return -(-len(self.arrays[0]) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        count = len(self.arrays[0])
        order = self._random.permutation(count) if self.shuffle else np.arange(count)
        for start in range(0, count, self.batch_size):
            rows = order[start : start + self.batch_size]
            yield tuple(x[rows] for x in self.arrays)
