"""The catalogue of ops. Each is called with arrays and gives an array; gradients are autodiff's business.

A family is a module whose ``__all__`` names its ops: to name one there is to enter it in ``OPS``.
"""

from __future__ import annotations

from ..op import Op
from ..operators import catalogue
from . import (
    activation,
    argument,
    batch_normalization,
    binary,
    cast,
    choice,
    convolution,
    indexing,
    joining,
    layer_normalization,
    linear_algebra,
    logic,
    loss,
    movement,
    normalization,
    padding,
    pooling,
    random,
    reduction,
    resampling,
    scan,
    sequence,
    statistics,
    unary,
)
from .activation import *  # noqa: F403
from .argument import *  # noqa: F403
from .batch_normalization import *  # noqa: F403
from .binary import *  # noqa: F403
from .cast import *  # noqa: F403
from .choice import *  # noqa: F403
from .convolution import *  # noqa: F403
from .creation import *  # noqa: F403
from .indexing import *  # noqa: F403
from .joining import *  # noqa: F403
from .layer_normalization import *  # noqa: F403
from .linear_algebra import *  # noqa: F403
from .logic import *  # noqa: F403
from .loss import *  # noqa: F403
from .movement import *  # noqa: F403
from .normalization import *  # noqa: F403
from .padding import *  # noqa: F403
from .pooling import *  # noqa: F403
from .random import *  # noqa: F403
from .reduction import *  # noqa: F403
from .resampling import *  # noqa: F403
from .scan import *  # noqa: F403
from .sequence import *  # noqa: F403
from .statistics import *  # noqa: F403
from .unary import *  # noqa: F403

FAMILIES = (
    unary,
    activation,
    binary,
    logic,
    choice,
    cast,
    reduction,
    scan,
    statistics,
    argument,
    movement,
    indexing,
    joining,
    padding,
    linear_algebra,
    convolution,
    pooling,
    resampling,
    normalization,
    batch_normalization,
    layer_normalization,
    sequence,
    loss,
    random,
)

OPS: tuple[Op, ...] = tuple(
    op for family in FAMILIES for name in family.__all__ if isinstance(op := getattr(family, name), Op)
)

catalogue.update({op.name: op for op in OPS})
catalogue["setitem"] = indexing.assign_region
