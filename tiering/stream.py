"""The words everyone shares: what a stream is, and what was true of it at one instant."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tiering.errors import Gone, Invalid
from tiering.offset import Offset

JSON = "application/json"
DEFAULT_CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class ContentType:
    """Given back as it came; compared by its media type alone."""

    text: str

    @cached_property
    def media(self) -> str:
        return self.text.partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        return self.media == JSON

    @property
    def is_text(self) -> bool:
        return self.is_json or self.media.startswith("text/")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """For ever, or idle for `ttl_secs`, or until `expires_ms` (written `expires_text`)."""

    ttl_secs: int | None = None
    expires_ms: int | None = None
    expires_text: str = ""

    @property
    def ends(self) -> bool:
        return self.ttl_secs is not None or self.expires_ms is not None


@dataclass(frozen=True, slots=True)
class Producer:
    id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The log that holds a stream's history before `border`."""

    log: int
    border: int
    kind: Literal["fork", "recovery"]


@dataclass(frozen=True, slots=True)
class Configuration:
    content_type: ContentType
    lifetime: Lifetime
    closed: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """What was true of a stream at one instant.

    Everything before `sealed` is in object storage; the hot tier's first block begins at `base`.
    """

    name: str
    log: int
    ancestors: tuple[Ancestor, ...]
    content_type: ContentType
    lifetime: Lifetime
    deadline_ms: int | None
    closed: bool
    tail: int
    earliest: int
    sealed: int
    base: int
    now_ms: int

    def at(self, position: int) -> Offset:
        return Offset(self.log, position)

    @property
    def end(self) -> Offset:
        return self.at(self.tail)

    def position_of(self, token: Offset) -> int:
        """Where a client's token points in this stream."""
        if token.log == self.log:
            return self._retained(self._up_to(token.position, self.tail))
        for ancestor in self.ancestors:
            if token.log == ancestor.log:
                return self._retained(self._inherited(token.position, ancestor))
        raise Gone("The offset belongs to another stream's history.", self.at(self.earliest))

    def _inherited(self, position: int, ancestor: Ancestor) -> int:
        if position > ancestor.border and ancestor.kind == "recovery":
            raise Gone(
                "What stood beyond this offset was lost with the hot tier.",
                self.at(ancestor.border),
            )
        return self._up_to(position, ancestor.border)

    def _up_to(self, position: int, limit: int) -> int:
        if position > limit:
            raise Invalid("The offset lies beyond the end of the stream.")
        return position

    def _retained(self, position: int) -> int:
        if position < self.earliest:
            raise Gone("The offset lies before the retained range.", self.at(self.earliest))
        return position


@dataclass(frozen=True, slots=True)
class View:
    """A stream as seen from one position: the piece a read from there returns.

    `object_start` is where the chunk begins, when the whole of it is one object.
    """

    stream: Stream
    start: int
    end: int
    object_start: int | None = None
    needs_boundary_check: bool = False

    @property
    def at_tail(self) -> bool:
        return self.end == self.stream.tail

    @property
    def at_closed_end(self) -> bool:
        return self.at_tail and self.stream.closed

    @property
    def is_empty(self) -> bool:
        return self.start == self.end
