"""The way through a stream's pieces, from its beginning to the last whole append."""

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

from tiering.cold import index as indexes
from tiering.cold.clip import clip, last_whole_append
from tiering.cold.index import Index
from tiering.cold.inventory import Holdings, longest_path, piece_of
from tiering.cold.keys import Piece, piece_metadata
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.stream import ContentType


class Trail:
    def __init__(self, store: ObjectStore, damaged: Callable[[str], None]) -> None:
        """`damaged` is told, in a sentence each, what was found wrong."""
        self._store = store
        self._damaged = damaged

    async def follow(
        self, holdings: Holdings, manifest: Manifest
    ) -> tuple[list[Piece], Index | None]:
        """The pieces, and the index of the last one."""
        content_type = ContentType(manifest.content_type)
        path = await self._path(holdings, manifest, content_type)
        return await self._whole_appends(path, content_type)

    async def _path(
        self, holdings: Holdings, manifest: Manifest, content_type: ContentType
    ) -> list[Piece]:
        """Names and sizes tell the pieces; where that does not lead to the end, the indexes do."""
        path = lead_through(holdings.pieces(content_type), manifest)
        end = path[-1].end if path else max(manifest.earliest, manifest.border)
        if end >= manifest.sealed and not holdings.goes_on(manifest.log, end):
            return path
        described = [piece async for piece in self._described(holdings, content_type)]
        return lead_through(described, manifest)

    async def _described(
        self, holdings: Holdings, content_type: ContentType
    ) -> AsyncIterator[Piece]:
        """A damaged piece keeps its place: what it holds is not served, what follows it is."""
        for key in sorted(holdings.indexes | holdings.bodies.keys()):
            piece = piece_of(key, holdings.bodies.get(key, 0), content_type)
            if piece is None:
                continue
            if key not in holdings.bodies:
                self._damaged(f"{key} is missing.")
            index = await self._index(piece)
            yield self._as_described(piece, index) if index else piece

    def _as_described(self, piece: Piece, index: Index) -> Piece:
        if index.end != piece.end:
            self._damaged(f"{piece.key} is not what its index describes.")
        return replace(piece, end=index.end)

    async def _whole_appends(
        self, pieces: list[Piece], content_type: ContentType
    ) -> tuple[list[Piece], Index | None]:
        """Nobody was told of half an append: the stream ends with the last whole one."""
        while pieces:
            *pieces, last = pieces
            index = await self._index(last)
            if index is None:
                continue
            last = self._as_described(last, index)
            end = last_whole_append(index)
            if end == last.end:
                return [*pieces, last], index
            if end > last.start and (clipped := await self._clip(last, index, content_type, end)):
                shorter, index = clipped
                return [*pieces, shorter], index
        return [], None

    async def _index(self, piece: Piece) -> Index | None:
        try:
            return indexes.decode(await self._store.get(piece.index_key), piece.index_key)
        except ObjectMissing:
            self._damaged(f"{piece.index_key} is missing.")
        except Corrupt as error:
            self._damaged(str(error))
        return None

    async def _clip(
        self, piece: Piece, index: Index, content_type: ContentType, end: int
    ) -> tuple[Piece, Index] | None:
        """Named by the old log, whose bytes these are: doing it twice makes the same object."""
        content = await self._content(piece, index)
        if content is None:
            return None
        shorter, clipped, body = clip(piece, index, content, content_type, end)
        await self._store.put_if_absent(shorter.index_key, clipped.encode())
        metadata = piece_metadata(shorter, content_type.text, ends=True)
        await self._store.put_if_absent(shorter.key, body, metadata)
        return shorter, clipped

    async def _content(self, piece: Piece, index: Index) -> bytes | None:
        with contextlib.suppress(ObjectMissing):
            content = await self._store.get(piece.key)
            if indexes.checksums(content) == index.checksums:
                return content
        self._damaged(f"{piece.key} is not what was written.")
        return None


def lead_through(pieces: Iterable[Piece], manifest: Manifest) -> list[Piece]:
    """The pieces that lead from the beginning to the end, log by log. What was not sealed yet when
    a log began is sealed in that log, and begins before its border."""
    by_log = defaultdict(list)
    for piece in pieces:
        by_log[piece.log].append(piece)
    path: list[Piece] = []
    position = max(manifest.earliest, manifest.border)
    for log, border in manifest.own_logs():
        lead = longest_path if path else _longest_path_over
        path += lead(by_log[log], position, border)
        position = path[-1].end if path else position
    return path


def _longest_path_over(pieces: list[Piece], position: int, limit: int | None) -> list[Piece]:
    """The first piece that is retained may begin before what is retained."""
    best: list[Piece] = []
    for begin in sorted({one.start for one in pieces if one.start <= position}, reverse=True):
        path = longest_path(pieces, begin, limit)
        if path and (not best or path[-1].end > best[-1].end):
            best = path
        if best and best[-1].end > position:
            break
    return best
