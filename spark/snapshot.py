"""The job `ds-spark snapshot`: executors fold what is sealed, the driver publishes it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.due import Due, Plan, Wanted, has_lost_its_snapshot, plan
from spark.folding import Folded, fold
from spark.options import Bucket
from spark.publishing import Outcome, Publisher
from spark.snapshot_summary import Line, Progress, Summary
from tiering.errors import Corrupt, StreamError, Unavailable

PATIENCE_SECS = 120.0
"""How long a server may be silent before a run gives up."""

_PARTITION_BYTES = 64 * 2**20
_PAUSE_SECS = 1.0
_LOSING = 3
"""So many failures in a row are no accident of one stream."""

Sessions = Callable[[], SparkSession]
Watch = Callable[[Progress], None]


def snapshot(
    bucket: Bucket,
    server: str,
    wanted: Wanted,
    sessions: Sessions,
    *,
    is_dry_run: bool = False,
    partition_bytes: int = _PARTITION_BYTES,
    patience_secs: float = PATIENCE_SECS,
    watch: Watch = lambda progress: None,
) -> Summary:
    """Spark is started when something is due, and the server can be reached."""
    began = time.monotonic()
    publisher = Publisher(server)

    def planned() -> Job:
        return Job(publisher, asyncio.run(plan(bucket, wanted)), patience_secs, watch)

    job = planned()
    if is_dry_run:
        job.imagine()
    elif job.pending:
        job.assert_reachable()
        session = sessions()
        job = planned()  # What there was may be old by now.
        job.run(session, bucket, partition_bytes)
    return job.finished(began)


class Job:
    def __init__(
        self, publisher: Publisher, found: Plan, patience_secs: float, watch: Watch
    ) -> None:
        self.due = found.due
        self.lines = [_line(one) for one in found.due]
        self._damaged = found.damaged
        self._looked_at = found.looked_at
        self._publisher = publisher
        self._patience_secs = patience_secs
        self._watch = watch
        self._is_dry_run = False
        self._sent = 0

    @property
    def pending(self) -> list[int]:
        """The numbers of the streams that have no outcome yet."""
        return [number for number, line in enumerate(self.lines) if not line.outcome]

    def assert_reachable(self) -> None:
        """Unavailable when the server does not answer."""
        one = self.due[self.pending[0]]
        self._publisher.look(one.member, one.at)

    def imagine(self) -> None:
        self._is_dry_run = True
        for number in self.pending:
            self.lines[number].outcome = "due"

    def run(self, session: SparkSession, bucket: Bucket, partition_bytes: int) -> None:
        for is_keyed in (True, False):
            chosen = [n for n in self.pending if self.due[n].rule.fold.is_keyed is is_keyed]
            if not chosen:
                continue
            total = sum(self.due[number].new_bytes for number in chosen)
            self._watch(Progress("folding", len(chosen), 0, total))
            shares = [self.due[number].share(number) for number in chosen]
            with (
                _translated(),
                fold(session, bucket, shares, partition_bytes, is_keyed=is_keyed) as folded,
            ):
                self._publish(self._sound(chosen, folded, bucket), folded)

    def _sound(self, chosen: Sequence[int], folded: Folded, bucket: Bucket) -> list[int]:
        """Those of which everything could be folded."""
        for number in chosen:
            line, note = self.lines[number], folded.notes[number]
            line.messages, line.bad, line.samples = note.messages, note.bad, note.samples
            line.outcome, line.reason = note.outcome, note.reason
            most = self.due[number].rule.max_bad
            if line.outcome == "moved" and _is_lost(bucket, self.due[number]):
                line.outcome = "damaged"
            if not line.outcome and note.bad > most:
                line.outcome = "bad"
                line.reason = f"{note.bad:,} bad messages, at most {most:,} are allowed"
        return [number for number in chosen if not self.lines[number].outcome]

    def _publish(self, numbers: list[int], folded: Folded) -> None:
        """Again and again, as long as a server may be silent."""
        folded.keep({number: self.due[number].at for number in numbers})
        for number in numbers:
            self.lines[number].keys = folded.entries(number)
            self.lines[number].bytes_after = folded.size(number)
        total = sum(map(folded.size, numbers))
        self._sent = 0
        self._watch(Progress("publishing", len(numbers), 0, total))
        deadline, reason = time.monotonic() + self._patience_secs, ""
        while left := [number for number in numbers if not self.lines[number].outcome]:
            before = len(left)
            reason = self._try(left, folded, total)
            left = [number for number in left if not self.lines[number].outcome]
            if len(left) < before:
                deadline = time.monotonic() + self._patience_secs
            if left and time.monotonic() > deadline:
                return self._give_up(left, reason)
            if left:
                time.sleep(_PAUSE_SECS)
        return None

    def _give_up(self, numbers: list[int], reason: str) -> None:
        for number in numbers:
            self.lines[number].outcome, self.lines[number].reason = "unavailable", reason

    def _try(self, numbers: list[int], folded: Folded, total: int) -> str:
        """Each once; why the last one failed that did."""
        reason, losing = "", 0
        for number, body in folded.bodies(numbers):
            began = time.monotonic()
            try:
                outcome = self._put(number, folded.size(number), body)
            except Unavailable as error:
                reason, losing = str(error), losing + 1
                if losing == _LOSING:
                    return reason
                continue
            losing = 0
            line = self.lines[number]
            line.outcome, line.reason = outcome.name, outcome.reason
            line.seconds = round(time.monotonic() - began, 3)
            self._sent += folded.size(number)
            self._watch(Progress("publishing", 0, self._sent, total))
        return reason

    def _put(self, number: int, size: int, body: Iterator[bytes]) -> Outcome:
        due = self.due[number]
        known = self._publisher.look(due.member, due.at)
        return known or self._publisher.put(due.member, due.at, due.media_type, size, body)

    def finished(self, began: float) -> Summary:
        lost = [Line(name, "", "", outcome="damaged", reason=why) for name, why in self._damaged]
        return Summary(
            self._looked_at,
            sum(line.outcome == "published" for line in self.lines),
            [*self.lines, *lost],
            round(time.monotonic() - began, 3),
            self._is_dry_run,
        )


def _line(due: Due) -> Line:
    before = due.new_bytes + (due.previous.size if due.previous else 0)
    line = Line(due.stream.name, due.rule.fold.name, str(due.at), before)
    if due.obstacle is not None:
        line.outcome, line.reason = due.obstacle
    return line


def _is_lost(bucket: Bucket, due: Due) -> bool:
    try:
        return asyncio.run(has_lost_its_snapshot(bucket, due))
    except Corrupt:
        return True


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StreamError:
        raise
    except (Py4JError, PySparkException) as error:
        raise Unavailable(f"Spark did not do its work: {str(error).splitlines()[0]}") from error
