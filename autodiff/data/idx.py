"""IDX files, in which MNIST and its relatives come."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError

# The third byte of the file says what the elements are: Y. LeCun, THE MNIST DATABASE, the IDX file format.
_ELEMENTS = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | Path) -> np.ndarray[Any, Any]:
    """The array in an IDX file, also a gzipped one. UsageError names the file and what is wrong with it."""
    path = Path(path)
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{path}: a damaged gzip file: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _ELEMENTS:
        raise UsageError(f"{path}: not an IDX file, which begins with two zero bytes and an element type")
    element = np.dtype(_ELEMENTS[content[2]])
    rank = content[3]
    start = 4 + 4 * rank
    if len(content) < start:
        raise UsageError(f"{path}: ends within its header, after {len(content)} bytes")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", rank, 4))
    wanted = start + math.prod(shape) * element.itemsize
    if len(content) != wanted:
        raise UsageError(f"{path}: {len(content)} bytes, where {shape} of {element.name} want {wanted}")
    elements = np.frombuffer(content, element, offset=start).reshape(shape)
    return elements.astype(element.newbyteorder("="))
