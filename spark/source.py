"""The data source `durable_streams`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from spark import tail
from spark.batches import COLUMNS, Batches
from spark.fetching import sealed_messages
from spark.follow_options import FollowOptions
from spark.following import FollowingReader
from spark.messages import Messages
from spark.options import Options
from spark.planning import Partition, Sealed, Source, Tail, Work, plan
from spark.write_options import WriteOptions
from spark.writer import BatchWriter, StreamWriter
from tiering.errors import Refused


class DurableStreams(DataSource):
    """A row for each message, see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "durable_streams"

    def schema(self) -> StructType | str:
        """Ours first, then the JSON fields that the option names, in DDL or as JSON."""
        ours = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
        fields = self.options.get("schema")
        if fields is None:
            return ours
        if fields.lstrip().startswith("{"):
            return StructType(ours.fields + StructType.fromJson(json.loads(fields)).fields)
        return ", ".join([*(f"`{f.name}` {f.dataType.simpleString()}" for f in ours), fields])

    def reader(self, schema: StructType) -> "StreamsReader":
        options = Options.parse(self.options)
        Batches(schema)  # Says now what it will not be able to make.
        return StreamsReader(options, schema)

    def streamReader(self, schema: StructType) -> FollowingReader:  # noqa: N802
        options = FollowOptions.parse(self.options)
        Batches(schema)
        return FollowingReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise Refused("a stream is appended to, never overwritten: mode('append')")
        return BatchWriter(WriteOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if overwrite:
            raise Refused("a stream is appended to: outputMode complete cannot be written")
        return StreamWriter(WriteOptions.parse(self.options), schema)


class StreamsReader(DataSourceReader):
    """Travels to the executors, so it holds nothing but what it was told."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return asyncio.run(self._plan()) or [Partition(())]

    async def _plan(self) -> list[Partition]:
        async with self._options.bucket.open() as store:
            return await plan(self._options, store)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        batches = Batches(self._schema, fails_fast=options.fails_fast, since_ms=options.since_ms)
        return batches.batches(self._messages(cast(Partition, partition).work))

    def _messages(self, work: Sequence[Work]) -> Iterator[tuple[Source, Messages]]:
        sealed = [one for one in work if isinstance(one, Sealed)]
        yield from sealed_messages(self._options.bucket, sealed)
        if self._options.server is not None:
            for unsealed in (one for one in work if isinstance(one, Tail)):
                yield from tail.read(self._options.server, unsealed)
