"""An object store whose requests are counted, for who has to pay for them."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from tiering.objects.store import ObjectInfo, ObjectStore

_KEYS_PER_PAGE = 1000


class CountedStore:
    """As a bucket would be asked: listings and deletions by the thousand, repetitions left out."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.requests: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The store itself belongs to whoever opened it."""

    def __str__(self) -> str:
        return str(self._store)

    async def check(self) -> None:
        await self._store.check()

    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        self.requests["put"] += 1
        return await self._store.put_if_absent(key, body, metadata)

    async def put(self, key: str, body: bytes) -> None:
        self.requests["put"] += 1
        await self._store.put(key, body)

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        self.requests["put"] += 1
        await self._store.put_pieces(key, pieces)

    async def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self.requests["get"] += 1
        return await self._store.get(key, start, end)

    def stream(
        self, key: str, start: int | None = None, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        self.requests["get"] += 1
        return self._store.stream(key, start, end)

    async def address(self, key: str, *, signed: bool) -> str:
        return await self._store.address(key, signed=signed)

    async def head(self, key: str) -> ObjectInfo | None:
        self.requests["head"] += 1
        return await self._store.head(key)

    async def list(self, prefix: str = "", after: str | None = None) -> AsyncIterator[ObjectInfo]:
        self.requests["list"] += 1
        found = 0
        async for info in self._store.list(prefix, after):
            found += 1
            self.requests["list"] += found % _KEYS_PER_PAGE == 0
            yield info

    async def delete(self, keys: Sequence[str]) -> None:
        self.requests["delete"] += -(-len(keys) // _KEYS_PER_PAGE)
        await self._store.delete(keys)
