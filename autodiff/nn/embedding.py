"""Embedding: a row of a table for each index."""

from __future__ import annotations

from typing import Any

from gpu_backend import Device

from .. import functional, random
from ..tensor import Tensor
from .module import Module, Parameter


class Embedding(Module):
    """Rows of ``weight``, (num_embeddings, embedding_dim), by ids of any shape: (...) to (..., embedding_dim).

    The weight starts standard normal, PyTorch's default, made on the host from ``manual_seed``.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, device: str | Device | None = None) -> None:
        if num_embeddings < 1 or embedding_dim < 1:
            raise ValueError(f"Embedding: sizes are positive numbers, not {num_embeddings} and {embedding_dim}")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Parameter(random.host_normal((num_embeddings, embedding_dim)), device, "weight")

    def forward(self, ids: Any) -> Tensor:
        return functional.embedding(ids, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
