"""Slices of a tensor, and setting one in place.

``Tensor`` inherits these. A slice is on the tape; setting one is an in-place change, as those of ``in_place``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_backend.ops.indexing import Key, assign_region

if TYPE_CHECKING:
    from gpu_backend import Array

    from .tensor import Tensor


class Indexing:
    """``x[key]`` for integers, slices, ... and None; iteration over the first axis."""

    __slots__ = ()

    if TYPE_CHECKING:
        array: Array

        def _apply(self, name: str, **attributes: Any) -> Any: ...
        def _as_operand(self, value: Any) -> Any: ...
        def _forbid_recording(self, name: str, other: Any) -> None: ...

    def __getitem__(self, key: Key) -> Tensor:
        made: Tensor = self._apply("getitem", key=key)
        return made

    def __setitem__(self, key: Key, source: Any) -> None:
        """self[key] <- source, which broadcasts and takes the element type of self; not recorded."""
        self._forbid_recording("setitem", source)
        given = self._as_operand(source)
        assign_region(self.array, key, given if isinstance(given, bool | int | float) else given.array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.shape:
            raise TypeError("a tensor of shape () has no elements to go over")
        return (self[index] for index in range(self.array.shape[0]))
