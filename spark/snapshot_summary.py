"""What a run of `ds-spark snapshot` tells of itself."""

from dataclasses import dataclass

import msgspec

from spark.shares import Sample

BROKEN = frozenset({"bad", "damaged", "failed", "other-fold", "refused", "too-large"})
"""What somebody must look at. All else heals by itself, or was somebody else's decision."""


class Line(msgspec.Struct):
    """One stream. `bytes_before` is what a new client had to read, `bytes_after` the snapshot that
    it reads instead."""

    stream: str
    fold: str
    offset: str
    bytes_before: int = 0
    bytes_after: int = 0
    messages: int = 0
    keys: int = 0
    bad: int = 0
    outcome: str = ""
    reason: str = ""
    samples: list[Sample] = []
    seconds: float = 0.0


class Summary(msgspec.Struct):
    """`looked_at`: how many streams there were to choose from; each that was due has a line."""

    looked_at: int = 0
    published: int = 0
    lines: list[Line] = []
    seconds: float = 0.0
    is_dry_run: bool = False

    @property
    def is_broken(self) -> bool:
        return any(line.outcome in BROKEN for line in self.lines)

    @property
    def unavailable(self) -> str | None:
        """Why the server could not be reached in the end."""
        found = (line.reason for line in self.lines if line.outcome == "unavailable")
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Progress:
    """Of all bytes that are to be folded, or to be published."""

    doing: str
    streams: int
    done: int
    total: int
