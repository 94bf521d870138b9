"""Rebuilds the hot tier from object storage alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from tiering.buckets import VERSION as BUCKET_VERSION
from tiering.buckets import Bucket
from tiering.cold import inventory
from tiering.cold import manifest as manifests
from tiering.cold.index import fold_closer
from tiering.cold.inventory import Holdings
from tiering.cold.keys import BUCKETS, Piece, manifest_key
from tiering.cold.manifest import Manifest
from tiering.cold.trail import Trail
from tiering.deployment import cold_id
from tiering.errors import Corrupt, Refused
from tiering.forks import loan
from tiering.gather import gather
from tiering.hot.buckets import BucketDesk
from tiering.hot.graveyard import Graveyard
from tiering.hot.keys import ANY, DEPLOYMENT, LOG_COUNTER, LOSSES, RECOVERING, stream_keys
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe
from tiering.hot.restorer import Recovered, Restorer
from tiering.hot.retention import RetentionDesk
from tiering.hot.sealing import sealed_member
from tiering.losses import Losses, Missing
from tiering.membership import member_of
from tiering.objects.counted import CountedStore
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.stream import Ancestor, ContentType

_CLIENT_NAME = "ds-recover"

Progress = Callable[[int, int], None]


class Report(msgspec.Struct):
    objects: int = 0
    streams: int = 0
    recovered: int = 0
    already_there: int = 0
    in_new_logs: int = 0
    closed: int = 0
    empty: int = 0
    deleted: int = 0
    recovered_bytes: int = 0
    requests: dict[str, int] = msgspec.field(default_factory=dict)
    missing: list[Missing] = msgspec.field(default_factory=list)
    damaged: list[str] = msgspec.field(default_factory=list)
    left_alone: list[str] = msgspec.field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not (self.missing or self.damaged)


@dataclass(slots=True)
class Plan:
    """What is known of a name. `since` is where the oldest of what is read through it begins.
    `end` is where it turns out to end, if it comes back, and `reach` where its data end that lie
    before what it retains itself."""

    holdings: Holdings
    manifest: Manifest
    since: int
    is_needed: bool = False
    is_hidden: bool = False
    end: int | None = None
    reach: int = 0

    def end_for(self, fork: Manifest) -> int | None:
        """What a fork was made of may be older than what the source retains."""
        return self.reach if fork.earliest < self.manifest.earliest else self.end


class Recovery:
    """Can be interrupted and run again: a stream that is there already stays as it is, and until
    all are there no server takes this Redis for its own."""

    def __init__(self, pipe: Pipe, store: ObjectStore, *, is_durable: bool) -> None:
        self._pipe = pipe
        self._store = CountedStore(store)
        self._logs = Logs(pipe, is_durable=is_durable)
        self._restorer = Restorer(pipe, self._logs.run)
        self._graves = Graveyard(pipe)
        self._retention = RetentionDesk(pipe)
        self._buckets = BucketDesk(pipe)
        self._report = Report()
        self._losses = Losses(pipe)
        self._trail = Trail(self._store, self._losses.add)

    async def run(self, progress: Progress = lambda done, all: None) -> Report:
        deployment = await self._begin()
        await self._losses.recall()
        if await self._pipe.call("GET", DEPLOYMENT) == deployment:
            return self._finished()
        found = await inventory.take(self._store)
        self._report.objects = sum(holdings.count for holdings in found.values())
        self._report.streams = len(found)
        await self._raise_counter(log for holdings in found.values() for log in holdings.logs)
        plans = await self._plan(list(found.values()))
        await self._recover_all(plans, progress)
        await self._recover_buckets(plans)
        await self._losses.keep()
        await self._pipe.call("SET", DEPLOYMENT, deployment)
        return self._finished()

    async def was_told(self) -> None:
        """Until then, another run would tell it again."""
        await self._pipe.call("DEL", RECOVERING, LOSSES)

    def _finished(self) -> Report:
        self._report.requests = dict(self._store.requests)
        self._report.missing = self._losses.missing
        self._report.damaged = self._losses.damaged
        return self._report

    async def _begin(self) -> bytes:
        deployment = await cold_id(self._store)
        if deployment is None:
            raise Refused("the bucket holds no deployment: there is nothing to recover from")
        await self._be_alone()
        begun = await self._pipe.call("GET", RECOVERING)
        if begun == deployment:
            return deployment
        if await self._pipe.call("GET", DEPLOYMENT) == deployment:
            raise Refused("Redis holds this deployment already: there is nothing to recover")
        if not await self._is_empty():
            raise Refused("Redis holds something else: recover into an empty one")
        await self._pipe.call("SET", RECOVERING, deployment)
        return deployment

    async def _be_alone(self) -> None:
        """A connection's name goes with the process that has it."""
        await self._pipe.call("CLIENT", "SETNAME", _CLIENT_NAME)
        clients = await self._pipe.call("CLIENT", "LIST")
        if clients.count(b" name=%b " % _CLIENT_NAME.encode()) > 1:
            raise Refused("another recovery is running")

    async def _is_empty(self) -> bool:
        async for _ in self._pipe.scan(ANY):
            return False
        return True

    async def _raise_counter(self, logs: Iterable[int]) -> None:
        known = int(await self._pipe.call("GET", LOG_COUNTER) or 0)
        await self._pipe.call("SET", LOG_COUNTER, max(known, *logs, 0))

    async def _plan(self, all_holdings: list[Holdings]) -> dict[str, Plan]:
        """What to do with each name: a source that forks read through comes back with them."""
        newest = await gather(self._newest(holdings) for holdings in all_holdings)
        now = await self._graves.now_ms()
        plans = {
            holdings.name: Plan(holdings, manifest, manifest.earliest)
            for holdings, manifest in zip(all_holdings, newest, strict=True)
            if manifest is not None
        }
        alive = [plan for plan in plans.values() if not plan.manifest.is_over(now)]
        for plan in alive:
            plan.is_needed = True
        for plan in alive:
            _call_back(plan, plans)
            _reach_back(plan, plans)
        for plan in plans.values():
            if not plan.is_needed:
                self._report.deleted += 1
                await self._declare_dead(plan.holdings, plan.holdings.logs, now)
        return plans

    async def _newest(self, holdings: Holdings) -> Manifest | None:
        """The newest log of a name is the stream."""
        if not holdings.manifests:
            found = holdings.bodies or holdings.indexes or holdings.snapshots
            self._report.left_alone.extend(sorted(found))
            return None
        key = manifest_key(holdings.name, max(holdings.manifests))
        try:
            return manifests.decode(await self._store.get(key), key)
        except Corrupt as error:
            self._losses.add(str(error))
            return None

    async def _recover_all(self, plans: dict[str, Plan], progress: Progress) -> None:
        """Sources before their forks."""
        needed = [plan for plan in plans.values() if plan.is_needed]
        done = 0

        async def recover(plan: Plan) -> None:
            nonlocal done
            await self._recover(plan, plans)
            done += 1
            progress(done, len(needed))

        for _, generation in groupby(sorted(needed, key=_depth), key=_depth):
            await gather(recover(plan) for plan in generation)

    async def _recover(self, plan: Plan, plans: dict[str, Plan]) -> None:
        """Logs that the newest one does not come from are dead."""
        holdings, manifest = plan.holdings, plan.manifest
        if (end := await self._restorer.end_of(holdings.name)) is not None:
            # Another manifest now would outrank the log that Redis has.
            self._report.already_there += 1
            plan.end = plan.reach = end
            return
        now = await self._graves.now_ms()
        await self._declare_dead(holdings, holdings.logs - manifest.logs, now)
        parent = manifest.parent
        if parent is not None:
            source = plans.get(parent.name)
            source_end = source.end_for(manifest) if source is not None else None
            if source_end is None:
                self._losses.add(f"{manifest.name} is a fork of {parent.name}, which is missing.")
                return
            manifest = self._shortened(manifest, source_end)
        if manifest.border > 0:
            await self._lend(manifest, now)
        await self._restore(plan, manifest, now)

    def _shortened(self, fork: Manifest, source_end: int) -> Manifest:
        """A fork cannot begin behind the end of what came back of its source."""
        if source_end >= fork.border:
            return fork
        lost = Missing(fork.name, fork.tail - source_end, source_end, "its source was cut short")
        self._losses.add(lost)
        ancestors = tuple(
            replace(one, border=min(one.border, source_end)) for one in fork.ancestors
        )
        return msgspec.structs.replace(
            fork, ancestors=ancestors, tail=source_end, sealed=source_end, closed=False
        )

    async def _lend(self, fork: Manifest, now: int) -> None:
        assert fork.parent is not None
        keys = stream_keys(fork.parent.name)
        first = next(log for log, _ in fork.own_logs())
        await self._pipe.call("ZADD", keys.loans, "NX", now, loan(fork.name, first))
        await self._pipe.call("HSET", keys.meta, "lent", fork.parent.border)

    async def _declare_dead(self, holdings: Holdings, logs: Iterable[int], now: int) -> None:
        for log in logs:
            await self._graves.declare(holdings.name, log, now)

    async def _restore(self, plan: Plan, manifest: Manifest, now: int) -> None:
        holdings = plan.holdings
        since = min(plan.since, manifest.earliest)
        wanted = msgspec.structs.replace(manifest, earliest=since)
        pieces, index = await self._trail.follow(holdings, wanted)
        plan.reach = pieces[-1].end if pieces else max(since, manifest.border)
        plan.end = end = max(plan.reach, manifest.earliest)
        if plan.reach < end and since == manifest.earliest:
            pieces = []  # A snapshot stands for all of them.
        manifest = msgspec.structs.replace(manifest, deleted=plan.is_hidden)
        is_whole = manifest.closed and end == manifest.tail
        if is_whole:
            known = msgspec.structs.replace(manifest, sealed=end)
        else:
            known = await self._succeed(manifest, end)
        await self._losses.keep()
        if known != manifest:
            await self._store.put(manifest_key(known.name, known.log), known.encode())
        producers = fold_closer(index.producers if index else {}, known.closed_by)
        written_ms = index.times_ms()[-1] if index else known.created_ms
        stream = Recovered(known, pieces, producers, index.seq if index else "", written_ms)
        # The stream comes last: who finds it there leaves it as it is.
        await self._restore_snapshots(holdings, known)
        await self._shed(holdings, known, pieces, now)
        await self._losses.keep()
        await self._restorer.restore(stream, now)
        self._account(stream, is_whole)

    async def _shed(
        self, holdings: Holdings, manifest: Manifest, pieces: list[Piece], now: int
    ) -> None:
        """Pieces that others have taken the place of, or that are not retained, go in time."""
        retained = manifest.earliest
        if any(piece.end <= retained for piece in pieces):
            await self._retention.look_behind(manifest.name, retained, now)
        kept = {piece.key for piece in pieces}
        for piece in holdings.pieces(ContentType(manifest.content_type)):
            is_known = piece.log in manifest.logs and piece.end <= manifest.sealed
            if is_known and piece.key not in kept:
                await self._retention.intend(manifest.name, sealed_member(piece), 0)

    async def _restore_snapshots(self, holdings: Holdings, manifest: Manifest) -> None:
        """Those that are not in force, or not any more, go in time."""
        current = manifest.snapshot
        if current is not None and await self._store.head(current.key) is None:
            self._losses.add(f"{current.key}, the snapshot of {manifest.name}, is missing.")
        for key in holdings.snapshots:
            if current is None or key != current.key:
                await self._retention.intend(manifest.name, key, 0)

    async def _recover_buckets(self, plans: dict[str, Plan]) -> None:
        """Those that object storage knows of, and those that streams came back to."""
        now = await self._graves.now_ms()
        stored = [info.key async for info in self._store.list(BUCKETS)]
        for bucket in await gather(self._bucket(key, now) for key in stored):
            await self._buckets.create(bucket.bucket_id, bucket.created_ms)
        for plan in plans.values():
            member = member_of(plan.manifest.name)
            if member is not None and plan.end is not None and not plan.is_hidden:
                await self._buckets.create(member.bucket, now)
                first = next(log for log, _ in plan.manifest.own_logs())
                await self._buckets.join(member, first, exists=True)

    async def _bucket(self, key: str, now: int) -> Bucket:
        name = key.removeprefix(BUCKETS)
        try:
            return msgspec.json.decode(await self._store.get(key), type=Bucket)
        except (msgspec.DecodeError, ObjectMissing) as error:
            self._losses.add(f"{key} is not what was written: {error}")
            return Bucket(BUCKET_VERSION, name, now)

    async def _succeed(self, manifest: Manifest, end: int) -> Manifest:
        """What stood beyond the end may have been told to readers: another log goes on."""
        self._note_loss(manifest, end)
        past = (*manifest.ancestors, Ancestor(manifest.log, end, "recovery"))
        return msgspec.structs.replace(
            manifest,
            log=await self._logs.mint(),
            ancestors=tuple(replace(old, border=min(old.border, end)) for old in past),
            tail=end,
            sealed=end,
            closed=False,
            closed_by="",
        )

    def _note_loss(self, manifest: Manifest, end: int) -> None:
        if manifest.tail > end:
            reason = "its end was in Redis only"
            if manifest.sealed > end:
                reason = "objects are missing or damaged"
            lost = Missing(manifest.name, manifest.tail - end, end, reason)
            self._losses.add(lost)

    def _account(self, stream: Recovered, is_whole: bool) -> None:
        report = self._report
        report.recovered += 1
        report.in_new_logs += not is_whole
        report.closed += is_whole
        report.empty += not stream.pieces
        report.recovered_bytes += stream.manifest.sealed - stream.manifest.border


def _call_back(plan: Plan, plans: dict[str, Plan]) -> None:
    """Sources that are over come back for their forks alone."""
    parent = plan.manifest.parent
    source = plans.get(parent.name) if parent is not None else None
    if source is not None and not source.is_needed:
        source.is_needed = source.is_hidden = True
        _call_back(source, plans)


def _reach_back(plan: Plan, plans: dict[str, Plan]) -> None:
    """A source keeps for its forks what it does not retain itself."""
    parent = plan.manifest.parent
    source = plans.get(parent.name) if parent is not None else None
    if parent is not None and source is not None and plan.since < min(parent.border, source.since):
        source.since = plan.since
        _reach_back(source, plans)


def _depth(plan: Plan) -> int:
    return sum(one.kind == "fork" for one in plan.manifest.ancestors)
