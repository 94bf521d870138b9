"""Reads sealed pieces, in the stored form that the hot tier has too."""

from collections import OrderedDict
from collections.abc import AsyncIterator

from tiering.cold import index as indexes
from tiering.cold.cache import SlabCache
from tiering.cold.index import Index
from tiering.cold.keys import Piece
from tiering.objects.store import ObjectStore, named
from tiering.single_flight import SingleFlight
from tiering.stream import ContentType

_INDEXES_KEPT = 16


class ColdReader:
    def __init__(self, store: ObjectStore, cache_bytes: int) -> None:
        self._store = store
        self._cache = SlabCache(store, cache_bytes)
        self._indexes: OrderedDict[str, Index] = OrderedDict()
        self._flights: SingleFlight[str, Index] = SingleFlight()

    async def read(
        self, piece: Piece, content_type: ContentType, start: int, end: int
    ) -> AsyncIterator[bytes]:
        """The stored bytes `[start, end)` of the log, which lie within the piece."""
        index = await self.index(piece)
        # The object of a JSON piece begins with `[`, and ends with `]` where `,` is stored.
        shift = (1 if content_type.is_json else 0) - piece.start
        left = end - start
        async for data in self._cache.read(piece.key, index, start + shift, end + shift):
            left -= len(data)
            is_last = not left and end == piece.end
            yield data[:-1] + b"," if is_last and content_type.is_json else data

    async def is_boundary(self, piece: Piece, position: int) -> bool:
        return position == piece.start or (await self.index(piece)).is_boundary(position)

    async def index(self, piece: Piece) -> Index:
        key = piece.index_key
        known = self._indexes.get(key)
        if known is not None:
            self._indexes.move_to_end(key)
            return known
        return await self._flights.do(key, lambda: self._fetch_index(key))

    async def _fetch_index(self, key: str) -> Index:
        with named(key):
            content = await self._store.get(key)
        index = indexes.decode(content, key)
        self._indexes[key] = index
        if len(self._indexes) > _INDEXES_KEPT:
            self._indexes.popitem(last=False)
        return index

    async def close(self) -> None:
        await self._cache.close()
