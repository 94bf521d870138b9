"""One job of Spark that folds all streams of a run. What is large lies on disk."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark import keyed, sequential
from spark.folds import STATE
from spark.options import Bucket
from spark.shares import ENTRY, NOTE, SCHEMA, Note, Share, tasks, whole
from tiering.offset import Offset

_NEVER = -(2**63)
_BATCH_BYTES = str(8 * 2**20)
_PARTITION_BYTES = 32 * 2**20
"""What Spark sorts at once."""

Work = Callable[[Bucket, Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@contextmanager
def fold(
    session: SparkSession,
    bucket: Bucket,
    shares: Sequence[Share],
    partition_bytes: int,
    *,
    is_keyed: bool,
) -> Iterator["Folded"]:
    """Everything is folded when this is entered; what it left on disk goes on leaving."""
    divided = tasks(shares, partition_bytes) if is_keyed else whole(shares, partition_bytes)
    work: Work = keyed.fold if is_keyed else sequential.fold
    known = session.sparkContext.broadcast(divided)
    rows = session.range(0, len(divided), 1, len(divided)).mapInArrow(
        partial(work, bucket, known), SCHEMA
    )
    folded = (Lines if is_keyed else Folded)(rows, shares)
    with _settings(session, sum(share.cost for share in shares)):
        try:
            folded.begin()
            yield folded
        finally:
            folded.end()
            known.destroy()


@contextmanager
def _settings(session: SparkSession, size: int) -> Iterator[None]:
    """Two hundred partitions, Spark's default, take minutes where there is little to sort; and a
    batch of ten thousand messages of a mebibyte would be too large for everybody."""
    wanted = {
        "spark.sql.shuffle.partitions": str(1 + size // _PARTITION_BYTES),
        "spark.sql.execution.arrow.maxBytesPerBatch": _BATCH_BYTES,
    }
    before = {name: session.conf.get(name, None) for name in wanted}
    try:
        _set(session, wanted)
        yield
    finally:
        _set(session, before)


def _set(session: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


class Folded:
    """Blocks of each stream in their order, as the tasks made them."""

    def __init__(self, rows: DataFrame, shares: Sequence[Share]) -> None:
        self._rows = self._prepared(rows).persist(StorageLevel.DISK_ONLY)
        self._shares = {share.number: share for share in shares}
        self._measures: dict[int, list[tuple[int, int]]] = {share.number: [] for share in shares}
        self._blocks = self._rows
        self.notes = {share.number: Note() for share in shares}

    def begin(self) -> None:
        for number, note in (
            self._rows.where(f.col("kind") == NOTE).select("stream", "value").collect()
        ):
            self.notes[number].add(msgspec.json.decode(note, type=Note))

    def end(self) -> None:
        self._blocks.unpersist()
        self._rows.unpersist()

    def keep(self, ends: Mapping[int, Offset]) -> None:
        """Only of these streams; what their bodies hold is known from here on."""
        self._ends = ends
        if not ends:
            return
        self._blocks = self._made(list(ends)).persist(StorageLevel.DISK_ONLY)
        measured = self._blocks.select("stream", f.octet_length("block"), "entries")
        for number, size, entries in measured.collect():
            self._measures[number].append((size, entries))

    def entries(self, number: int) -> int:
        return sum(entries for _, entries in self._measures[number])

    def size(self, number: int) -> int:
        return sum(size for size, _ in self._measures[number])

    def bodies(self, numbers: Sequence[int]) -> Iterator[tuple[int, Iterator[bytes]]]:
        """In the order of the numbers. What is not taken of a body is left out."""
        wanted = set(numbers)
        blocks = self._blocks if wanted == self._ends.keys() else self._of(wanted)
        groups = groupby(blocks.select("stream", "block").toLocalIterator(), lambda row: row[0])
        found = next(groups, None)
        for number in numbers:
            if found is not None and found[0] == number:
                yield number, self._body(number, (bytes(row[1]) for row in found[1]))
                found = next(groups, None)
            else:
                yield number, self._body(number, iter(()))

    def _of(self, wanted: set[int]) -> DataFrame:
        return self._blocks.where(f.col("stream").isin(wanted))

    def _body(self, number: int, blocks: Iterator[bytes]) -> Iterator[bytes]:
        return blocks

    def _prepared(self, rows: DataFrame) -> DataFrame:
        return rows

    def _made(self, numbers: list[int]) -> DataFrame:
        entries = self._rows.where((f.col("kind") == ENTRY) & f.col("stream").isin(numbers))
        return entries.select("stream", f.col("value").alias("block"), f.lit(0).alias("entries"))


class Lines(Folded):
    """The last line of each key. Spark sorts them, on disk if there are many."""

    def size(self, number: int) -> int:
        before, behind = self._envelope(number)
        parts = len(self._measures[number]) + len(before) + len(behind)
        around = len(b"[\n\n]") if parts else len(b"[\n]")
        between = len(keyed.BETWEEN) * max(parts - 1, 0)
        return super().size(number) + sum(map(len, [*before, *behind])) + between + around

    def _prepared(self, rows: DataFrame) -> DataFrame:
        return rows.groupBy("stream", "kind", "key").agg(
            f.max_by("value", "position").alias("value"), f.max("position").alias("position")
        )

    def _made(self, numbers: list[int]) -> DataFrame:
        resets = {n: _NEVER if (at := self.notes[n].reset) is None else at for n in numbers}
        lines = self._rows.where((f.col("kind") == ENTRY) & f.col("value").isNotNull())
        ordered = lines.orderBy("stream", "position").select("stream", "position", "value")
        return ordered.mapInArrow(partial(keyed.render, resets), keyed.BLOCKS)

    def _envelope(self, number: int) -> tuple[list[bytes], list[bytes]]:
        is_state = self._shares[number].fold.name == STATE
        return keyed.envelope(is_state, self._ends[number])

    def _body(self, number: int, blocks: Iterator[bytes]) -> Iterator[bytes]:
        before, behind = self._envelope(number)
        between = b"[\n"
        for parts in (before, blocks, behind):
            for part in parts:
                yield between + part
                between = keyed.BETWEEN
        yield b"[\n]" if between == b"[\n" else b"\n]"
