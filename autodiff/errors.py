"""What goes wrong above the gradient line."""

from __future__ import annotations


class GradientError(RuntimeError):
    """A gradient is asked for that does not exist or would be wrong."""


class CheckpointError(ValueError):
    """A checkpoint is damaged, of another kind, or does not fit the model."""
