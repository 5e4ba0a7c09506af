"""Modules: parts of a model that own parameters."""

from __future__ import annotations

from . import utils as utils
from .activation import ReLU as ReLU
from .activation import Sigmoid as Sigmoid
from .activation import Tanh as Tanh
from .container import Sequential as Sequential
from .dropout import Dropout as Dropout
from .linear import Linear as Linear
from .module import Module as Module
from .module import Parameter as Parameter
