"""What an export did, for programs and for people."""

import time
from dataclasses import dataclass, field

import msgspec

from spark.export.files import File
from spark.export.planning import Due, Range

_SHOWN = 20


class Damage(msgspec.Struct, frozen=True):
    stream: str
    reason: str


class Stretch(msgspec.Struct, frozen=True):
    """From one offset of a stream up to another."""

    stream: str
    start: str
    end: str
    bytes: int


class Summary(msgspec.Struct):
    """`bytes` are those of the streams, `file_bytes` those of the files."""

    streams: int = 0
    streams_exported: int = 0
    streams_unchanged: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    days: int = 0
    files_of_interrupted_run: int = 0
    gaps: list[Stretch] = []
    superseded: list[Stretch] = []
    begun_anew: list[str] = []
    damaged: list[Damage] = []
    seconds: float = 0.0
    is_dry_run: bool = False


@dataclass(slots=True)
class Tally:
    """Adds up what a run does."""

    summary: Summary = field(default_factory=Summary)
    exported: set[str] = field(default_factory=set)
    looked_at: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    days: set[int] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    def noted(self, one: Due) -> None:
        """What there is to say of a stream besides its messages."""
        summary = self.summary
        if one.gap is not None:
            summary.gaps.append(_stretch(one.name, one.gap))
        if one.superseded is not None:
            summary.superseded.append(_stretch(one.name, one.superseded))
        if one.is_anew:
            summary.begun_anew.append(one.name)

    def wrote(self, name: str, files: tuple[File, ...], size: int) -> None:
        summary = self.summary
        self.exported.add(name)
        self.days.update(file.day for file in files)
        summary.files += len(files)
        summary.rows += sum(file.rows for file in files)
        summary.file_bytes += sum(file.size for file in files)
        summary.bytes += size

    def imagined(self, one: Due) -> None:
        if one.slices:
            self.wrote(one.name, (), one.size)

    def damaged(self, name: str, reason: str) -> None:
        """Once of each stream, however often it is looked at."""
        self.looked_at.add(name)
        if name not in self.broken:
            self.broken.add(name)
            self.summary.damaged.append(Damage(name, reason))

    def finished(self) -> Summary:
        summary = self.summary
        summary.streams = len(self.looked_at)
        summary.streams_exported = len(self.exported)
        summary.streams_unchanged = len(self.looked_at - self.exported - self.broken)
        summary.days = len(self.days)
        summary.seconds = round(time.monotonic() - self.began, 3)
        return summary


def _stretch(name: str, found: Range) -> Stretch:
    start, end = found
    return Stretch(name, str(start), str(end), end.position - start.position)


def report(summary: Summary) -> str:
    has = "would export" if summary.is_dry_run else "exported"
    lines = [
        f"{has} {summary.bytes:,} bytes of {summary.streams_exported:,} of"
        f" {summary.streams:,} streams in {summary.seconds:.1f} s",
        f"streams with nothing new: {summary.streams_unchanged:,}",
    ]
    if not summary.is_dry_run:
        lines.insert(
            1,
            f"{summary.rows:,} rows of {summary.days:,} days in {summary.files:,} files"
            f" of {summary.file_bytes:,} bytes",
        )
    if summary.files_of_interrupted_run:
        lines.append(f"files that an interrupted run left: {summary.files_of_interrupted_run:,}")
    damages = [f"{one.stream}: {one.reason}" for one in summary.damaged]
    return "\n".join(
        [
            *lines,
            *_listed("begun anew under the same name", summary.begun_anew),
            *_listed("not retained any more, and not exported", _told(summary.gaps)),
            *_listed("exported, and lost by a recovery since", _told(summary.superseded)),
            *_listed("damaged, and exported up to there", damages),
        ]
    )


def _told(stretches: list[Stretch]) -> list[str]:
    return [f"{one.stream}: {one.bytes:,} bytes, {one.start} to {one.end}" for one in stretches]


def _listed(heading: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = len(items) - _SHOWN
    rest = [f"  ... and {more:,} more (--json shows all)"] if more > 0 else []
    return [f"{heading}: {len(items):,}", *(f"  {item}" for item in items[:_SHOWN]), *rest]
