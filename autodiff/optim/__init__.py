"""Optimizers: what moves parameters along their gradients."""

from __future__ import annotations

from .adamw import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD
