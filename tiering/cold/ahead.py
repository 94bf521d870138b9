"""The pieces ahead of a position. What this costs does not grow with what lies behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from tiering.cold.catalog import SealedStream
from tiering.cold.cover import Limits, cover, limits_of
from tiering.cold.inventory import piece_of
from tiering.cold.keys import Piece, segment
from tiering.cold.known_manifests import KnownManifests
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.gather import gather
from tiering.objects.store import ObjectInfo, ObjectStore
from tiering.stream import ContentType

_KINDS = ("parts", "chunks")
_PAGE = 1000
_FEW_STREAMS = 64

Listed = dict[str, list[ObjectInfo]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is wanted of a stream: from a message's end on, and nothing that begins at `until`."""

    manifest: Manifest
    start: int
    until: int | None = None

    @property
    def cell_start(self) -> int:
        """No piece that holds `start` begins before it: a chunk ends with the first message that
        reaches a line of the grid. Not so where `start` lies inside a message."""
        return self.start - self.start % self.manifest.grid


@dataclass(slots=True)
class Habits:
    """How many objects there were when all streams were listed last. Outlives the store."""

    objects: int | None = None

    def prefers_one_listing(self, streams: int) -> bool:
        """One of everything, or two short ones for each stream: whichever asks less."""
        if self.objects is None:
            return streams > _FEW_STREAMS
        return len(_KINDS) * streams > self.objects / _PAGE


class Ahead:
    def __init__(self, store: ObjectStore, folder: str, habits: Habits) -> None:
        self._store = store
        self._folder = folder
        self._habits = habits

    async def streams(
        self, wanted: Sequence[Stretch], known: dict[str, Manifest], manifests: KnownManifests
    ) -> list[SealedStream]:
        """As far as pieces lead from each start. Corrupt when the manifest knows of more."""
        forks = [one.manifest for one in wanted if one.start < one.manifest.border]
        sources = await manifests.with_sources(forks, known)
        listed = await self._listed_at_once(wanted)
        return await gather(self._sealed(one, sources, listed) for one in wanted)

    async def _sealed(
        self, wanted: Stretch, sources: dict[str, Manifest], listed: Listed | None
    ) -> SealedStream:
        limits = _ahead_of(wanted.start, limits_of(wanted.manifest, sources))
        found = await self._found(wanted, limits, wanted.cell_start, listed)
        stream = _covered(wanted, limits, found)
        if _lacks(stream, wanted) and wanted.cell_start:
            stream = _covered(wanted, limits, await self._found(wanted, limits, 0, None))
        if _lacks(stream, wanted):
            raise Corrupt(f"Nothing covers {stream.end} and what follows of {stream.name}.")
        return stream

    async def _found(
        self, wanted: Stretch, limits: Limits, first: int, listed: Listed | None
    ) -> list[Piece]:
        content_type = ContentType(wanted.manifest.content_type)
        infos: list[ObjectInfo] = []
        for name, log in limits:
            if listed is not None and name == wanted.manifest.name:
                infos += listed[name]
            else:
                infos += await self._listed(name, log, first, wanted.until)
        pieces = (piece_of(info.key, info.size, content_type) for info in infos)
        return [piece for piece in pieces if piece is not None]

    async def _listed(self, name: str, log: int, first: int, until: int | None) -> list[ObjectInfo]:
        found = []
        for kind in _KINDS:
            prefix = f"{kind}/{segment(name)}/{log:016d}_"
            beyond = None if until is None else f"{prefix}{until:016d}"
            after = f"{prefix}{first - 1:016d}" if first else None
            async for info in self._store.list(prefix, after):
                if beyond is not None and info.key >= beyond:
                    break
                found.append(info)
        return found

    async def _listed_at_once(self, wanted: Sequence[Stretch]) -> Listed | None:
        """By name; what lies behind is left out, whatever its log."""
        if not self._habits.prefers_one_listing(len(wanted)):
            return None
        firsts = {one.manifest.name: one.cell_start for one in wanted}
        found: Listed = {name: [] for name in firsts}
        count = 0
        for kind in _KINDS:
            async for info in self._store.list(f"{kind}/{self._folder}"):
                count += 1
                name, start = _place(info.key)
                if name in firsts and start >= firsts[name]:
                    found[name].append(info)
        self._habits.objects = count
        return found


def _place(key: str) -> tuple[str, int]:
    """Name and start of a body; -1 for what is none."""
    name, _, piece = key.partition("/")[2].partition("/")
    start = piece.partition("_")[2].partition("-")[0]
    return unquote(name), int(start) if start.isdecimal() else -1


def _ahead_of(start: int, limits: Limits) -> Limits:
    return {log: end for log, end in limits.items() if end is None or end > start}


def _covered(wanted: Stretch, limits: Limits, pieces: Iterable[Piece]) -> SealedStream:
    slices = cover(pieces, limits, wanted.start)
    return SealedStream(wanted.manifest, wanted.start, tuple(slices))


def _lacks(stream: SealedStream, wanted: Stretch) -> bool:
    sealed = wanted.manifest.sealed
    needed = sealed if wanted.until is None else min(wanted.until, sealed)
    return stream.end < needed
