"""Modules: parts of a model that own parameters."""

from __future__ import annotations

from .activation import ReLU as ReLU
from .activation import Sigmoid as Sigmoid
from .activation import Tanh as Tanh
from .container import Sequential as Sequential
from .linear import Linear as Linear
from .module import Module as Module
from .module import Parameter as Parameter
