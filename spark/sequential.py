"""Folds that take the messages of a stream one after the other: one task for each stream."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import Broadcast

from spark.fetching import Fetcher
from spark.folds import CONCAT, load
from spark.keyed import verified
from spark.options import Bucket
from spark.shares import ENTRY, Note, Share, Task, batch, each, noted, read
from tiering.errors import Refused, StreamError
from tiering.snapshot import Snapshot
from tiering.stream import ContentType

_BLOCK_BYTES = 2**20
_EMPTY_ARRAY = b"[]"


class _Unread(Exception):
    """The messages ended before their end; the note says why."""


def fold(
    bucket: Bucket, tasks: "Broadcast[Sequence[Task]]", numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: the blocks of each snapshot, in their order."""
    with Fetcher(bucket) as fetcher:
        for number in (one for batch in numbers for one in batch.column(0).to_pylist()):
            notes = {share.number: Note() for share in tasks.value[number]}
            for share in tasks.value[number]:
                yield from _fold(fetcher, share, notes)
            yield from noted(number, notes)


def _fold(fetcher: Fetcher, share: Share, notes: dict[int, Note]) -> Iterator[pa.RecordBatch]:
    note = notes[share.number]
    one = _Concat(fetcher, share, notes) if share.fold.name == CONCAT else None
    made = one.pieces() if one else _of_the_user(fetcher, share, notes)
    try:
        for position, block in enumerate(_blocks(made)):
            yield batch([(share.number, ENTRY, b"", position, block)])
    except _Unread:
        pass
    except StreamError as error:
        note.failed(error)
    except Refused as error:
        note.fails("failed", str(error))


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    ready: list[bytes] = []
    size = 0
    for piece in pieces:
        ready.append(piece)
        size += len(piece)
        if size > _BLOCK_BYTES:
            yield b"".join(ready)
            ready, size = [], 0
    yield b"".join(ready)


def _messages(fetcher: Fetcher, share: Share, notes: dict[int, Note]) -> Iterator[bytes]:
    note = notes[share.number]
    for _, _, messages in read(fetcher, [share], notes):
        note.messages += messages.count
        for _, message in each(messages):
            yield message
    if note.outcome:
        raise _Unread


class _Concat:
    """Bytes one after the other, or one array of all messages."""

    def __init__(self, fetcher: Fetcher, share: Share, notes: dict[int, Note]) -> None:
        self._previous = share.previous
        self._fetcher = fetcher
        self._messages = _messages(fetcher, share, notes)
        self._is_json = ContentType(share.sealed[0].source.content_type).is_json

    def pieces(self) -> Iterator[bytes]:
        if not self._is_json:
            if self._previous is not None:
                yield from verified(self._fetcher, self._previous)
            yield from self._messages
            return
        yield from self._opened()
        between = b"," if self._previous and self._previous.size > len(_EMPTY_ARRAY) else b""
        for message in self._messages:
            yield between + message
            between = b","
        yield b"]"

    def _opened(self) -> Iterator[bytes]:
        """An array that does not end yet."""
        if self._previous is None:
            yield b"["
            return
        held = b""
        for piece in verified(self._fetcher, self._previous):
            yield held
            held = piece
        yield held[:-1]


def _of_the_user(fetcher: Fetcher, share: Share, notes: dict[int, Note]) -> Iterator[bytes]:
    previous = _whole(fetcher, share.previous)
    function = load(share.fold.name)
    try:
        made = function(previous, _messages(fetcher, share, notes))
        for piece in [made] if isinstance(made, bytes) else made:
            if not isinstance(piece, bytes):
                raise TypeError(f"it must make bytes, and made {type(piece).__name__}")
            yield piece
    except (_Unread, StreamError):
        raise
    except Exception as error:
        # Whatever it is, it concerns this stream alone.
        raise Refused(f"{share.fold.name}: {type(error).__name__}: {error}") from error
    if notes[share.number].outcome:
        raise _Unread


def _whole(fetcher: Fetcher, previous: Snapshot | None) -> bytes | None:
    return None if previous is None else b"".join(verified(fetcher, previous))
