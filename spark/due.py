"""Which streams of a bucket are due for a snapshot, told by the bucket alone."""

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from spark.options import Bucket, Options
from spark.planning import Sealed, Source
from spark.rules import Rule, first
from spark.shares import Share
from tiering.cold import index as indexes
from tiering.cold.catalog import Catalog, SealedStream, Selection
from tiering.cold.cover import Slice
from tiering.cold.index import Index
from tiering.cold.keys import parse_manifest_key
from tiering.errors import Corrupt, Refused
from tiering.gather import gather
from tiering.membership import BUCKETED, Member, member_of
from tiering.objects.store import ObjectStore
from tiering.offset import Offset
from tiering.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Due:
    """A stream that gets a snapshot at the end of what is sealed of it."""

    stream: SealedStream
    member: Member
    rule: Rule

    @property
    def at(self) -> Offset:
        return self.stream.at(self.stream.end)

    @property
    def previous(self) -> Snapshot | None:
        return self.stream.manifest.snapshot

    @property
    def media_type(self) -> str:
        return self.rule.fold.media_type(self.stream.manifest.content_type)

    @property
    def new_bytes(self) -> int:
        return self.stream.end - self.stream.start

    @property
    def obstacle(self) -> tuple[str, str] | None:
        """Why its history cannot be folded, whatever is in it."""
        previous, start = self.previous, self.stream.start
        if previous is None and start:
            return "damaged", f"nothing stands for what lies before {self.stream.at(start)}"
        if previous is not None and previous.position != start:
            return "damaged", f"its snapshot does not reach {self.stream.at(start)}"
        if previous is not None and not self.rule.fold.made(previous.content_type):
            return "other-fold", f"its snapshot is of another fold: {previous.content_type}"
        return None

    def share(self, number: int) -> Share:
        manifest = self.stream.manifest
        source = Source(manifest.name, manifest.log, manifest.content_type)
        sealed = tuple(Sealed(source, one) for one in self.stream.slices)
        return Share(number, self.rule.fold, self.previous, sealed)


@dataclass(slots=True)
class Plan:
    looked_at: int = 0
    due: list[Due] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Streams of buckets alone can have snapshots."""

    rules: Sequence[Rule]
    bucket: str | None = None
    stream: str = "*"

    @property
    def selection(self) -> Selection:
        pattern = f"{BUCKETED}/{self.bucket or '*'}/{self.stream}"
        chosen = Options(Bucket(""), pattern).selection
        return replace(
            chosen, wants=lambda name: chosen.wants(name) and self.rule(name) is not None
        )

    def rule(self, name: str) -> Rule | None:
        member = member_of(name)
        return None if member is None else first(self.rules, member)

    def elsewhere(self, name: str) -> bool:
        """A stream of that name that is in no bucket."""
        return member_of(name) is None and Options(Bucket(""), self.stream).selection.wants(name)


async def plan(bucket: Bucket, wanted: Wanted) -> Plan:
    async with bucket.open() as store:
        return await Planner(store, wanted).plan()


async def has_lost_its_snapshot(bucket: Bucket, due: Due) -> bool:
    """Whether the object is missing that still counts; most are missed because they do not."""
    if due.previous is None:
        return False
    async with bucket.open() as store:
        one = Selection(due.stream.name, True, lambda name: name == due.stream.name)
        now = await Catalog(store).streams(one, int(time.time() * 1000))
        is_in_force = [stream.manifest.snapshot for stream in now] == [due.previous]
        return is_in_force and await store.head(due.previous.key) is None


class Planner:
    def __init__(self, store: ObjectStore, wanted: Wanted) -> None:
        self._store = store
        self._wanted = wanted
        self._now_ms = int(time.time() * 1000)

    async def plan(self) -> Plan:
        found = Plan()
        streams = await self._streams(found)
        found.looked_at = len(streams) + len(found.damaged)
        if not found.looked_at and self._wanted.bucket is None and self._wanted.stream != "*":
            await self._say_where_it_is()
        due = await gather(self._due(found, one) for one in streams)
        found.due = [one for one in due if one is not None]
        return found

    async def _streams(self, found: Plan) -> list[SealedStream]:
        """What is missing of one stream does not concern the others."""
        catalog, wanted = Catalog(self._store), self._wanted.selection
        try:
            return await catalog.streams(wanted, self._now_ms)
        except Corrupt:
            names = [name async for name in self._names(wanted)]
            alone = await gather(self._alone(found, catalog, name) for name in names)
            return [one for each in alone for one in each]

    async def _alone(self, found: Plan, catalog: Catalog, name: str) -> list[SealedStream]:
        try:
            one = Selection(name, True, lambda other: other == name)
            return await catalog.streams(one, self._now_ms)
        except Corrupt as error:
            found.damaged.append((name, str(error)))
            return []

    async def _names(self, wanted: Selection) -> AsyncIterator[str]:
        last = None
        async for info in self._store.list(f"manifest/{wanted.folder}"):
            key = parse_manifest_key(info.key)
            if key is not None and key[0] != last and wanted.wants(key[0]):
                last = key[0]
                yield last

    async def _say_where_it_is(self) -> None:
        everything = Selection("", False, self._wanted.elsewhere)
        async for name in self._names(everything):
            raise Refused(
                f"{name!r} is in no bucket: only streams of /ds/BUCKET/ can have snapshots"
            )

    async def _due(self, found: Plan, stream: SealedStream) -> Due | None:
        member, rule = member_of(stream.name), self._wanted.rule(stream.name)
        assert member is not None
        assert rule is not None
        try:
            if stream.end > stream.start and await self._is_due(stream, rule):
                return Due(stream, member, rule)
        except Corrupt as error:
            found.damaged.append((stream.name, str(error)))
        return None

    async def _is_due(self, stream: SealedStream, rule: Rule) -> bool:
        """The cheapest question first."""
        if not rule.has_limits:
            return True
        if rule.bytes is not None and stream.end - stream.start >= rule.bytes:
            return True
        if rule.age_secs is not None and await self._age_secs(stream) >= rule.age_secs:
            return True
        return rule.messages is not None and await self._has(stream, rule.messages)

    async def _age_secs(self, stream: SealedStream) -> float:
        """Of the oldest message that is in no snapshot."""
        index = await self._index(stream.slices[0])
        appends = zip(index.append_ends(), index.times_ms(), strict=True)
        oldest = next(time_ms for end, time_ms in appends if end > stream.start)
        return (self._now_ms - oldest) / 1000

    async def _has(self, stream: SealedStream, messages: int) -> bool:
        for one in stream.slices:
            index = await self._index(one)
            messages -= sum(one.start < end <= one.end for end in index.message_ends())
            if messages <= 0:
                return True
        return False

    async def _index(self, one: Slice) -> Index:
        key = one.piece.index_key
        return indexes.decode(await self._store.get(key), key)
