"""Every differentiable function: primitives in one line, composites in full; a family of ops has a file of its name.

Functions of several operands take tensors, Python numbers and numpy arrays, and bring them to a common element type.
``@method`` makes a function a method of Tensor too, ``@accepts_dim`` lets it take PyTorch's ``dim`` for ``axis``.
"""

from __future__ import annotations

from .activation import *  # noqa: F403
from .binary import *  # noqa: F403
from .cast import *  # noqa: F403
from .choice import *  # noqa: F403
from .contraction import *  # noqa: F403
from .layer_normalization import *  # noqa: F403
from .linear_algebra import *  # noqa: F403
from .logic import *  # noqa: F403
from .loss import *  # noqa: F403
from .movement import *  # noqa: F403
from .normalization import *  # noqa: F403
from .random import *  # noqa: F403
from .reduction import *  # noqa: F403
from .sequence import *  # noqa: F403
from .unary import *  # noqa: F403
