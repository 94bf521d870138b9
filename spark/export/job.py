"""The job `ds-spark export`: executors write drafts, the driver alone puts files in place."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec
from pyspark.sql.types import StructType

from spark.export.directory import Directory
from spark.export.harvest import Crop, harvest
from spark.export.planning import TASK_COST, Due, Task, batches, due, tasks
from spark.export.state import VERSION, State
from spark.export.summary import Summary, Tally
from spark.export.workforce import Workforce
from spark.export.writing import Setting
from spark.options import Bucket, Options
from tiering.cold.catalog import Catalog, Survey, deployment_of
from tiering.errors import Corrupt, Refused, Unavailable
from tiering.offset import Offset

_TASKS_PER_CORE = 2
_MORE_LOOKS = 2

Watch = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to export to where. `fields` None: as the directory was begun."""

    bucket: Bucket
    directory: Directory
    pattern: str = "*"
    fields: str | None = None
    task_cost: int = TASK_COST


@dataclass(frozen=True, slots=True)
class Progress:
    """In bytes of the streams."""

    batch: int
    batches: int
    done: int
    total: int


def export(
    wish: Wish, workers: Callable[[], Workforce], watch: Watch = lambda progress: None
) -> Summary:
    """Nobody is called to work unless there is something to do."""
    with wish.directory.open():
        job = Job(wish, workers, watch)
        job.run()
        return job.tally.finished()


def imagine(wish: Wish) -> Summary:
    """What an export would do. Changes nothing."""
    job = Job(wish, _nobody, lambda progress: None)
    for one in job.plan():
        job.tally.noted(one)
        job.tally.imagined(one)
    summary = job.tally.finished()
    summary.is_dry_run = True
    return summary


def _nobody() -> Workforce:
    raise AssertionError("there is nothing to do")


class Job:
    def __init__(self, wish: Wish, workers: Callable[[], Workforce], watch: Watch) -> None:
        self.tally = Tally()
        self._wish = wish
        self._directory = wish.directory
        self._workers = workers
        self._watch = watch
        self._workforce: Workforce | None = None
        self._fields = ""
        self._schema = StructType()
        self._state = State(VERSION, "")
        self._removed: dict[str, str] = {}

    def plan(self) -> list[Due]:
        """As if what is pending were in place."""
        deployment, survey = asyncio.run(self._survey())
        self._state = self._agreed(deployment).settled()
        return self._due(survey)

    def run(self) -> None:
        """Pieces that were removed after they were listed are looked for again: a compaction or a
        snapshot put others in their place. What is missing again and again is lost."""
        deployment, survey = asyncio.run(self._survey())
        self._state = self._agreed(deployment)
        self.tally.summary.files_of_interrupted_run = len(self._state.pending.files)
        self._state = self._directory.settle(self._state)
        self._export(self._due(survey))
        for _ in range(_MORE_LOOKS):
            if self._removed:
                _, survey = asyncio.run(self._survey())
                self._export(self._due(survey))
        for name, reason in self._removed.items():
            self.tally.damaged(name, reason)

    async def _survey(self) -> tuple[str, Survey]:
        selection = Options(self._wish.bucket, stream=self._wish.pattern).selection
        async with self._wish.bucket.open() as store:
            deployment = await deployment_of(store)
            survey = await Catalog(store).survey(selection, int(time.time() * 1000))
        return deployment.decode(), survey

    def _agreed(self, deployment: str) -> State:
        """The state of a directory belongs to one bucket, and its files have one schema."""
        wanted, root = self._wish.fields, self._directory.root
        state = self._directory.state() or State(VERSION, deployment)
        if state.deployment != deployment:
            raise Refused(f"{root} holds an export of another deployment: take another directory")
        self._fields = " ".join((wanted or "").split()) if state.fields is None else state.fields
        if wanted is not None and " ".join(wanted.split()) != self._fields:
            was = f"--schema {self._fields!r}" if self._fields else "no --schema"
            raise Refused(f"{root} was begun with {was}: take another directory")
        return state

    def _due(self, survey: Survey) -> list[Due]:
        found = []
        for name, error in survey.damaged.items():
            self.tally.damaged(name, str(error))
        for stream in survey.streams:
            self.tally.looked_at.add(stream.name)
            try:
                found.append(due(stream, self._state.reached(stream.name)))
            except Corrupt as error:
                self.tally.damaged(stream.name, str(error))
        return [one for one in found if one.name not in self.tally.broken]

    def _export(self, streams: Sequence[Due]) -> None:
        self._removed = {}
        has_work = any(one.slices for one in streams)
        if has_work and self._workforce is None:
            self._workforce = self._workers()
            self._schema = self._workforce.schema(self._fields)
        self._go_on_from(streams)
        if has_work and self._workforce is not None:
            self._export_with(self._workforce, streams)

    def _export_with(self, workforce: Workforce, streams: Sequence[Due]) -> None:
        cores = workforce.parallelism
        planned = list(tasks(streams, cores, self._wish.task_cost))
        batched = list(batches(planned, cores * _TASKS_PER_CORE))
        done, total = 0, sum(one.size for one in streams)
        for number, batch in enumerate(batched, start=1):
            self._watch(Progress(number, len(batched), done, total))
            self._export_batch(workforce, batch)
            done += sum(one.end - one.start for task in batch for one in task)
        self._watch(Progress(len(batched), len(batched), done, total))

    def _go_on_from(self, streams: Sequence[Due]) -> None:
        """Notes where streams go on that did not simply end there, so that a gap is told once."""
        moved = {}
        for one in streams:
            self.tally.noted(one)
            reached = self._state.reached(one.name)
            if one.start != (reached or Offset(one.start.log, 0)):
                moved[one.name] = one.start
        if moved:
            self._state = self._directory.commit(self._state.noting(streams), [], moved)

    def _export_batch(self, workforce: Workforce, batch: Sequence[Task]) -> None:
        """Behind a place where a stream could not be read nothing of it is exported."""
        stopped, numbers = self.tally.broken | self._removed.keys(), count()
        shares = [
            [(next(numbers), one) for one in task if one.source.name not in stopped]
            for task in batch
        ]
        setting = Setting(self._wish.bucket, self._directory.drafts, self._schema)
        results = workforce.write(setting, [share for share in shares if share])
        self._commit(harvest([one for share in shares for one in share], results))

    def _commit(self, crop: Crop) -> None:
        if crop.reached:
            state = msgspec.structs.replace(self._state, fields=self._fields)
            self._state = self._directory.commit(state, crop.files, crop.reached)
        for segment, result in crop.taken:
            size = result.end - segment.start
            self.tally.wrote(segment.source.name, result.files, size)
        for name, result in crop.stopped.items():
            match result.outcome:
                case "damaged":
                    self.tally.damaged(name, result.reason)
                case "removed":
                    self._removed[name] = result.reason
                case _:
                    raise Unavailable(result.reason)
