"""What tasks of Spark get to fold, and what they say of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from spark.fetching import Fetcher
from spark.folds import Fold
from spark.messages import Messages
from spark.planning import Sealed
from tiering.errors import Corrupt, StreamError
from tiering.offset import Offset
from tiering.snapshot import Snapshot

SCHEMA = "stream int, kind int, key binary, position long, value binary"
ENTRY, NOTE = 0, 1

_ARROW = pa.schema(
    [
        ("stream", pa.int32()),
        ("kind", pa.int32()),
        ("key", pa.binary()),
        ("position", pa.int64()),
        ("value", pa.binary()),
    ]
)
_MOST_SAMPLES = 3
_BEGINNING_BYTES = 80

Row = tuple[int, int, bytes, int, bytes | None]


@dataclass(frozen=True, slots=True)
class Share:
    """Pieces of one stream, which has a `number` in this run, and the snapshot before them."""

    number: int
    fold: Fold
    previous: Snapshot | None
    sealed: tuple[Sealed, ...]

    @property
    def cost(self) -> int:
        return sum(one.cost for one in self.sealed) + (self.previous.size if self.previous else 0)


Task = tuple[Share, ...]


class Sample(msgspec.Struct, frozen=True):
    """A message that could not be folded."""

    offset: str
    reason: str
    beginning: str


class Note(msgspec.Struct):
    """What a task found in a stream. `reset`: the position of the last one."""

    messages: int = 0
    bad: int = 0
    samples: list[Sample] = []
    reset: int | None = None
    outcome: str = ""
    reason: str = ""

    def is_bad(self, at: Offset, reason: object, message: bytes) -> None:
        self.bad += 1
        if len(self.samples) < _MOST_SAMPLES:
            beginning = message[:_BEGINNING_BYTES].decode(errors="replace")
            self.samples.append(Sample(str(at), str(reason), beginning))

    def failed(self, error: StreamError) -> None:
        self.fails("damaged" if isinstance(error, Corrupt) else "moved", str(error))

    def fails(self, outcome: str, reason: str) -> None:
        if not self.outcome:
            self.outcome, self.reason = outcome, reason

    def add(self, other: "Note") -> None:
        self.messages += other.messages
        self.bad += other.bad
        found = sorted([*self.samples, *other.samples], key=lambda one: one.offset)
        self.samples = found[:_MOST_SAMPLES]
        resets = [one for one in (self.reset, other.reset) if one is not None]
        self.reset = max(resets, default=None)
        self.fails(other.outcome, other.reason)


def tasks(shares: Sequence[Share], most: int) -> list[Task]:
    """A stream is divided where it is large, and many small ones go together."""
    found: list[Task] = []
    ready: list[Share] = []
    cost = 0
    for part in (part for share in shares for part in _parts(share, most)):
        if ready and cost + part.cost > most:
            found.append(tuple(ready))
            ready, cost = [], 0
        ready.append(part)
        cost += part.cost
    return [*found, tuple(ready)] if ready else found


def whole(shares: Sequence[Share], most: int) -> list[Task]:
    """The same for folds that take their messages one after the other."""
    found: list[list[Share]] = []
    cost = most
    for share in shares:
        if cost + share.cost > most:
            found.append([])
            cost = 0
        found[-1].append(share)
        cost += share.cost
    return [tuple(task) for task in found]


def _parts(share: Share, most: int) -> Iterator[Share]:
    if share.previous is not None:
        yield replace(share, sealed=())
    ready: list[Sealed] = []
    cost = 0
    for one in share.sealed:
        if ready and cost + one.cost > most:
            yield replace(share, previous=None, sealed=tuple(ready))
            ready, cost = [], 0
        ready.append(one)
        cost += one.cost
    if ready:
        yield replace(share, previous=None, sealed=tuple(ready))


def read(
    fetcher: Fetcher, shares: Sequence[Share], notes: dict[int, Note]
) -> Iterator[tuple[Share, Sealed, Messages]]:
    """What is damaged or gone is noted, and the other streams are read on."""
    left = [(share, one) for share in shares for one in share.sealed]
    while left:
        done = 0
        try:
            for messages in fetcher.messages(one for _, one in left):
                yield *left[done], messages
                done += 1
            return
        except StreamError as error:
            failed = left[done][0].number
            notes[failed].failed(error)
            left = [(share, one) for share, one in left[done:] if share.number != failed]


def each(messages: Messages) -> Iterator[tuple[int, bytes]]:
    """Every message with its position."""
    data, first = messages.data.tobytes(), int(messages.bounds[0])
    separator = 1 if messages.is_json else 0
    start = first
    for end in messages.bounds[1:].tolist():
        yield start, data[start - first : end - first - separator]
        start = end


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def noted(task: int, notes: dict[int, Note]) -> Iterator[pa.RecordBatch]:
    """Each under a key of its own, so that none is taken for another's."""
    key = b"%d" % task
    rows = [(n, NOTE, key, 0, msgspec.json.encode(note)) for n, note in notes.items()]
    if rows:
        yield batch(rows)
