"""Arrays on any GPU through WebGPU, with numpy as the twin of every op.

    import gpu_backend as gb

    x = gb.array([[1.0, 2.0], [3.0, 4.0]])
    y = gb.matmul(x, x)
    y.numpy()

``device()`` is the adapter in use, ``array`` and ``numpy()`` carry elements in and out, the ops of ``gpu_backend.ops``
are here by name. Nothing here knows of gradients; see ``autodiff``.
"""

from __future__ import annotations

from . import memory as memory
from . import ops as ops
from .array import Array as Array
from .array import array as array
from .array import empty as empty
from .array import from_dlpack as from_dlpack
from .check_mode import check_mode as check_mode
from .composite import *  # noqa: F403
from .contraction import *  # noqa: F403
from .device import Device as Device
from .device import adapters as adapters
from .device import default_device as default_device
from .device import device as device
from .device import reset_device as reset_device
from .device import set_default_device as set_default_device
from .errors import CaptureError as CaptureError
from .errors import DeviceError as DeviceError
from .errors import DeviceLostError as DeviceLostError
from .errors import DivergenceError as DivergenceError
from .errors import DtypeError as DtypeError
from .errors import FallbackError as FallbackError
from .errors import OutOfMemoryError as OutOfMemoryError
from .errors import PipelineError as PipelineError
from .errors import ReleasedBufferError as ReleasedBufferError
from .errors import ShaderError as ShaderError
from .errors import ShapeError as ShapeError
from .fallback_table import fallback as fallback
from .fallback_table import read_environment as _read_environment
from .host_call import HostFallbackWarning as HostFallbackWarning
from .namespace import *  # noqa: F403
from .namespace import __array_api_version__ as __array_api_version__
from .namespace import __array_namespace_info__ as __array_namespace_info__
from .namespace import missing as _missing
from .op import Op as Op
from .ops.activation import *  # noqa: F403
from .ops.argument import *  # noqa: F403
from .ops.batch_normalization import *  # noqa: F403
from .ops.binary import *  # noqa: F403
from .ops.cast import *  # noqa: F403
from .ops.choice import *  # noqa: F403
from .ops.convolution import *  # noqa: F403
from .ops.creation import *  # noqa: F403
from .ops.indexing import *  # noqa: F403
from .ops.joining import *  # noqa: F403
from .ops.layer_normalization import *  # noqa: F403
from .ops.linear_algebra import *  # noqa: F403
from .ops.logic import *  # noqa: F403
from .ops.loss import *  # noqa: F403
from .ops.movement import *  # noqa: F403
from .ops.normalization import *  # noqa: F403
from .ops.padding import *  # noqa: F403
from .ops.pooling import *  # noqa: F403
from .ops.random import *  # noqa: F403
from .ops.reduction import *  # noqa: F403
from .ops.resampling import *  # noqa: F403
from .ops.scan import *  # noqa: F403
from .ops.sequence import *  # noqa: F403
from .ops.statistics import *  # noqa: F403
from .ops.unary import *  # noqa: F403
from .register import register as register
from .spec import DType as DType
from .spec import bool_ as bool_
from .spec import float16 as float16
from .spec import float32 as float32
from .spec import int32 as int32
from .spec import uint32 as uint32

__version__ = "0.1.0"

bool = bool_  # the array API's name

_read_environment()


def __getattr__(name: str) -> object:
    raise _missing(__name__, name)
