"""Sealed bytes in memory: bounded, checked, and fetched once for all who want them."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

from tiering.cold.index import SLAB_BYTES, Index, checksum
from tiering.errors import Corrupt
from tiering.objects.store import ObjectStore, named

_SLABS_PER_GET = 8

Slab = tuple[str, int]


class SlabCache:
    """Objects are fetched in runs of slabs; a slab is handed out once its checksum is right."""

    def __init__(self, store: ObjectStore, capacity_bytes: int) -> None:
        self._store = store
        self._capacity = capacity_bytes
        self._held_bytes = 0
        self._held: OrderedDict[Slab, bytes] = OrderedDict()
        self._coming: dict[Slab, asyncio.Future[bytes]] = {}
        self._fetches: set[asyncio.Task[None]] = set()
        runs = max(2, capacity_bytes // (_SLABS_PER_GET * SLAB_BYTES))
        self._slots = asyncio.Semaphore(runs)
        self.gets = 0

    async def read(self, key: str, index: Index, start: int, end: int) -> AsyncIterator[bytes]:
        """Bytes `[start, end)` of the object, slab by slab."""
        while start < end:
            number = start // SLAB_BYTES
            base = number * SLAB_BYTES
            slab = await self._slab(key, index, number)
            stop = min(end, base + SLAB_BYTES)
            yield slab[start - base : stop - base]
            start = stop

    async def _slab(self, key: str, index: Index, number: int) -> bytes:
        held = self._held.get((key, number))
        if held is not None:
            self._held.move_to_end((key, number))
            return held
        coming = self._coming.get((key, number))
        if coming is None:
            coming = self._fetch_from(key, index, number)
        return await asyncio.shield(coming)

    def _fetch_from(self, key: str, index: Index, first: int) -> asyncio.Future[bytes]:
        """Starts one GET for this slab and those after it that nobody has asked for yet."""
        loop = asyncio.get_running_loop()
        last = first
        limit = min(len(index.checksums), first + _SLABS_PER_GET)
        while last < limit and self._is_unknown((key, last)):
            future = self._coming[key, last] = loop.create_future()
            future.add_done_callback(_seen)
            last += 1
        task = asyncio.create_task(self._fetch(key, index, first, last))
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)
        return self._coming[key, first]

    def _is_unknown(self, slab: Slab) -> bool:
        return slab not in self._held and slab not in self._coming

    async def _fetch(self, key: str, index: Index, first: int, last: int) -> None:
        try:
            async with self._slots:
                self.gets += 1
                with named(key):
                    await self._fetch_run(key, index, first, last)
        except BaseException as error:
            self._fail(key, range(first, last), error)

    async def _fetch_run(self, key: str, index: Index, first: int, last: int) -> None:
        end = min(index.body_bytes, last * SLAB_BYTES)
        number, slab = first, bytearray()
        async for piece in self._store.stream(key, first * SLAB_BYTES, end):
            slab += piece
            while len(slab) >= SLAB_BYTES:
                self._arrived(key, index, number, bytes(slab[:SLAB_BYTES]))
                number, slab = number + 1, slab[SLAB_BYTES:]
        if number < last:
            self._arrived(key, index, number, bytes(slab))

    def _arrived(self, key: str, index: Index, number: int, slab: bytes) -> None:
        if checksum(slab) != index.checksums[number]:
            raise Corrupt("Its bytes are not those that were written.")
        self._held[key, number] = slab
        self._held_bytes += len(slab)
        while self._held_bytes > self._capacity and len(self._held) > 1:
            _, evicted = self._held.popitem(last=False)
            self._held_bytes -= len(evicted)
        self._coming.pop((key, number)).set_result(slab)

    def _fail(self, key: str, numbers: range, error: BaseException) -> None:
        for number in numbers:
            coming = self._coming.pop((key, number), None)
            if coming is not None:
                coming.set_exception(error)

    async def close(self) -> None:
        for task in list(self._fetches):
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)


def _seen(future: asyncio.Future[bytes]) -> None:
    """Nobody may be waiting any more when a slab fails to come."""
    if not future.cancelled():
        future.exception()
