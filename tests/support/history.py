"""What clients did to one stream, and what they were shown of it: the material of the checker.

Content is in stored form, a row of units that each end with the separator: a message of a JSON
stream with its comma, a line of a stream of bytes. No unit is ever sent by two appends.
"""

import math
from dataclasses import dataclass, field
from enum import Enum, auto

NEVER = math.inf


class Outcome(Enum):
    ACKNOWLEDGED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Sequence:
    producer: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Append:
    """Retried or not, it is one append: from its first invocation to its last answer."""

    units: tuple[bytes, ...]
    began: float
    ended: float
    outcome: Outcome
    sequence: Sequence | None = None
    tail: int | None = None
    """Where the stream ended, by the acknowledgement."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What somebody was shown: `[start, end)` of the stream, and whether that was all of it."""

    who: str
    began: float
    ended: float
    start: int
    end: int
    data: bytes
    is_tail: bool = False


@dataclass(slots=True)
class History:
    """`content` is the agreed order: the stream as it was read when all was over."""

    separator: bytes
    appends: list[Append] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    content: bytes = b""
