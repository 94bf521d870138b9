"""Reads a stream from wherever its bytes are: hot tier, object storage, or another stream."""

from collections.abc import AsyncIterator
from dataclasses import replace

from tiering.cold.keys import Piece
from tiering.cold.reader import ColdReader
from tiering.errors import Invalid, NotFound
from tiering.hot.sealing import SealingDesk
from tiering.hot.tail import Dropped, TailCache
from tiering.hot.tier import HotTier
from tiering.objects.store import ObjectMissing
from tiering.offset import ReadFrom
from tiering.stream import View, next_line

_MOST_LOOKS = 5


class Reader:
    def __init__(self, tier: HotTier, tail: TailCache, cold: ColdReader, desk: SealingDesk) -> None:
        self._tier = tier
        self._tail = tail
        self._cold = cold
        self._desk = desk

    async def look(self, name: str, source: ReadFrom, *, renew: bool) -> View:
        view = await self._complete(await self._tier.look(name, source, renew=renew))
        if view.owner.needs_boundary_check and not await self._is_boundary(view.owner):
            raise Invalid("The offset lies inside a message.")
        return view

    async def _complete(self, view: View) -> View:
        """What lies before a fork's border is seen through its parent, as long as that is."""
        parent = view.stream.parent
        if parent is None or view.start >= parent.border:
            return view
        above = await self._complete(await self._tier.look_for_fork(parent.name, view.start))
        if above.ends_at_cut and above.end <= parent.border:
            return replace(above, stream=view.stream, inherited=above)
        if next_line(view.start, view.stream.grid) <= parent.border:
            # The border is inside an append that passes the line: here it ends a message.
            view = replace(view, end=parent.border, ends_at_cut=True)
        return replace(view, object=None, inherited=replace(above, end=parent.border))

    async def is_boundary(self, view: View) -> bool:
        """Whether a message begins where the view does, or the stream ends there."""
        stream, position = view.stream, view.start
        is_edge = position in (0, stream.tail) or any(
            position == one.border for one in stream.ancestors if one.kind == "fork"
        )
        if is_edge:
            return True
        owner = view.owner
        if position < owner.stream.sealed:
            return await self._is_boundary(owner)
        if position == owner.stream.sealed:
            return True  # Pieces end where messages do.
        record = await self._desk.record_after(owner.stream.name, position - 1)
        if record is None or await self._is_sealed(owner, position):
            again = await self.look(stream.name, stream.at(position), renew=False)
            return await self.is_boundary(again)
        return position in record.message_ends()

    async def _is_sealed(self, owner: View, position: int) -> bool:
        """By now. If not, records read before it are complete from there on."""
        frontier = await self._desk.frontier(owner.stream.name)
        return frontier is None or frontier[1] >= position

    async def _is_boundary(self, view: View) -> bool:
        if view.object is not None and view.start == view.object.start:
            return True
        pieces = await self._desk.pieces(view.stream.name, view.start, view.start)
        return await self._cold.is_boundary(pieces[0], view.start)

    async def message_ends(self, view: View) -> list[int]:
        """Where the messages end, from the position on, that were appended together."""
        position, limit = view.owner.start, _limit(view)
        ends = await self._message_ends(view.owner)
        return sorted({min(end, limit) for end in ends if end > position})

    async def _message_ends(self, owner: View) -> list[int]:
        name, position = owner.stream.name, owner.start
        if position >= owner.stream.sealed:
            record = await self._desk.record_after(name, position)
            if not await self._is_sealed(owner, position + 1):
                return record.message_ends() if record else []
        return await self._sealed_message_ends(name, position)

    async def _sealed_message_ends(self, name: str, position: int) -> list[int]:
        ends: list[int] = []
        for piece in await self._desk.pieces(name, position, position + 1):
            index = await self._cold.index(piece)
            append_end = next(end for end in index.append_ends() if end > position)
            ends += [end for end in index.message_ends() if position < end <= append_end]
        return ends

    async def read(self, view: View) -> AsyncIterator[bytes]:
        """The stored bytes of a view, in pieces, from wherever they are by now."""
        if view.inherited is not None:
            end = min(view.end, view.inherited.end)
            async for piece in self.read(replace(view.inherited, end=end)):
                yield piece
            view = replace(view, start=end, object=None, inherited=None)
        async for piece in self._read_own(view):
            yield piece

    async def _read_own(self, view: View) -> AsyncIterator[bytes]:
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
        now = await self._tier.look_for_fork(view.stream.name, position)
        if not now.stream.continues(view.stream.log):
            raise NotFound("The stream was deleted while it was being read.")
        return View(now.stream, view.start, view.end, now.object)

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
        if start >= end:
            return []
        if view.object is not None:
            return [view.object]
        pieces = await self._desk.pieces(view.stream.name, start, end)
        if not pieces or not pieces[0].start <= start < pieces[0].end:
            raise Dropped
        return pieces


def _limit(view: View) -> int:
    """Up to where a fork sees what it inherits."""
    parent = view.stream.parent
    if view.inherited is None or parent is None:
        return view.stream.tail
    return min(parent.border, _limit(view.inherited))
