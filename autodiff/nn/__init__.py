"""Modules: parts of a model that own parameters."""

from __future__ import annotations

from . import utils as utils
from .activation import GELU as GELU
from .activation import ReLU as ReLU
from .activation import Sigmoid as Sigmoid
from .activation import SiLU as SiLU
from .activation import Tanh as Tanh
from .batch_norm import BatchNorm1d as BatchNorm1d
from .batch_norm import BatchNorm2d as BatchNorm2d
from .batch_norm import BatchNorm3d as BatchNorm3d
from .container import Sequential as Sequential
from .convolution import Conv1d as Conv1d
from .convolution import Conv2d as Conv2d
from .convolution import Conv3d as Conv3d
from .convolution import ConvTranspose1d as ConvTranspose1d
from .convolution import ConvTranspose2d as ConvTranspose2d
from .dropout import Dropout as Dropout
from .dropout import Dropout2d as Dropout2d
from .embedding import Embedding as Embedding
from .flatten import Flatten as Flatten
from .group_norm import GroupNorm as GroupNorm
from .layer_norm import LayerNorm as LayerNorm
from .linear import Linear as Linear
from .module import Buffer as Buffer
from .module import Module as Module
from .module import Parameter as Parameter
from .pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .pooling import AvgPool1d as AvgPool1d
from .pooling import AvgPool2d as AvgPool2d
from .pooling import MaxPool1d as MaxPool1d
from .pooling import MaxPool2d as MaxPool2d
from .resampling import PixelShuffle as PixelShuffle
from .resampling import Upsample as Upsample
