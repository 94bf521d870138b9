"""What the server counts. Workers write to shared files, so any of them can tell for all."""

import asyncio
import contextlib
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from cdn import policy
from ds_server.schedule import Schedule

_FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_PERIOD_SECS = 0.1
_LAG_PERIOD_SECS = 0.02
_TASKS_PERIOD_SECS = 1.0


class Durations:
    """The library takes observations only one by one, at ten times the price."""

    def __init__(self) -> None:
        self._total = 0.0
        self._counts = [0] * (len(_FAST) + 1)

    def add(self, seconds: float) -> None:
        self._total += seconds
        self._counts[bisect_left(_FAST, seconds)] += 1

    def hand_over(self, histogram: Histogram) -> None:
        histogram._sum.inc(self._total)
        for bucket, count in zip(histogram._buckets, self._counts, strict=True):
            bucket.inc(count)


class Tally:
    """Counted on the hot path in plain integers, handed over by the sampler."""

    def __init__(self) -> None:
        self._start_again()

    def _start_again(self) -> None:
        self._appends = 0
        self._bytes = 0
        self._append_times = Durations()
        self._delivery_times = Durations()
        self._lags = Durations()
        self._holds = Durations()

    def appended(self, size: int, seconds: float) -> None:
        self._appends += 1
        self._bytes += size
        self._append_times.add(seconds)

    def delivered(self, seconds: float) -> None:
        self._delivery_times.add(seconds)

    def lagged(self, seconds: float, of_its_own: float) -> None:
        self._lags.add(seconds)
        self._holds.add(of_its_own)

    def hand_over(self) -> None:
        APPENDS.inc(self._appends)
        APPENDED_BYTES.inc(self._bytes)
        self._append_times.hand_over(APPEND_SECONDS)
        self._delivery_times.hand_over(DELIVERY_SECONDS)
        self._lags.hand_over(LOOP_LAG_SECONDS)
        self._holds.hand_over(LOOP_HELD_SECONDS)
        self._start_again()


TALLY = Tally()
APPENDS = Counter("ds_appends", "Appends that were answered with success")
APPENDED_BYTES = Counter("ds_appended_bytes", "Bytes of bodies that were appended")
APPEND_SECONDS = Histogram("ds_append_seconds", "From a whole request to its answer", buckets=_FAST)
READS = Counter("ds_reads", "Reads that were answered, by kind", ["kind"])
FOLLOWERS = Gauge(
    "ds_live_followers", "Readers that wait now", ["mode"], multiprocess_mode="livesum"
)
FEEDS = Gauge("ds_live_streams", "Streams that are heard now", multiprocess_mode="livesum")
DELIVERY_SECONDS = Histogram(
    "ds_delivery_seconds", "From a wake-up to the follower's socket", buckets=_FAST
)
ROUND_TRIPS = Counter("ds_redis_round_trips", "Commands sent to Redis")
OBJECT_REQUESTS = Counter("ds_object_requests", "Requests to object storage, by kind", ["kind"])
HOT_BYTES = Gauge("ds_hot_bytes", "Memory that Redis uses", multiprocess_mode="mostrecent")
LOOP_LAG_SECONDS = Histogram(
    "ds_event_loop_lag_seconds", "How late the event loop comes round", buckets=_FAST
)
LOOP_HELD_SECONDS = Histogram(
    "ds_event_loop_held_seconds",
    "Work without a pause of the event loop; waiting for a processor is not counted",
    buckets=_FAST,
)
PURGES = Counter("ds_purges", "Caches that were asked to forget a stream", ["outcome"])
PURGES_PENDING = Gauge(
    "ds_purges_pending",
    "Deleted streams, and such with a new snapshot, that some cache may still have",
    multiprocess_mode="mostrecent",
)
TASKS = Gauge("ds_tasks", "Tasks of the event loops", multiprocess_mode="livesum")
ERRORS = Counter("ds_errors", "Requests that were refused, by kind", ["kind"])

CHUNK = READS.labels("chunk")
HANDED_OFF = READS.labels("handed_off")
TAIL = READS.labels("tail")
NOT_MODIFIED = READS.labels("not_modified")
LONG_POLL = READS.labels("long_poll")
LONG_POLL_EMPTY = READS.labels("long_poll_empty")
SSE = READS.labels("sse")
HEAD = READS.labels("head")
SNAPSHOTS_READ = READS.labels("snapshot")
BOOTSTRAPS = READS.labels("bootstrap")
SNAPSHOTS_PUBLISHED = Counter("ds_snapshots_published", "Snapshots that were published")
LONG_POLL_FOLLOWERS = FOLLOWERS.labels("long_poll")
SSE_FOLLOWERS = FOLLOWERS.labels("sse")
PURGED = PURGES.labels("done")
PURGE_FAILED = PURGES.labels("failed")


async def sample(*samplers: Callable[[], None]) -> None:
    """Takes over what is counted elsewhere, for ever."""
    while True:
        await asyncio.sleep(_PERIOD_SECS)
        for sampler in samplers:
            sampler()


async def count_tasks() -> None:
    """Seldom: with thousands of them it takes a millisecond."""
    while True:
        TASKS.set(len(asyncio.all_tasks()))
        await asyncio.sleep(_TASKS_PERIOD_SECS)


async def watch_lag() -> None:
    """Often: what holds the loop is short, and is to be seen."""
    with contextlib.closing(Schedule()) as schedule:
        while True:
            before, worked, waited = time.perf_counter(), time.thread_time(), schedule.waited()
            await asyncio.sleep(_LAG_PERIOD_SECS)
            lag = max(0.0, time.perf_counter() - before - _LAG_PERIOD_SECS)
            worked, waited = time.thread_time() - worked, schedule.waited() - waited
            TALLY.lagged(lag, max(await _round_secs(), min(worked, lag - waited)))


async def _round_secs() -> float:
    """Processor time of one round of the loop."""
    began = time.thread_time()
    await asyncio.sleep(0)
    return time.thread_time() - began


@contextlib.asynccontextmanager
async def sampling(*samplers: Callable[[], None]) -> AsyncIterator[None]:
    samplers = (TALLY.hand_over, *samplers)
    tasks = [
        asyncio.create_task(forever) for forever in (sample(*samplers), watch_lag(), count_tasks())
    ]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    for sampler in samplers:
        sampler()


def difference(count: Callable[[], int], counter: Counter) -> Callable[[], None]:
    """Hands on by how much `count` has grown since the last time."""
    last = 0

    def sampler() -> None:
        nonlocal last
        last, before = count(), last
        counter.inc(last - before)

    return sampler


def differences(counts: Mapping[str, int], counter: Counter) -> Iterator[Callable[[], None]]:
    for kind in ("get", "put", "head", "list", "delete"):
        yield difference(lambda kind=kind: counts[kind], counter.labels(kind))  # type: ignore[misc]


async def metrics(request: web.Request) -> web.Response:
    body = await asyncio.to_thread(_collect)
    answer = {"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": policy.NO_STORE}
    return web.Response(body=body, headers=answer)


def _collect() -> bytes:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def add_routes(app: web.Application) -> None:
    app.router.add_get("/metrics", metrics)
