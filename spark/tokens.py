"""Offsets as their tokens, a column at a time."""

import numpy as np
import pyarrow as pa

from spark.messages import Numbers
from tiering.offset import Offset

_DIGITS = np.array([b"%04d" % number for number in range(10_000)]).view(np.uint32)
_POSITION = slice(17, 33)
_LENGTH = 33


def tokens(log: int, positions: Numbers) -> pa.StringArray:
    """`str(Offset(log, position))` of each: four digits are looked up at once."""
    text = np.empty((len(positions), _LENGTH), np.uint8)
    text[:] = np.frombuffer(str(Offset(log, 0)).encode(), np.uint8)
    digits = np.empty((len(positions), 4), np.uint32)
    rest = positions
    for group in (3, 2, 1, 0):
        rest, last = np.divmod(rest, 10_000)
        digits[:, group] = _DIGITS[last]
    text[:, _POSITION] = digits.view(np.uint8)
    ends = np.arange(len(positions) + 1, dtype=np.int32) * _LENGTH
    return pa.StringArray.from_buffers(len(positions), pa.py_buffer(ends), pa.py_buffer(text))
