"""What a function may be besides: a method of Tensor, and one that takes PyTorch's names of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")
_SPELLINGS = {"dim": "axis", "keepdim": "keepdims"}


def method(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function whose first argument is a tensor a method of Tensor as well, by the same name."""
    setattr(Tensor, function.__name__, function)
    return function


def accepts_dim(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function with ``axis`` and ``keepdims`` take PyTorch's ``dim`` and ``keepdim`` in their stead."""
    known = inspect.signature(function).parameters
    spellings = {theirs: ours for theirs, ours in _SPELLINGS.items() if ours in known}

    @functools.wraps(function)
    def spelled(*args: P.args, **kwargs: P.kwargs) -> R:
        for theirs, ours in spellings.items():
            if theirs in kwargs:
                if ours in kwargs:
                    raise TypeError(f"{function.__name__}: {theirs} and {ours} are one; give either")
                kwargs[ours] = kwargs.pop(theirs)
        return function(*args, **kwargs)

    return spelled
