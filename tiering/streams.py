"""Everything that can be done with a stream, wherever its bytes live."""

from collections.abc import AsyncIterator

from tiering.cold.keys import Piece, manifest_key
from tiering.cold.manifest import tombstone
from tiering.cold.reader import ColdReader
from tiering.errors import Invalid, NotFound
from tiering.hot.sealing import SealingDesk
from tiering.hot.tail import Dropped, TailCache
from tiering.hot.tier import Append, Appended, Created, Expired, HotTier
from tiering.hot.wake import Wake
from tiering.messages import Payload
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.offset import ReadFrom
from tiering.registry import Registry
from tiering.stream import Configuration, View

_MOST_LOOKS = 5


class Streams:
    def __init__(
        self,
        tier: HotTier,
        tail: TailCache,
        cold: ColdReader,
        desk: SealingDesk,
        store: ObjectStore,
        registry: Registry,
    ) -> None:
        self._tier = tier
        self._tail = tail
        self._cold = cold
        self._desk = desk
        self._store = store
        self._registry = registry

    async def create(self, name: str, wanted: Configuration, payload: Payload) -> Created:
        created = await self._tier.create(name, wanted, payload)
        if created.replaced_expired:
            await self._registry.deleted(name)
        if created.is_new:
            await self._registry.created(name, created.content_type)
        return created

    async def append(self, name: str, append: Append) -> Appended:
        try:
            return await self._tier.append(name, append)
        except Expired:
            raise await self._bury(name) from None

    async def look(self, name: str, source: ReadFrom, *, renew: bool = True) -> View:
        try:
            view = await self._tier.look(name, source, renew=renew)
        except Expired:
            raise await self._bury(name) from None
        if view.needs_boundary_check and not await self._is_boundary(view):
            raise Invalid("The offset lies inside a message.")
        return view

    async def _is_boundary(self, view: View) -> bool:
        if view.start == view.object_start:
            return True
        stream = view.stream
        pieces = await self._desk.pieces(stream.name, stream.log, view.start, view.start)
        return await self._cold.is_boundary(pieces[0], view.start)

    async def read(self, view: View) -> AsyncIterator[bytes]:
        """The stored bytes of a view, in pieces, from wherever they are by now."""
        position, looks = view.start, 0
        while position < view.end:
            try:
                async for piece in self._read(view, position):
                    position += len(piece)
                    yield piece
                    looks = 0
            except (Dropped, ObjectMissing):
                looks += 1
                if looks > _MOST_LOOKS:
                    raise
                view = await self._again(view, position)

    async def _again(self, view: View, position: int) -> View:
        """The same piece as before, seen now; what lies between two positions never changes."""
        stream = view.stream
        now = await self._tier.look(stream.name, stream.at(position), renew=False)
        return View(now.stream, view.start, view.end, now.object_start)

    async def _read(self, view: View, position: int) -> AsyncIterator[bytes]:
        stream = view.stream
        frontier = min(view.end, stream.sealed)
        for piece in await self._sealed_pieces(view, position, frontier):
            start, end = max(position, piece.start), min(frontier, piece.end)
            async for data in self._cold.read(piece, stream.content_type, start, end):
                yield data
        async for data in self._tail.read(stream, max(position, frontier), view.end):
            yield data

    async def _sealed_pieces(self, view: View, start: int, end: int) -> list[Piece]:
        stream = view.stream
        if start >= end:
            return []
        if view.object_start is not None:
            return [Piece("chunk", stream.name, stream.log, view.object_start, view.end)]
        return await self._desk.pieces(stream.name, stream.log, start, end)

    async def read_whole(self, view: View) -> bytes:
        return b"".join([piece async for piece in self.read(view)])

    def note(self, wake: Wake) -> None:
        self._tail.note(wake)

    async def delete(self, name: str) -> None:
        """What object storage holds of a stream is declared dead before the answer."""
        survey = await self._desk.survey(name)
        if survey is not None and survey.has_objects:
            dead = tombstone(survey.manifest)
            await self._store.put(manifest_key(name, survey.log), dead.encode())
        was_alive = await self._tier.delete(name, survey.log if survey else None)
        await self._registry.deleted(name)
        if not was_alive:
            raise NotFound("There is no such stream.")

    async def ping(self) -> None:
        await self._tier.ping()

    async def _bury(self, name: str) -> NotFound:
        if await self._tier.remove_expired(name):
            await self._registry.deleted(name)
        return NotFound("There is no such stream.")
