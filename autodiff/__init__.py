"""Automatic differentiation on gpu_backend: tensors, modules, optimizers, training.

import autodiff as ad

x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
(x * x).sum().backward()
x.grad.numpy()
"""

from __future__ import annotations

from gpu_backend import memory as memory
from gpu_backend.device import default_device as default_device
from gpu_backend.device import device as device
from gpu_backend.device import reset_device as reset_device
from gpu_backend.device import set_default_device as set_default_device
from gpu_backend.errors import CaptureError as CaptureError
from gpu_backend.errors import DivergenceError as DivergenceError

from . import checkpoint as checkpoint
from . import data as data
from . import functional as functional
from . import nn as nn
from . import optim as optim
from . import random as random
from .compiled import CaptureWarning as CaptureWarning
from .compiled import Compiled as Compiled
from .compiled import compiled as compiled
from .errors import CheckpointError as CheckpointError
from .errors import GradientError as GradientError
from .explain import CompiledStats as CompiledStats
from .gradients import gradient_check as gradient_check
from .gradients import release_gradients as release_gradients
from .random import manual_seed as manual_seed
from .tape import is_grad_enabled as is_grad_enabled
from .tape import no_grad as no_grad
from .tensor import Tensor as Tensor
from .tensor import tensor as tensor
