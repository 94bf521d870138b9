"""Moves chunks to where no edge reads, and the forks of a deleted stream still do."""

from tiering.cold.keys import Piece, chunks_of, parse_chunk_key, piece_metadata
from tiering.hot.sealing import SealingDesk, Survey
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.stream import next_line


class Demotion:
    """A chunk becomes a part with the same bytes. Every step can be repeated."""

    def __init__(self, desk: SealingDesk, store: ObjectStore) -> None:
        self._desk = desk
        self._store = store

    async def run(self, name: str) -> bool:
        """True when nothing of the stream is left where edges read."""
        survey = await self._desk.survey(name)
        if survey is None or not survey.manifest.deleted:
            return True
        grid = survey.manifest.grid
        for piece in await self._desk.all_pieces(name):
            if piece.kind == "chunk":
                await self._demote(piece, is_cut=piece.end >= next_line(piece.start, grid))
        return await self._remove_strays(survey)

    async def _demote(self, chunk: Piece, *, is_cut: bool) -> None:
        part = Piece("part", chunk.name, chunk.log, chunk.start, chunk.end)
        try:
            index = await self._store.get(chunk.index_key)
            body = await self._store.get(chunk.key)
        except ObjectMissing:
            return
        info = await self._store.head(chunk.key)
        content_type = info.metadata.get("stream-content-type", "") if info else ""
        await self._store.put_if_absent(part.index_key, index)
        await self._store.put_if_absent(
            part.key, body, piece_metadata(part, content_type, ends=True)
        )
        if await self._desk.demote(chunk, is_cut=is_cut):
            await self._store.delete([chunk.key, chunk.index_key])

    async def _remove_strays(self, survey: Survey) -> bool:
        """Chunks from sealers that died before the commit, which nobody can commit any more. What
        lies behind the frontier is stored elsewhere; what lies beyond it must be sealed first."""
        known = {piece.key for piece in await self._desk.all_pieces(survey.name)}
        strays, is_clean = [], True
        for number in survey.logs:
            async for found in self._store.list(chunks_of(survey.name, number)):
                chunk = parse_chunk_key(found.key)
                is_covered = chunk is not None and chunk[2] < survey.sealed
                if found.key in known or not is_covered:
                    is_clean = False
                else:
                    strays += [found.key, f"index/{found.key}"]
        await self._store.delete(strays)
        return is_clean
