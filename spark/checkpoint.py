"""Offsets as Spark keeps them in a checkpoint: how far each stream was read, by its name.

A batch must be the same whenever it is planned, so a stream that begins in it says where, unless
that is the beginning of its log: `0001_0500..0001_0900` instead of `0001_0900`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tiering.errors import Refused
from tiering.offset import START, Offset, ReadFrom, parse_read_from

_BEGINNING = ""
"""In place of a name, which no stream has: where those begin that have none. Stands in the very
first offset alone, or until the one stream is there that is to begin at a token."""
_UP_TO = ".."


@dataclass(frozen=True, slots=True)
class Mark:
    """`begin`: the batch that ends here has begun with the stream, or begun anew, at that point."""

    end: Offset
    begin: Offset | None = None

    @classmethod
    def parse(cls, text: str) -> "Mark | None":
        first, between, last = text.rpartition(_UP_TO)
        begin, end = Offset.parse(first), Offset.parse(last)
        if end is None or (between and begin is None):
            return None
        return cls(end, begin)

    def __str__(self) -> str:
        return str(self.end) if self.begin is None else f"{self.begin}{_UP_TO}{self.end}"


Marks = Mapping[str, Mark]


@dataclass(frozen=True, slots=True)
class Range:
    """What a batch has of a stream; tokens of its rows are told in the log of `end`."""

    name: str
    begin: Offset
    end: Offset


def first_offset(begin: ReadFrom) -> dict[str, str]:
    """Spark does not keep it, so it says what the option says and not what that means today."""
    return offset({}, begin)


def parse(given: Mapping[str, object]) -> tuple[Marks, ReadFrom]:
    """The marks, and where streams begin that have none."""
    begin = parse_read_from(str(given.get(_BEGINNING, START.value)))
    found = {name: Mark.parse(str(text)) for name, text in given.items() if name != _BEGINNING}
    marks = {name: mark for name, mark in found.items() if mark is not None}
    if begin is None or len(marks) < len(found):
        raise Refused("the checkpoint is none of durable_streams: it holds other offsets")
    return marks, begin


def offset(marks: Marks, begin: ReadFrom) -> dict[str, str]:
    """In order of names: Spark compares the text."""
    first = {} if begin is START else {_BEGINNING: _text(begin)}
    return first | {name: str(mark) for name, mark in sorted(marks.items())}


def _text(begin: ReadFrom) -> str:
    return str(begin) if isinstance(begin, Offset) else begin.value


def ranges(start: Marks, end: Marks) -> Iterator[Range]:
    """What lies between two offsets, in order of names."""
    for name, mark in sorted(end.items()):
        before = start.get(name)
        if before == mark:
            continue
        begin = mark.begin
        if begin is None:
            begin = Offset(mark.end.log, 0) if before is None else before.end
        if begin != mark.end:
            yield Range(name, begin, mark.end)
