"""Modules: parts of a model that own parameters."""

from __future__ import annotations

from . import utils as utils
from .activation import GELU as GELU
from .activation import ReLU as ReLU
from .activation import Sigmoid as Sigmoid
from .activation import SiLU as SiLU
from .activation import Tanh as Tanh
from .container import Sequential as Sequential
from .dropout import Dropout as Dropout
from .embedding import Embedding as Embedding
from .layer_norm import LayerNorm as LayerNorm
from .linear import Linear as Linear
from .module import Module as Module
from .module import Parameter as Parameter
