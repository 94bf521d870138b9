"""The worker's memory of what it has read from the hot tier."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

from tiering.hot.scripts import BLOCK_BYTES
from tiering.hot.tier import HotTier
from tiering.hot.wake import Wake
from tiering.stream import Stream

PIECE_BYTES = BLOCK_BYTES // 8


class Dropped(Exception):
    """The bytes have left the hot tier since the caller looked: look again."""


class _Block:
    """A contiguous part of one block, grown at its ends."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.data = bytearray()
        self.lock = asyncio.Lock()

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def covers(self, start: int, end: int) -> bool:
        return self.begin <= start and end <= self.end

    def cut(self, start: int, end: int) -> bytes:
        return bytes(memoryview(self.data)[start - self.begin : end - self.begin])


class TailCache:
    """Bytes between two positions of a log never change, so only what is new is fetched."""

    def __init__(self, tier: HotTier, capacity_bytes: int) -> None:
        self._tier = tier
        self._capacity = capacity_bytes
        self._held = 0
        self._blocks: OrderedDict[tuple[int, int], _Block] = OrderedDict()

    async def read(self, stream: Stream, start: int, end: int) -> AsyncIterator[bytes]:
        """In pieces that a reader who has stopped reading may keep in our memory."""
        while start < end:
            stop = min(end, start - start % PIECE_BYTES + PIECE_BYTES)
            yield await self._read_block(stream, start, stop, end)
            start = stop

    def note(self, wake: Wake) -> None:
        """Takes up bytes that came with a wake-up, where they continue what is held."""
        block_start = wake.start - wake.start % BLOCK_BYTES
        key = (wake.log, block_start)
        block = self._blocks.get(key)
        fits = wake.end <= block_start + BLOCK_BYTES
        if block is None or block.lock.locked() or not wake.carries_data:
            return
        if fits and block.end == wake.start:
            block.data += wake.data
            self._account(key, block, len(wake.data))

    async def _read_block(self, stream: Stream, start: int, end: int, wanted: int) -> bytes:
        """What is not here is fetched at once as far as it is wanted and in the same block."""
        begin = start - start % BLOCK_BYTES
        key = (stream.log, begin)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block(start)
        self._blocks.move_to_end(key)
        if not block.covers(start, end):
            async with block.lock:
                before = len(block.data)
                try:
                    await self._extend(block, stream, start, min(wanted, begin + BLOCK_BYTES))
                finally:
                    self._account(key, block, len(block.data) - before)
        return block.cut(start, end)

    async def _extend(self, block: _Block, stream: Stream, start: int, end: int) -> None:
        if start > block.end:
            # What lies between may have been sealed: begin anew.
            block.begin = start
            block.data.clear()
        if start < block.begin:
            earlier = await self._fetch(stream, start, block.begin)
            block.data[:0] = earlier
            block.begin = start
        if end > block.end:
            block.data += await self._fetch(stream, block.end, end)

    async def _fetch(self, stream: Stream, start: int, end: int) -> bytes:
        data = await self._tier.fetch(stream.name, stream.log, stream.base, start, end)
        if len(data) != end - start:
            raise Dropped
        return data

    def _account(self, key: tuple[int, int], block: _Block, added: int) -> None:
        if self._blocks.get(key) is not block:
            return
        self._held += added
        while self._held > self._capacity and len(self._blocks) > 1:
            _, evicted = self._blocks.popitem(last=False)
            self._held -= len(evicted.data)
