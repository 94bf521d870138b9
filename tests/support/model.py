"""A stream said plainly: a list of messages or of appends, and where its chunks end.

Nothing here is shared with the server. The chunk rule is written out a second time, from the
design: a chunk ends at the first boundary at or after the next grid line.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

JSON = "application/json"

IMMUTABLE = "public, max-age=31536000, immutable"
UNNAMED_LOG = "public, max-age=0, s-maxage=60, stale-while-revalidate=300, stale-if-error=86400"
TAIL = "public, max-age=0, s-maxage=1"


def token(log: int, position: int) -> str:
    return f"{log:016d}_{position:016d}"


def parse_token(text: str) -> tuple[int, int]:
    log, position = text.split("_")
    assert len(log) == len(position) == 16
    return int(log), int(position)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one catch-up read must give."""

    start: int
    end: int
    body: bytes
    up_to_date: bool
    closed: bool
    complete: bool
    """It ends where nothing that is appended later can move its end."""

    def cache_control(self, names_the_log: bool) -> str:
        if not self.complete:
            return TAIL
        return IMMUTABLE if names_the_log else UNNAMED_LOG


@dataclass
class ModelStream:
    content_type: str
    grid: int
    log: int
    closed: bool = False
    stored: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)
    append_ends: list[int] = field(default_factory=list)
    handed_out: list[int] = field(default_factory=list)
    last_seq: bytes | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    parent: str | None = None
    depth: int = 0
    aliases: dict[int, int] = field(default_factory=dict)
    """Logs of the streams this one is a fork of, each with the last position they share."""
    earliest: int = 0
    snapshot: int | None = None
    """Where the snapshot in force was published."""

    def fork(self, name: str, border: int, log: int) -> "ModelStream":
        """What a fork of this stream, which has that name, begins with."""
        shared = {old: min(last, border) for old, last in self.aliases.items()}
        return ModelStream(
            self.content_type,
            self.grid,
            log,
            stored=self.stored[:border],
            ends=[end for end in self.ends if end <= border],
            append_ends=[*(end for end in self.append_ends if end < border), border],
            parent=name if border else None,
            depth=self.depth + 1 if border else 0,
            aliases=shared | {self.log: border} if border else {},
            earliest=self.earliest if border else 0,
            snapshot=self.snapshot if border else None,
        )

    @property
    def is_json(self) -> bool:
        return self.content_type == JSON

    @property
    def tail(self) -> int:
        return len(self.stored)

    @property
    def tail_token(self) -> str:
        return token(self.log, self.tail)

    def add(self, parts: list[bytes]) -> None:
        """One append: of several messages for JSON, of one body for everything else."""
        for part in parts:
            self.stored += part + b"," if self.is_json else part
            self.ends.append(self.tail)
        if parts:
            self.append_ends.append(self.tail)

    def hand_out(self, offset: str) -> None:
        log, position = parse_token(offset)
        assert log == self.log
        if position not in self.handed_out:
            self.handed_out.append(position)

    def messages(self, start: int, end: int) -> list[bytes]:
        """Between two boundaries."""
        ends = (one for one in self.ends if start < one <= end)
        cut = 1 if self.is_json else 0
        return [bytes(self.stored[a : b - cut]) for a, b in pairwise((start, *ends))]

    def is_boundary(self, position: int) -> bool:
        return position == 0 or not self.is_json or position in self.ends

    def chunk_end(self, position: int) -> int | None:
        """Where the chunk that holds `position` ends; None while it is not complete."""
        start = 0
        while (end := self._first_boundary_at_or_after(self._next_line(start))) is not None:
            if position < end:
                return end
            start = end
        return None

    def read(self, position: int) -> Slice:
        chunk_end = self.chunk_end(position)
        end = self.tail if chunk_end is None else chunk_end
        at_tail = end == self.tail
        return Slice(
            start=position,
            end=end,
            body=self._body(position, end),
            up_to_date=at_tail,
            closed=at_tail and self.closed,
            complete=self.closed or not at_tail,
        )

    def _next_line(self, start: int) -> int:
        return (start // self.grid + 1) * self.grid

    def _first_boundary_at_or_after(self, line: int) -> int | None:
        index = bisect_left(self.ends, line)
        return self.ends[index] if index < len(self.ends) else None

    def _body(self, start: int, end: int) -> bytes:
        stored = bytes(self.stored[start:end])
        return b"[" + stored[:-1] + b"]" if self.is_json else stored
