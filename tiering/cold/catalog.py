"""What a bucket tells of its streams by itself, for readers that have nothing else."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote

from tiering.cold.cover import Limits, Slice, cover, limits_of
from tiering.cold.inventory import piece_of
from tiering.cold.keys import DEPLOYMENT, Piece, segment
from tiering.cold.known_manifests import KnownManifests
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt, Refused
from tiering.gather import gather
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.offset import Offset
from tiering.stream import ContentType

_MOST_LOOKS = 4
_PAUSE_SECS = 0.2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which streams are wanted. All their names begin with `prefix`; `is_whole`: it is the name."""

    prefix: str
    is_whole: bool
    wants: Callable[[str], bool]

    @property
    def folder(self) -> str:
        return segment(self.prefix) + ("/" if self.is_whole else "")


@dataclass(frozen=True, slots=True)
class SealedStream:
    """A stream as far as object storage holds it: `[start, end)` in slices without a gap."""

    manifest: Manifest
    start: int
    slices: tuple[Slice, ...]

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def end(self) -> int:
        return self.slices[-1].end if self.slices else self.start

    def at(self, position: int) -> Offset:
        """A stream tells all its offsets in its own log, whichever they are read from."""
        return Offset(self.manifest.log, position)


@dataclass(frozen=True, slots=True)
class Survey:
    """The streams that are whole, sorted by name, and by name why others are not."""

    streams: list[SealedStream]
    damaged: dict[str, Corrupt]


async def deployment_of(store: ObjectStore) -> bytes:
    """The id of whose streams these are."""
    try:
        return await store.get(DEPLOYMENT)
    except ObjectMissing:
        raise Refused(f"{store} holds no streams of a server") from None


async def look_again(look: Callable[[], Awaitable[T]]) -> T:
    """What is missing may only just have been removed: then another look shows why."""
    for _ in range(_MOST_LOOKS - 1):
        try:
            return await look()
        except Corrupt:
            await asyncio.sleep(_PAUSE_SECS)
    return await look()


class Catalog:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def streams(self, wanted: Selection, now_ms: int) -> list[SealedStream]:
        """All of them, or what is wrong with the first that is damaged."""
        await deployment_of(self._store)
        return await look_again(lambda: self._whole(wanted, now_ms))

    async def survey(self, wanted: Selection, now_ms: int) -> Survey:
        """Those that are deleted, over, or there for their forks alone are left out. Manifests are
        read before pieces are listed, so a piece that is missing then was removed in between,
        which the next look will show, or is lost."""
        try:
            return Survey(await self.streams(wanted, now_ms), {})
        except Corrupt:
            return await self._look(wanted, now_ms)

    async def _whole(self, wanted: Selection, now_ms: int) -> list[SealedStream]:
        found = await self._look(wanted, now_ms)
        for _, error in sorted(found.damaged.items()):
            raise error
        return found.streams

    async def _look(self, wanted: Selection, now_ms: int) -> Survey:
        damaged: dict[str, Corrupt] = {}
        manifests = KnownManifests(self._store, damaged=damaged)
        known = await manifests.newest(wanted.folder, wanted.wants)
        living = [one for _, one in sorted(known.items()) if not one.is_over(now_ms)]
        sources = await manifests.with_sources(living, known)
        alive = [one for one in living if one.name not in damaged]
        limits = {one.name: limits_of(one, sources) for one in alive}
        pieces = await self._pieces(wanted, alive, sources, limits)
        streams = []
        for one in alive:
            try:
                streams.append(self._sealed(one, limits[one.name], pieces))
            except Corrupt as error:
                damaged[one.name] = error
        return Survey(streams, {name: damaged[name] for name in damaged if wanted.wants(name)})

    async def _pieces(
        self,
        wanted: Selection,
        alive: list[Manifest],
        sources: dict[str, Manifest],
        limits: dict[str, Limits],
    ) -> dict[str, list[Piece]]:
        """By name: of the wanted streams in one listing, of each they read through in its own."""
        types = {name: ContentType(one.content_type) for name, one in sources.items()}
        for stream in alive:
            for name, _ in limits[stream.name]:
                types.setdefault(name, ContentType(stream.content_type))
        needed = {name for each in limits.values() for name, _ in each}
        elsewhere = [name for name in needed if not wanted.wants(name)]
        folders = [wanted.folder] if alive else []
        folders += [f"{segment(name)}/" for name in elsewhere]
        found: dict[str, list[Piece]] = defaultdict(list)
        for each in await gather(self._listed(folder, types, needed) for folder in folders):
            for piece in each:
                found[piece.name].append(piece)
        return found

    async def _listed(
        self, folder: str, types: dict[str, ContentType], needed: set[str]
    ) -> list[Piece]:
        """An index is written before its body and removed after it, so bodies alone are listed."""
        found = []
        for kind in ("parts", "chunks"):
            async for info in self._store.list(f"{kind}/{folder}"):
                name = _name_in(info.key)
                piece = piece_of(info.key, info.size, types[name]) if name in needed else None
                if piece is not None:
                    found.append(piece)
        return found

    def _sealed(
        self, manifest: Manifest, limits: Limits, pieces: dict[str, list[Piece]]
    ) -> SealedStream:
        names = {name for name, _ in limits}
        candidates = [piece for name in names for piece in pieces.get(name, ())]
        slices = cover(candidates, limits, manifest.earliest)
        stream = SealedStream(manifest, manifest.earliest, tuple(slices))
        if stream.end < manifest.sealed:
            raise Corrupt(f"Nothing covers {stream.end} to {manifest.sealed} of {stream.name}.")
        return stream


def _name_in(key: str) -> str:
    return unquote(key.split("/", 2)[1])
