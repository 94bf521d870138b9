"""The job `ds-spark compact`: executors merge, the driver alone plans, begins and commits."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.deployment import Deployment
from spark.merging import Numbered, Result, cost, merge_all, shares
from tiering.cold.merge import Ground, Merged, Task, plan
from tiering.compaction import Compaction
from tiering.errors import Corrupt, Unavailable
from tiering.gather import gather
from tiering.hot.pipe import Pipe

BATCH_COST = 256 * 2**20
"""How much is begun at once: what a run that dies has done in vain."""

_REQUESTS_PER_PIECE = 2

Sessions = Callable[[], SparkSession]
Watch = Callable[["Progress"], None]


class Damage(msgspec.Struct, frozen=True):
    stream: str
    reason: str


class Summary(msgspec.Struct):
    """What there was of the streams that were looked at, and what there is now. Objects are told
    as pieces: each has a body and an index."""

    streams: int = 0
    streams_compacted: int = 0
    chunks_before: int = 0
    chunks_after: int = 0
    parts_before: int = 0
    parts_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    requests_saved: int = 0
    chunks_complete: int = 0
    lost: dict[str, int] = {}
    damaged: list[Damage] = []
    seconds: float = 0.0
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    batch: int
    batches: int
    tasks: int
    done: int
    total: int


@dataclass(slots=True)
class Tally:
    """Adds up what a run does."""

    summary: Summary
    compacted: set[str] = field(default_factory=set)
    lost: Counter[str] = field(default_factory=Counter)

    def saw(self, ground: Ground) -> None:
        chunks = sum(piece.kind == "chunk" for piece in ground.pieces)
        parts = len(ground.pieces) - chunks
        self.summary.streams += 1
        self.summary.chunks_complete += chunks
        self.summary.chunks_before += chunks
        self.summary.chunks_after += chunks
        self.summary.parts_before += parts
        self.summary.parts_after += parts

    def replaced(self, task: Task, old_bytes: int, new_bytes: int) -> None:
        summary = self.summary
        self.compacted.add(task.new.name)
        summary.parts_after -= len(task.old)
        if task.new.kind == "chunk":
            summary.chunks_after += 1
        else:
            summary.parts_after += 1
        summary.bytes_before += old_bytes
        summary.bytes_after += new_bytes
        summary.requests_saved += _REQUESTS_PER_PIECE * (len(task.old) - 1)

    def damaged(self, stream: str, reason: str) -> None:
        self.summary.damaged.append(Damage(stream, reason))

    def finished(self, began: float) -> Summary:
        self.summary.streams_compacted = len(self.compacted)
        self.summary.lost = dict(self.lost)
        self.summary.seconds = round(time.monotonic() - began, 3)
        return self.summary


async def compact(
    deployment: Deployment,
    sessions: Sessions,
    pattern: str = "*",
    *,
    is_dry_run: bool = False,
    batch_cost: int = BATCH_COST,
    watch: Watch = lambda progress: None,
) -> Summary:
    """Spark is not started before there is something to do; what there was may be old by then."""
    began = time.monotonic()
    async with deployment.redis_of_the_bucket() as pipe:
        job = Job(pipe, deployment, batch_cost)
        tasks = await job.plan(pattern)
        if is_dry_run:
            job.imagine(tasks)
        elif tasks:
            session = await asyncio.to_thread(sessions)
            job = Job(pipe, deployment, batch_cost)
            await job.run(await job.plan(pattern), session, watch)
        return job.tally.finished(began)


class Job:
    def __init__(self, pipe: Pipe, deployment: Deployment, batch_cost: int) -> None:
        self.tally = Tally(Summary())
        self._compaction = Compaction(pipe)
        self._deployment = deployment
        self._batch_cost = batch_cost

    async def plan(self, pattern: str) -> list[Task]:
        names = await self._compaction.names(pattern)
        return [task for tasks in await gather(map(self._plan, names)) for task in tasks]

    async def _plan(self, name: str) -> list[Task]:
        try:
            ground = await self._compaction.ground(name)
        except Corrupt as error:
            self.tally.damaged(name, str(error))
            return []
        if ground is None:
            return []
        self.tally.saw(ground)
        return plan(ground)

    def imagine(self, tasks: Iterable[Task]) -> None:
        """What objects lose in size by being fewer is not known before they are read."""
        for task in tasks:
            self.tally.replaced(task, task.size, task.size)
        self.tally.summary.is_dry_run = True

    async def run(self, tasks: Sequence[Task], session: SparkSession, watch: Watch) -> None:
        batches = list(_batches(tasks, self._batch_cost))
        done = 0
        for number, batch in enumerate(batches, start=1):
            begun = [task for task in batch if await self._has_begun(task)]
            watch(Progress(number, len(batches), len(begun), done, len(tasks)))
            results = await asyncio.to_thread(self._merge, session, begun)
            await self._commit(begun, results)
            done += len(batch)
            watch(Progress(number, len(batches), 0, done, len(tasks)))

    async def _has_begun(self, task: Task) -> bool:
        outcome = await self._compaction.begin(task)
        if outcome != "ok":
            self.tally.lost[outcome] += 1
        return outcome == "ok"

    def _merge(self, session: SparkSession, tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        bucket, context = self._deployment.bucket, session.sparkContext
        divided = shares(tasks, context.defaultParallelism * 2)

        def work(share: list[Numbered]) -> list[Result]:
            return merge_all(bucket, share)

        try:
            return context.parallelize(divided, len(divided)).flatMap(work).collect()
        except (Py4JError, PySparkException) as error:
            raise Unavailable(f"Spark did not do its work: {str(error).splitlines()[0]}") from error

    async def _commit(self, tasks: Sequence[Task], results: Iterable[Result]) -> None:
        """What could be merged is committed, whatever happened to the rest."""
        failed: list[str] = []
        for result in results:
            task = tasks[result.number]
            if result.merged is not None:
                await self._put_in_place(task, result.merged)
            elif not await self._compaction.is_current(task):
                self.tally.lost["moved"] += 1
            elif result.outcome == "damaged":
                self.tally.damaged(task.new.name, result.reason)
            else:
                failed.append(result.reason)
        if failed:
            raise Unavailable(failed[0])

    async def _put_in_place(self, task: Task, merged: Merged) -> None:
        outcome = await self._compaction.commit(task)
        if outcome == "ok":
            self.tally.replaced(task, merged.old_bytes, merged.new_bytes)
        else:
            self.tally.lost[outcome] += 1


def _batches(tasks: Sequence[Task], most: int) -> Iterator[list[Task]]:
    batch: list[Task] = []
    size = 0
    for task in tasks:
        if batch and size + cost(task) > most:
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += cost(task)
    if batch:
        yield batch
