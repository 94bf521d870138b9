"""Keyed folds on the executors: the last line for each key, and lines put together."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
from pyspark import Broadcast

from spark.changes import Bad, Change, Reading, Write, reading
from spark.fetching import Fetcher
from spark.messages import Messages
from spark.options import Bucket
from spark.planning import Source
from spark.shares import ENTRY, Note, Share, Task, batch, each, noted, read
from tiering.errors import Corrupt, StreamError
from tiering.objects.store import named
from tiering.offset import Offset
from tiering.snapshot import Snapshot
from tiering.stream import ContentType

BETWEEN = b",\n"
BLOCKS = "stream int, block binary, entries int"

_ARROW_BLOCKS = pa.schema([("stream", pa.int32()), ("block", pa.binary()), ("entries", pa.int32())])
_BATCH_BYTES = 4 * 2**20
_BLOCK_BYTES = 2**20
_HELD_BYTES = 32 * 2**20
_ENTRY_BYTES = 200
"""What an entry costs Python beside its bytes."""


def fold(
    bucket: Bucket, tasks: "Broadcast[Sequence[Task]]", numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: the last change of each key in each task."""
    with Fetcher(bucket) as fetcher:
        for number in (one for batch in numbers for one in batch.column(0).to_pylist()):
            notes = {share.number: Note() for share in tasks.value[number]}
            yield from _Partial(fetcher, notes).fold(tasks.value[number])
            yield from noted(number, notes)


class _Partial:
    """Holds a bounded number of changes: whoever has more passes on what it has."""

    def __init__(self, fetcher: Fetcher, notes: dict[int, Note]) -> None:
        self._fetcher = fetcher
        self._notes = notes
        self._held: dict[int, dict[bytes, tuple[int, bytes | None]]] = {n: {} for n in notes}
        self._size = 0

    def fold(self, task: Task) -> Iterator[pa.RecordBatch]:
        for share in task:
            if share.previous is not None:
                yield from self._take_previous(share, share.previous)
        for share, sealed, messages in read(self._fetcher, task, self._notes):
            self._take(share.number, reading(share.fold), sealed.source, messages)
            if self._size > _HELD_BYTES:
                yield from self._pass_on()
        yield from self._pass_on()

    def _take(self, number: int, change: Reading, source: Source, messages: Messages) -> None:
        note, is_json = self._notes[number], ContentType(source.content_type).is_json
        note.messages += messages.count
        for position, message in each(messages):
            try:
                if not is_json:
                    message.decode()
                self._put(number, position, change(message))
            except (Bad, UnicodeDecodeError) as error:
                note.is_bad(Offset(source.log, position), error, message)

    def _put(self, number: int, position: int, change: Change) -> None:
        if isinstance(change, Write):
            self._held[number][change.key] = (position, change.line)
            self._size += len(change.key) + len(change.line or b"") + _ENTRY_BYTES
        elif change is not None:
            self._held[number].clear()
            self._notes[number].reset = position

    def _take_previous(self, share: Share, previous: Snapshot) -> Iterator[pa.RecordBatch]:
        """What it has comes before everything else, in its own order."""
        change, note = reading(share.fold), self._notes[share.number]
        try:
            for start, line in lines(verified(self._fetcher, previous)):
                self._put(share.number, start - previous.size, change(line))
                if self._size > _HELD_BYTES:
                    yield from self._pass_on()
        except StreamError as error:
            note.failed(error)
        except Bad as error:
            note.fails("damaged", f"{previous.key} is not a snapshot of this fold: {error}")

    def _pass_on(self) -> Iterator[pa.RecordBatch]:
        """In batches that Spark can hold."""
        rows, size = [], 0
        for number, entries in self._held.items():
            for key, (position, line) in entries.items():
                rows.append((number, ENTRY, key, position, line))
                size += len(key) + len(line or b"")
                if size > _BATCH_BYTES:
                    yield batch(rows)
                    rows, size = [], 0
            entries.clear()
        self._size = 0
        if rows:
            yield batch(rows)


def verified(fetcher: Fetcher, snapshot: Snapshot) -> Iterator[bytes]:
    """Its pieces; Corrupt behind the last one if they are not those that were published."""
    digest, size = hashlib.blake2b(digest_size=16), 0
    with named(snapshot.key):
        for piece in fetcher.pieces(snapshot.key) if snapshot.size else ():
            digest.update(piece)
            size += len(piece)
            yield piece
        if (size, digest.hexdigest()) != (snapshot.size, snapshot.digest):
            raise Corrupt("Its bytes are not those that were published.")


def lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The elements of an array that has each on a line of its own, and where they begin."""
    start, rest = 0, b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if line not in (b"[", b"]"):
                yield start, line.removesuffix(b",")
            start += len(line) + 1
    if rest != b"]":
        raise Bad("it ends in the middle")


def render(
    resets: Mapping[int, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: sorted lines become blocks of some lines. Only streams that have an entry
    in `resets` are wanted, and of each only what lies behind."""
    number, ready, size = -1, list[bytes](), 0
    for rows in batches:
        columns = (column.to_pylist() for column in rows.columns)
        for stream, position, line in zip(*columns, strict=True):
            if stream not in resets or position <= resets[stream]:
                continue
            if ready and (stream != number or size > _BLOCK_BYTES):
                yield _block(number, ready)
                ready, size = [], 0
            number = stream
            ready.append(line)
            size += len(line)
    if ready:
        yield _block(number, ready)


def _block(number: int, ready: list[bytes]) -> pa.RecordBatch:
    columns = [[number], [BETWEEN.join(ready)], [len(ready)]]
    kinds = zip(columns, _ARROW_BLOCKS, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in kinds]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_BLOCKS)


def envelope(is_state: bool, at: Offset) -> tuple[list[bytes], list[bytes]]:
    """What stands before and behind the lines of a snapshot."""
    if not is_state:
        return [], []
    first, last = (
        msgspec.json.encode({"headers": {"control": control, "offset": str(at)}})
        for control in ("snapshot-start", "snapshot-end")
    )
    return [first], [last]
