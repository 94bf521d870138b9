"""From options to partitions: which slices of which objects a query has to read."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from spark.options import Options
from tiering.cold import index as indexes
from tiering.cold.catalog import Catalog, SealedStream
from tiering.cold.cover import Slice
from tiering.cold.index import Index
from tiering.cold.keys import Piece
from tiering.cold.manifest import Manifest
from tiering.errors import Gone, Invalid
from tiering.gather import gather
from tiering.objects.store import ObjectStore
from tiering.offset import ZERO, Offset, ReadFrom

REQUEST_BYTES = 64 * 1024
"""What a request costs, in bytes that could have been read instead."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose rows they are. `log` is the stream's own, in which it tells all its offsets."""

    name: str
    log: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows from an object."""

    source: Source
    slice: Slice

    @property
    def cost(self) -> int:
        """A piece is read whole, to be compared with its checksums."""
        return self.slice.piece.end - self.slice.piece.start + REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Tail:
    """Rows that are not in object storage yet, from where that ends."""

    source: Source
    start: int
    end: int | None
    cost: int = 2**20


Work = Sealed | Tail


class Partition(InputPartition):
    """What one task reads, in this order."""

    def __init__(self, work: tuple[Work, ...]) -> None:
        super().__init__(work)
        self.work = work


async def plan(options: Options, store: ObjectStore) -> list[Partition]:
    streams = await Planner(options, store).streams()
    return list(partitions(options, streams)) or _unheard_of(options)


def _unheard_of(options: Options) -> list[Partition]:
    """A stream that is asked for by its name may be so new that only the server knows it."""
    if options.server is None or not options.selection.is_whole:
        return []
    start = options.start if isinstance(options.start, Offset) else ZERO
    end = options.until.position if isinstance(options.until, Offset) else None
    source = Source(options.stream, start.log, "")
    return [Partition((Tail(source, start.position, end),))]


@dataclass(frozen=True, slots=True)
class Planned:
    """A stream, and what of it is wanted."""

    stream: SealedStream
    start: int
    end: int | None
    slices: tuple[Slice, ...]

    @property
    def source(self) -> Source:
        manifest = self.stream.manifest
        return Source(manifest.name, manifest.log, manifest.content_type)

    def work(self, *, with_tail: bool) -> Iterator[Work]:
        for one in self.slices:
            yield Sealed(self.source, one)
        sealed = self.stream.end
        if with_tail and (self.end is None or self.end > sealed):
            yield Tail(self.source, max(self.start, sealed), self.end)


class Planner:
    """Reads no index, unless `since` has to be looked for."""

    def __init__(self, options: Options, store: ObjectStore) -> None:
        self._options = options
        self._store = store

    async def streams(self) -> list[Planned]:
        now_ms = int(time.time() * 1000)
        found = await Catalog(self._store).streams(self._options.selection, now_ms)
        return await gather(self._plan(stream) for stream in found)

    async def _plan(self, stream: SealedStream) -> Planned:
        options = self._options
        start, end = stream.start, None
        if options.start is not None:
            start = position_of(options.start, stream.manifest)
        if options.until is not None:
            end = position_of(options.until, stream.manifest)
        wanted = list(between(stream.slices, start, end))
        if options.since_ms is not None:
            wanted = await self._since(wanted, options.since_ms, stream.manifest)
        return Planned(stream, start, end, tuple(wanted))

    async def _since(self, slices: list[Slice], since_ms: int, manifest: Manifest) -> list[Slice]:
        """Times grow along a stream, so the first piece that reaches `since` is found by halving:
        of a thousand pieces ten indexes are read."""
        first, last = 0, len(slices)
        if manifest.created_ms >= since_ms and not manifest.ancestors:
            return slices
        while first < last:
            middle = (first + last) // 2
            index = await self._index(slices[middle].piece)
            if max(index.times_ms(), default=0) < since_ms:
                first = middle + 1
            else:
                last = middle
        return slices[first:]

    async def _index(self, piece: Piece) -> Index:
        return indexes.decode(await self._store.get(piece.index_key), piece.index_key)


def position_of(token: ReadFrom, manifest: Manifest) -> int:
    """Where an offset points, by the rules of the HTTP surface; but how far the stream goes is not
    known here."""
    if not isinstance(token, Offset):
        return manifest.earliest
    position = _in_chain(token, manifest)
    if position < manifest.earliest:
        resume = Offset(manifest.log, manifest.earliest)
        raise Gone(f"{token} lies before what {manifest.name} retains: {resume}.", resume)
    return position


def _in_chain(token: Offset, manifest: Manifest) -> int:
    if token.log == manifest.log:
        return token.position
    for ancestor in manifest.ancestors:
        if token.log != ancestor.log:
            continue
        if token.position <= ancestor.border:
            return token.position
        resume = Offset(manifest.log, ancestor.border)
        if ancestor.kind == "recovery":
            raise Gone(f"What {manifest.name} had at {token} was lost: go on at {resume}.", resume)
        raise Invalid(f"{token} lies beyond where {manifest.name} was forked.")
    resume = Offset(manifest.log, manifest.earliest)
    raise Gone(f"{token} is no offset of {manifest.name}: its history has other logs.", resume)


def between(slices: Iterable[Slice], start: int, end: int | None) -> Iterator[Slice]:
    for one in slices:
        first = max(one.start, start)
        last = one.end if end is None else min(one.end, end)
        if first < last:
            yield replace(one, start=first, end=last)


def partitions(options: Options, streams: Iterable[Planned]) -> Iterator[Partition]:
    """Pieces in their order, as many as `partitionBytes` allows, and at least one."""
    ready: list[Work] = []
    cost = 0
    for stream in streams:
        for work in stream.work(with_tail=options.server is not None):
            if ready and cost + work.cost > options.partition_bytes:
                yield Partition(tuple(ready))
                ready, cost = [], 0
            ready.append(work)
            cost += work.cost
    if ready:
        yield Partition(tuple(ready))
