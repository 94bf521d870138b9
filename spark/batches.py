"""From messages to record batches of the schema that the query has."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark.fields import Fields
from spark.messages import Messages
from spark.planning import Source
from spark.tokens import tokens
from tiering.errors import Refused

CORRUPT = "_corrupt"
COLUMNS: dict[str, DataType] = {
    "stream": StringType(),
    "offset": StringType(),
    "next_offset": StringType(),
    "position": LongType(),
    "append_time": TimestampType(),
    "content_type": StringType(),
    "payload": BinaryType(),
}
_OURS = COLUMNS | {CORRUPT: BooleanType()}
_TIME = pa.timestamp("us", "UTC")
_LARGE_BYTES = 8 * 2**20


class Batches:
    """Only the columns of the schema are made: fewer of them are faster."""

    def __init__(
        self, schema: StructType, *, fails_fast: bool = False, since_ms: int | None = None
    ) -> None:
        names = schema.fieldNames()
        if repeated := {name for name in names if names.count(name) > 1}:
            raise Refused(f"the schema has {min(repeated)!r} twice: our columns keep their names")
        for field in schema.fields:
            if field.dataType != _OURS.get(field.name, field.dataType):
                kind = _OURS[field.name].simpleString()
                raise Refused(f"the column {field.name!r} is always of type {kind}")
        self._since_ms = since_ms
        self._schema = to_arrow_schema(schema, timezone="UTC")
        parsed = [field for field in self._schema if field.name not in _OURS]
        self._has_fields = bool(parsed) or CORRUPT in names
        self._fields = Fields(pa.schema(parsed), fails_fast=fails_fast)

    def batches(self, found: Iterable[tuple[Source, Messages]]) -> Iterator[pa.RecordBatch]:
        """Small ones are put together, large ones divided: each costs Spark a little, and memory
        as long as it is under way."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for source, messages in self._recent(found):
            if not messages.count:
                continue
            batch, length = self._batch(source, messages), len(messages.data)
            if waiting and size + length > _LARGE_BYTES:
                yield from _together(waiting)
                waiting, size = [], 0
            if length > _LARGE_BYTES:
                yield from _divided(batch, length)
            else:
                waiting.append(batch)
                size += length
        yield from _together(waiting)

    def _recent(
        self, found: Iterable[tuple[Source, Messages]]
    ) -> Iterable[tuple[Source, Messages]]:
        since = self._since_ms
        if since is None:
            return found
        return ((source, messages.since(since)) for source, messages in found)

    def _batch(self, source: Source, messages: Messages) -> pa.RecordBatch:
        columns = self._columns(source, messages)
        arrays = [columns[name] for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if self._since_ms is None or messages.times_ms is None:
            return batch
        is_recent = messages.times_ms >= self._since_ms
        return batch if is_recent.all() else batch.filter(pa.array(is_recent))

    def _columns(self, source: Source, messages: Messages) -> dict[str, pa.Array]:
        count, wanted = messages.count, set(self._schema.names)
        columns: dict[str, pa.Array] = {}
        if "stream" in wanted:
            columns["stream"] = pa.repeat(source.name, count)
        if "content_type" in wanted:
            columns["content_type"] = pa.repeat(source.content_type, count)
        if "append_time" in wanted:
            columns["append_time"] = _times(messages)
        if "position" in wanted:
            columns["position"] = pa.array(messages.bounds[:-1])
        if wanted & {"offset", "next_offset"}:
            texts = tokens(source.log, messages.bounds)
            columns |= {"offset": texts[:-1], "next_offset": texts[1:]}
        if "payload" in wanted:
            columns["payload"] = payloads(messages)
        if self._has_fields:
            parsed, columns[CORRUPT] = self._fields.parse(messages)
            names = [name for name in self._schema.names if name not in _OURS]
            columns |= dict(zip(names, parsed, strict=True))
        return columns


def payloads(messages: Messages) -> pa.BinaryArray:
    """What was appended. Behind each JSON message stands a byte that is not part of it: Arrow
    copies what lies between, which is faster than a mask over all bytes."""
    ends = (messages.bounds - messages.bounds[0]).astype(np.int32)
    data = pa.py_buffer(messages.data)
    if not messages.is_json:
        return pa.BinaryArray.from_buffers(
            pa.binary(), messages.count, [None, pa.py_buffer(ends), data]
        )
    edges = np.empty(2 * messages.count + 1, np.int32)
    edges[0::2] = ends
    edges[1::2] = ends[1:] - 1
    both = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * messages.count, [None, pa.py_buffer(edges), data]
    )
    return both.take(pa.array(np.arange(0, 2 * messages.count, 2)))


def _times(messages: Messages) -> pa.Array:
    if messages.times_ms is None:
        return pa.nulls(messages.count, _TIME)
    return pa.array(messages.times_ms * 1000).cast(_TIME)


def _divided(batch: pa.RecordBatch, length: int) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _LARGE_BYTES // length)
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def _together(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
