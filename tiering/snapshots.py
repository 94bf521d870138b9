"""Snapshots: published by clients, they stand for the part of a stream that is not kept."""

import hashlib
import logging
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable

from tiering.cold.keys import snapshot_key
from tiering.errors import (
    BeyondEnd,
    Conflict,
    Corrupt,
    Gone,
    Invalid,
    NotFound,
    StreamError,
    Unavailable,
)
from tiering.hot.graveyard import Graveyard
from tiering.hot.retention import OtherLog, RetentionDesk, TooLate
from tiering.hot.terms import Attention, Expired, Hidden
from tiering.objects.store import ObjectStore, named
from tiering.offset import NOW, Offset
from tiering.reader import Reader
from tiering.snapshot import Snapshot
from tiering.stream import Stream, View
from tiering.streams import Streams

log = logging.getLogger(__name__)

LONGEST_UPLOAD_MS = 6 * 3600 * 1000
_MOST_LOOKS = 5


class MayBeInForce(Exception):
    """Whether Redis has put the snapshot in force is not known."""

    def __init__(self, reason: Unavailable) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Snapshots:
    def __init__(
        self,
        streams: Streams,
        reader: Reader,
        desk: RetentionDesk,
        graves: Graveyard,
        store: ObjectStore,
        attend: Callable[[str, Attention], None],
    ) -> None:
        self._streams = streams
        self._reader = reader
        self._desk = desk
        self._graves = graves
        self._store = store
        self._attend = attend

    async def place(self, name: str, offset: Offset) -> View:
        """The stream, seen from where a snapshot may be published."""
        try:
            view = await self._streams.look(name, offset, renew=False)
        except BeyondEnd as error:
            raise Conflict("The snapshot's offset lies beyond the end of the stream.") from error
        if not await self._reader.is_boundary(view):
            raise Invalid("The snapshot's offset lies inside a message.")
        return view

    async def publish(self, view: View, content_type: str, pieces: AsyncIterable[bytes]) -> None:
        """The object first, then one step that puts it in force."""
        known = view.stream.snapshot
        if known is not None and known.position == view.start:
            await _assert_same(known, content_type, pieces)
            return
        name, log_id = view.stream.name, view.stream.log
        key = snapshot_key(name, log_id, view.start, os.urandom(16).hex())
        now = await self._graves.now_ms()
        await self._desk.intend(name, key, now + LONGEST_UPLOAD_MS)
        measured, is_new = _Measured(pieces), False
        try:
            await self._store.put_pieces(key, measured.pieces())
            snapshot = Snapshot(view.start, key, content_type, measured.size, measured.digest)
            is_new = await self._put_in_force(view, snapshot)
        except MayBeInForce as error:
            is_new = True
            raise error.reason from error
        finally:
            if not is_new:
                await self._discard(name, key)
        if is_new:
            self._attend(name, Attention.NOW)
            await self._graves.remember(name, 0)

    async def _put_in_force(self, view: View, snapshot: Snapshot) -> bool:
        stream = view.stream
        for _ in range(_MOST_LOOKS):
            try:
                return await self._desk.publish(stream.name, stream.log, snapshot)
            except (OtherLog, Expired, Hidden):
                stream = (await self.place(stream.name, stream.at(view.start))).stream
            except TooLate:
                raise
            except Unavailable as error:
                raise MayBeInForce(error) from error
        raise Unavailable("The stream changes too fast.")

    async def _discard(self, name: str, key: str) -> None:
        """The janitor does it once more: what was sent may still be under way."""
        try:
            await self._desk.intend(name, key, await self._graves.now_ms())
            await self._graves.remember(name, 0)
            await self._store.delete([key])
        except StreamError as error:
            log.warning("the janitor will remove %s: %s", key, error)

    async def latest(self, name: str) -> tuple[Stream, Snapshot]:
        stream = (await self._streams.look(name, NOW)).stream
        if stream.snapshot is None:
            raise NotFound("The stream has no snapshot.")
        return stream, stream.snapshot

    async def at(self, name: str, offset: Offset | None) -> tuple[Stream, Snapshot]:
        """Only the latest one is to be had."""
        stream, snapshot = await self.latest(name)
        try:
            position = None if offset is None else stream.position_of(offset)
        except (Gone, Invalid):
            position = None
        if position != snapshot.position:
            raise NotFound("There is no snapshot at this offset, or not any more.")
        return stream, snapshot

    async def read(
        self, snapshot: Snapshot, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """The last piece of a whole one comes when all of them are known to be right."""
        end = snapshot.size if end is None else end
        if start == end:
            return
        digest, held = _digest(), b""
        with named(snapshot.key):
            async for piece in self._store.stream(snapshot.key, start, end):
                digest.update(piece)
                if held:
                    yield held
                held = piece
            if end - start == snapshot.size and digest.hexdigest() != snapshot.digest:
                raise Corrupt("Its bytes are not those that were published.")
        yield held


class _Measured:
    """Counts and digests what passes through."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = pieces
        self._digest = _digest()
        self.size = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            self._digest.update(piece)
            self.size += len(piece)
            yield piece

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def _digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)


async def _assert_same(known: Snapshot, content_type: str, pieces: AsyncIterable[bytes]) -> None:
    measured = _Measured(pieces)
    async for _ in measured.pieces():
        pass
    if (measured.size, measured.digest, content_type) != (
        known.size,
        known.digest,
        known.content_type,
    ):
        raise Conflict("There is another snapshot at this offset.")
