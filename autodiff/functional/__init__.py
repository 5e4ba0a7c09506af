"""Every differentiable function: primitives in one line, composites in full; a family of ops has a file of its name.

Functions of several operands take tensors, Python numbers and numpy arrays, and bring them to a common element type.
``@method`` makes a function a method of Tensor too, ``@accepts_dim`` lets it take PyTorch's ``dim`` for ``axis``.
"""

from __future__ import annotations

import gpu_backend.namespace
from gpu_backend.namespace import *  # noqa: F403
from gpu_backend.namespace import __array_api_version__ as __array_api_version__
from gpu_backend.namespace import __array_namespace_info__ as __array_namespace_info__
from gpu_backend.spec import bool_ as bool_
from gpu_backend.spec import float16 as float16
from gpu_backend.spec import float32 as float32
from gpu_backend.spec import int32 as int32
from gpu_backend.spec import uint32 as uint32

from .activation import *  # noqa: F403
from .argument import *  # noqa: F403
from .batch_normalization import *  # noqa: F403
from .binary import *  # noqa: F403
from .cast import *  # noqa: F403
from .choice import *  # noqa: F403
from .convolution import *  # noqa: F403
from .creation import *  # noqa: F403
from .layer_normalization import *  # noqa: F403
from .linear_algebra import *  # noqa: F403
from .logic import *  # noqa: F403
from .loss import *  # noqa: F403
from .movement import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .random import *  # noqa: F403
from .reduction import *  # noqa: F403
from .resampling import *  # noqa: F403
from .scan import *  # noqa: F403
from .sequence import *  # noqa: F403
from .statistics import *  # noqa: F403
from .unary import *  # noqa: F403

bool = bool_  # the array API's name


def __getattr__(name: str) -> object:
    raise gpu_backend.namespace.missing(__name__, name)
