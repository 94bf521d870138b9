"""Everything that can be done with a stream, wherever its bytes live."""

from collections.abc import AsyncIterator

from tiering.errors import NotFound
from tiering.hot.tail import TailCache
from tiering.hot.tier import Append, Appended, Created, Expired, HotTier
from tiering.hot.wake import Wake
from tiering.messages import Payload
from tiering.offset import ReadFrom
from tiering.registry import Registry
from tiering.stream import Configuration, View


class Streams:
    def __init__(self, tier: HotTier, tail: TailCache, registry: Registry) -> None:
        self._tier = tier
        self._tail = tail
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
            return await self._tier.look(name, source, renew=renew)
        except Expired:
            raise await self._bury(name) from None

    def read(self, view: View) -> AsyncIterator[bytes]:
        """The stored bytes of a view, in pieces. `Dropped` when it must be looked up again."""
        stream = view.stream
        return self._tail.read(stream.name, stream.log, view.start, view.end)

    async def read_whole(self, view: View) -> bytes:
        return b"".join([piece async for piece in self.read(view)])

    def note(self, wake: Wake) -> None:
        self._tail.note(wake)

    async def delete(self, name: str) -> None:
        was_alive = await self._tier.delete(name)
        await self._registry.deleted(name)
        if not was_alive:
            raise NotFound("There is no such stream.")

    async def ping(self) -> None:
        await self._tier.ping()

    async def _bury(self, name: str) -> NotFound:
        if await self._tier.remove_expired(name):
            await self._registry.deleted(name)
        return NotFound("There is no such stream.")
