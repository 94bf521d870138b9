"""The words everyone shares: what a stream is, and what was true of it at one instant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tiering.cold.keys import Piece
from tiering.errors import BeyondEnd, Gone
from tiering.offset import Offset
from tiering.snapshot import Snapshot

JSON = "application/json"
DEFAULT_CONTENT_TYPE = "application/octet-stream"


def next_line(position: int, grid: int) -> int:
    """The grid line that the chunk from `position` on must reach."""
    return position - position % grid + grid


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
    """A log whose positions up to `border` are the stream's own.

    `name` is the stream it belongs to; empty when that is the same one, before a recovery.
    """

    log: int
    border: int
    kind: Literal["fork", "recovery"]
    name: str = ""


def parent_of(ancestors: Sequence[Ancestor]) -> Ancestor | None:
    """The stream that a fork reads through, up to the border."""
    return next((one for one in reversed(ancestors) if one.kind == "fork"), None)


def heritage(name: str, log: int, ancestors: Iterable[Ancestor], border: int) -> list[Ancestor]:
    """The chain of a fork of that stream."""
    inherited = [
        replace(one, border=min(one.border, border), name=one.name or name) for one in ancestors
    ]
    return [*inherited, Ancestor(log, border, "fork", name)]


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
    grid: int
    now_ms: int
    snapshot: Snapshot | None = None

    @property
    def parent(self) -> Ancestor | None:
        return parent_of(self.ancestors)

    def at(self, position: int) -> Offset:
        return Offset(self.log, position)

    @property
    def end(self) -> Offset:
        return self.at(self.tail)

    def continues(self, log: int) -> bool:
        """Whether that log is the stream's own, or went before it under the same name."""
        past = (one.log for one in self.ancestors if not one.name)
        return log == self.log or log in past

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
            raise BeyondEnd
        return position

    def _retained(self, position: int) -> int:
        if position < self.earliest:
            raise self.no_longer_retained()
        return position

    def no_longer_retained(self) -> Gone:
        return Gone(
            "The offset lies before the retained range; a snapshot stands for it: see /bootstrap.",
            self.at(self.earliest),
        )


@dataclass(frozen=True, slots=True)
class View:
    """A stream as seen from one position: the piece a read from there returns.

    `object` is the chunk that holds it, when the whole chunk is one object. The beginning of
    the view, up to a fork's border, is `inherited`. `ends_at_cut`: where it ends, a chunk of
    every fork ends too; the end of a closed stream is one of its own only.
    """

    stream: Stream
    start: int
    end: int
    object: Piece | None = None
    needs_boundary_check: bool = False
    ends_at_cut: bool = False
    inherited: "View | None" = None

    @property
    def owner(self) -> "View":
        """The view of the stream whose own data the position lies in."""
        return self if self.inherited is None else self.inherited.owner

    @property
    def at_tail(self) -> bool:
        return self.end == self.stream.tail

    @property
    def at_closed_end(self) -> bool:
        return self.at_tail and self.stream.closed

    @property
    def is_empty(self) -> bool:
        return self.start == self.end
