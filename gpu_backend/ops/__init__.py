"""The catalogue of ops. Each is called with arrays and gives an array; gradients are autodiff's business.

A family is a module whose ``__all__`` names its ops: to name one there is to enter it in ``OPS``.
"""

from __future__ import annotations

from ..op import Op
from . import (
    elementwise,
    layer_normalization,
    linear_algebra,
    loss,
    movement,
    normalization,
    random,
    reduction,
    sequence,
)
from .elementwise import *  # noqa: F403
from .layer_normalization import *  # noqa: F403
from .linear_algebra import *  # noqa: F403
from .loss import *  # noqa: F403
from .movement import *  # noqa: F403
from .normalization import *  # noqa: F403
from .random import *  # noqa: F403
from .reduction import *  # noqa: F403
from .sequence import *  # noqa: F403

FAMILIES = (
    elementwise,
    reduction,
    movement,
    linear_algebra,
    normalization,
    loss,
    random,
    layer_normalization,
    sequence,
)

OPS: tuple[Op, ...] = tuple(
    op for family in FAMILIES for name in family.__all__ if isinstance(op := getattr(family, name), Op)
)
