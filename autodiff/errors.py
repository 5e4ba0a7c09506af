"""What goes wrong above the gradient line."""

from __future__ import annotations


class GradientError(RuntimeError):
    """A gradient is asked for that does not exist or would be wrong."""


class UsageError(ValueError):
    """What the user asked for makes no sense; the text says why, in a sentence."""


class CheckpointError(ValueError):
    """A checkpoint is damaged, of another kind, or does not fit the model."""
