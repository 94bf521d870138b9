"""The parts of a server that need both tiers, put together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ds_server.purge import Purger, caches, is_cached
from ds_server.settings import Settings
from tiering.buckets import Buckets
from tiering.cold.reader import ColdReader
from tiering.cold.sealer import Sealer
from tiering.errors import Refused
from tiering.forks import Forks
from tiering.hot.buckets import BucketDesk
from tiering.hot.graveyard import Graveyard
from tiering.hot.just_appended import JustAppended
from tiering.hot.keys import DEPLOYMENT
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import BACKLOG_BYTES, Pressure
from tiering.hot.recalls import RecallDesk
from tiering.hot.retention import RetentionDesk
from tiering.hot.sealing import SealingDesk
from tiering.hot.tail import TailCache
from tiering.hot.tier import HotTier
from tiering.janitor import Janitor
from tiering.objects.store import ObjectStore
from tiering.reader import Reader
from tiering.recalls import Recalls
from tiering.registry import Registry
from tiering.snapshots import Snapshots
from tiering.streams import Streams
from tiering.sweep import Sweep
from tiering.transcript import Transcript

_TAIL_CACHE_BYTES = 32 * 1024 * 1024
_JUST_APPENDED_BYTES = BACKLOG_BYTES


@dataclass(frozen=True, slots=True)
class Pipes:
    """Large reads and sealing have connections of their own, so that no append waits for them."""

    writes: Pipe
    reads: Pipe
    sealing: Pipe

    def __iter__(self) -> Iterator[Pipe]:
        yield from (self.writes, self.reads, self.sealing)

    async def insist_on_deployment(self) -> None:
        """From now on no other Redis will do, whatever answers at the address."""
        deployment = await self.sealing.call("GET", DEPLOYMENT)
        if deployment is None:
            raise Refused("Redis has lost what it held: 'ds-server recover' rebuilds it")
        for pipe in self:
            pipe.deployment = deployment

    @property
    def sent(self) -> int:
        return sum(pipe.sent for pipe in self)


@dataclass(frozen=True, slots=True)
class Assembly:
    pressure: Pressure
    cold: ColdReader
    streams: Streams
    buckets: Buckets
    snapshots: Snapshots
    transcript: Transcript
    sealer: Sealer
    janitor: Janitor
    sweep: Sweep
    recalls: Recalls
    purgers: Sequence[Purger]


def assemble(settings: Settings, store: ObjectStore, pipes: Pipes, *, is_durable: bool) -> Assembly:
    tiering, limits = settings.tiering, settings.limits
    pressure = Pressure(pipes.reads, limits.max_hot_bytes)
    just_appended = JustAppended(_JUST_APPENDED_BYTES)
    tier = HotTier(
        pipes.writes,
        pipes.reads,
        pressure,
        Logs(pipes.writes, is_durable=is_durable),
        grid=tiering.chunk_bytes,
        max_stream_bytes=limits.max_stream_bytes,
        just_appended=just_appended,
        is_cached=is_cached(settings),
    )
    cold = ColdReader(store, settings.cache.chunk_bytes)
    graves, desk = Graveyard(pipes.sealing), SealingDesk(pipes.sealing)
    tail, facts = TailCache(tier, _TAIL_CACHE_BYTES), SealingDesk(pipes.reads)
    reader = Reader(tier, tail, cold, facts)
    forks = Forks(tier, reader, facts)
    buckets = Buckets(BucketDesk(pipes.writes), store)
    streams = Streams(tier, tail, reader, forks, facts, store, Registry(tier), graves, buckets)
    retention = RetentionDesk(pipes.sealing)
    sealer = Sealer.on(
        pipes.sealing,
        store,
        pressure,
        is_durable=is_durable,
        seal_age_secs=tiering.seal_age_secs,
        just_appended=just_appended,
    )
    tier.attend = sealer.attend
    publishing = RetentionDesk(pipes.writes, is_cached=is_cached(settings))
    snapshots = Snapshots(streams, reader, publishing, graves, store, sealer.attend)
    transcript = Transcript(tier, facts, cold, reader)
    janitor = Janitor(graves, desk, retention, store, tiering.delete_grace_secs)
    purgers = caches(settings)
    recalls = Recalls(
        RecallDesk(pipes.sealing),
        desk,
        store,
        purgers,
        is_read_by_edges=settings.edge.secret is not None,
    )
    sweep = Sweep(desk, streams, sealer, janitor, buckets, recalls, tiering.sweep_secs)
    return Assembly(
        pressure,
        cold,
        streams,
        buckets,
        snapshots,
        transcript,
        sealer,
        janitor,
        sweep,
        recalls,
        purgers,
    )
