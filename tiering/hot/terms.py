"""What the verbs of the hot tier take, and what they give or raise."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from tiering.messages import Payload
from tiering.offset import Offset
from tiering.snapshot import Snapshot
from tiering.stream import Ancestor, ContentType, Producer


class Attention(Enum):
    """When a sealer should look after a stream."""

    NOW = b"now"
    LATER = b"later"


class Expired(Exception):
    """The stream's time is over, but it has not been removed yet."""


class Hidden(Exception):
    """The stream is gone for everybody but the forks that read through it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fork comes from. `was_asked_for`: the client named the place, not just the end."""

    name: str
    ancestors: list[Ancestor]
    border: int
    grid: int
    earliest: int
    snapshot: Snapshot | None
    was_asked_for: bool


@dataclass(frozen=True, slots=True)
class Remains:
    """A stream that has left the hot tier."""

    name: str
    log: int
    ancestors: tuple[Ancestor, ...]


class Append(msgspec.Struct, frozen=True):
    payload: Payload
    media: str
    closes: bool = False
    seq: str = ""
    producer: Producer | None = None


class Appended(msgspec.Struct, frozen=True):
    tail: Offset
    closed: bool
    duplicate: bool = False
    highest_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Created:
    tail: Offset
    content_type: ContentType
    is_new: bool
    replaced_expired: bool = False
