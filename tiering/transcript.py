"""A stretch of a stream as the messages it was written in."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from tiering.cold.reader import ColdReader
from tiering.errors import Gone, NotFound
from tiering.hot.sealing import SealingDesk
from tiering.hot.tier import HotTier
from tiering.reader import Reader
from tiering.stream import Stream, View

_PLANNED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that follow each other in one stream's own data: each ends where the next begins."""

    stream: Stream
    start: int
    ends: list[int]

    @property
    def view(self) -> View:
        return View(self.stream, self.start, self.ends[-1])


class Transcript:
    """Boundaries come from where the bytes are by now: records in Redis, indexes of pieces."""

    def __init__(self, tier: HotTier, desk: SealingDesk, cold: ColdReader, reader: Reader) -> None:
        self._tier = tier
        self._desk = desk
        self._cold = cold
        self._reader = reader

    def read(self, run: Run) -> AsyncIterator[bytes]:
        return self._reader.read(run.view)

    async def runs(self, stream: Stream, start: int, end: int) -> AsyncIterator[Run]:
        """All messages of `[start, end)`, which begins and ends at boundaries."""
        parent = stream.parent
        if parent is not None and start < parent.border:
            source = (await self._tier.look_for_fork(parent.name, start)).stream
            border = min(end, parent.border)
            async for run in self.runs(source, start, border):
                yield run
            start = border
        while start < end:
            async for run in self._own_runs(stream, start, end):
                yield run
                start = run.ends[-1]
            if start < end:
                stream = await self._again(stream, start)

    async def _again(self, stream: Stream, position: int) -> Stream:
        """What was in Redis has been sealed meanwhile."""
        now = (await self._tier.look_for_fork(stream.name, position)).stream
        if not now.continues(stream.log):
            raise NotFound("The stream was deleted while it was being read.")
        return now

    async def _own_runs(self, stream: Stream, start: int, end: int) -> AsyncIterator[Run]:
        """Ends early when the stream must be looked at anew."""
        while start < min(end, stream.sealed):
            until = min(end, stream.sealed, start + _PLANNED_BYTES)
            pieces = await self._desk.pieces(stream.name, start, until)
            if not pieces:
                raise Gone("The stream does not retain this any more.", stream.at(stream.earliest))
            for piece in pieces:
                if not piece.start <= start < piece.end:
                    raise Gone("The stream does not retain this any more.", stream.at(start))
                ends = (await self._cold.index(piece)).message_ends()
                run = Run(stream, start, _within(ends, start, end))
                yield run
                start = run.ends[-1]
        while start < end:
            ends = await self._desk.message_ends(stream.name, start)
            if not ends or not await self._is_unsealed(stream, start):
                return
            run = Run(stream, start, _within(ends, start, end))
            yield run
            start = run.ends[-1]

    async def _is_unsealed(self, stream: Stream, start: int) -> bool:
        """Records read before it are complete from there on."""
        frontier = await self._desk.frontier(stream.name)
        if frontier is None:
            raise NotFound("The stream was deleted while it was being read.")
        return frontier[1] <= start


def _within(ends: list[int], start: int, limit: int) -> list[int]:
    """A fork's border may lie inside a message: for the fork it ends there."""
    inside = [end for end in ends if start < end < limit]
    return [*inside, limit] if not ends or ends[-1] >= limit else inside
