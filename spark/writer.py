"""Rows into streams: `df.write` and `df.writeStream`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from spark.appending import Appender, Tally, Turn
from spark.piles import Piles
from spark.surface import Surface
from spark.write_options import WriteOptions
from tiering.errors import Invalid, Refused

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_HINT = "write select('stream', 'payload'), or select(to_json(struct('*')).alias('payload'))"


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    tally: Tally


class BatchWriter(DataSourceArrowWriter):
    """Made once for a job; all attempts of its tasks have the same name and number."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(schema, options)
        if options.epoch is not None and options.producer is None:
            raise Refused("the option epoch counts the runs of a producer: name it too")
        self._options = options
        self._producer = options.producer or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options, self._producer, self._options.epoch or 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was appended is there already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _say_what_stays(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """A batch of a query is a turn, and is the same one when the query was restarted."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(schema, options)
        if options.epoch is not None:
            raise Refused("a query counts its batches itself: leave out the option epoch")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        producer = self._options.producer or _property(_QUERY)
        return _write(iterator, self._options, producer, int(_property(_BATCH)))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was appended is there already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _say_what_stays(messages)


def _write(
    batches: Iterable[pa.RecordBatch], options: WriteOptions, producer: str, number: int
) -> Written:
    """All rows are there before the first is sent: a task that fails while it makes them, or
    that has one which cannot be sent, writes nothing."""
    turn = Turn(f"{producer}/{_task().partitionId()}", number)
    with Piles() as piles, Surface(options.server, options.retry_secs) as surface:
        appender = Appender(surface, turn, options.content_type, options.append_bytes)
        for name, payload in _rows(batches, options.stream):
            appender.check(name, payload)
            piles.add(name, payload)
        for pile in piles:
            appender.prepare(pile)
        for pile in piles:
            appender.append(pile, piles.messages(pile))
        return Written(appender.tally)


def _rows(batches: Iterable[pa.RecordBatch], stream: str | None) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        payloads = batch.column("payload").cast(pa.large_binary()).to_pylist()
        names = [stream] * len(payloads) if stream else batch.column("stream").to_pylist()
        for name, payload in zip(names, payloads, strict=True):
            if not name:
                raise Invalid("A row names no stream.")
            if payload is None:
                raise Invalid(f"{name}: a payload is null.")
            yield name, payload


def _check_columns(schema: StructType, options: WriteOptions) -> None:
    kinds: dict[str, Any] = {field.name: field.dataType for field in schema}
    if unknown := [name for name in kinds if name not in ("stream", "payload")]:
        raise Refused(f"the column {unknown[0]!r} cannot be written: {_HINT}")
    if not isinstance(kinds.get("payload"), BinaryType | StringType):
        raise Refused(f"a column payload, binary or string, is needed: {_HINT}")
    if ("stream" in kinds) == (options.stream is not None):
        raise Refused("either the option stream names the stream, or a column of that name")
    if "stream" in kinds and not isinstance(kinds["stream"], StringType):
        raise Refused("the column stream must be a string")


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only a task of Spark writes"
    return context


def _property(name: str) -> str:
    value = _task().getLocalProperty(name)
    if value is None:
        raise Refused(f"Spark does not say {name}, so that a restart could not be recognised")
    return value


def _say_what_stays(messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message.tally.messages for message in messages if isinstance(message, Written)]
    print(
        f"durable_streams: the write failed. {len(done)} of {len(messages)} tasks were done "
        f"({sum(done)} messages), others may have appended a part of theirs; all of that stays.",
        file=sys.stderr,
    )
