"""Optimizers and schedules of their learning rates."""

from __future__ import annotations

from .adam import Adam as Adam
from .adamw import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .schedule import CosineAnnealingLR as CosineAnnealingLR
from .schedule import LambdaLR as LambdaLR
from .schedule import Schedule as Schedule
from .schedule import StepLR as StepLR
from .sgd import SGD as SGD
