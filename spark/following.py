"""What `readStream` follows: the sealed data of streams, batch by batch."""

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark import checkpoint
from spark.batches import Batches
from spark.fetching import sealed_messages
from spark.follow_options import FollowOptions
from spark.follower import Follower
from spark.layout import laid_out
from spark.opened import Opened
from spark.planning import Partition, Sealed
from tiering.objects.store import ObjectStore

_REST_SECS = 1.0

T = TypeVar("T")


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark asks one of these for offsets and plans, as long as the query runs. Others, on the
    executors, read."""

    def __init__(self, options: FollowOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._follower = Follower(options)
        self._opened: Opened | None = None
        self._quiet_since: float | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return checkpoint.first_offset(self._options.begin)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most_bytes = self._options.most_bytes
        return ReadAllAvailable() if most_bytes is None else ReadMaxBytes(most_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ask(self._follower.aim)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        self._rest()
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        marks, first = checkpoint.parse(start)
        latest = self._ask(lambda store: self._follower.latest(store, marks, first, most_bytes))
        found = checkpoint.offset(*latest)
        self._quiet_since = time.monotonic() if found == start else None
        return found

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
            self._opened = None

    def _ask(self, work: Callable[[ObjectStore], Coroutine[None, None, T]]) -> T:
        """The bucket stays open from the first question on: to open one can take longer than to
        ask it."""
        if self._opened is None:
            self._opened = Opened(self._options.shared.bucket).__enter__()
        return self._opened.begin(work).result()

    def _rest(self) -> None:
        """A query without an interval asks again a hundred times a second."""
        if self._quiet_since is not None:
            time.sleep(max(0, self._quiet_since + _REST_SECS - time.monotonic()))

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        """For the progress of the query: how far its streams had come at the last look."""
        seen = self._follower.seen
        return None if seen is None else {name: str(end) for name, end in sorted(seen.items())}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        (before, _), (after, _) = checkpoint.parse(start), checkpoint.parse(end)
        shares = self._ask(lambda store: self._follower.between(store, before, after))
        return list(laid_out(shares, self._options.shared.partition_bytes))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches = Batches(self._schema, fails_fast=self._options.shared.fails_fast)
        work = cast(Sequence[Sealed], cast(Partition, partition).work)
        return batches.batches(sealed_messages(self._options.shared.bucket, work))
