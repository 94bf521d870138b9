"""Points in a stream, as clients name them."""

import re
from enum import Enum

import msgspec

_TOKEN = re.compile(r"([0-9]{16})_([0-9]{16})")
_LARGEST = 2**53 - 1


class Offset(msgspec.Struct, frozen=True, order=True):
    """A point between two bytes of one log. Its text sorts as its numbers do."""

    log: int
    position: int

    def __str__(self) -> str:
        return f"{self.log:016d}_{self.position:016d}"

    @classmethod
    def parse(cls, text: str) -> "Offset | None":
        """None when the text was never an offset of any stream."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        log, position = int(match[1]), int(match[2])
        if log > _LARGEST or position > _LARGEST:
            return None
        return cls(log, position)


class Sentinel(Enum):
    START = "-1"
    NOW = "now"


START = Sentinel.START
NOW = Sentinel.NOW
ZERO = Offset(0, 0)

ReadFrom = Offset | Sentinel


def parse_read_from(text: str) -> ReadFrom | None:
    if text == START.value:
        return START
    if text == NOW.value:
        return NOW
    offset = Offset.parse(text)
    return START if offset == ZERO else offset
