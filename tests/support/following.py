"""A query that follows streams into Parquet files, and can be run again and again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

COMPARED = ["stream", "offset", "next_offset", "position", "content_type", "payload"]
Row = dict[str, Any]


class Following:
    """Its checkpoint and its files are what the next run goes on with."""

    def __init__(self, spark: SparkSession, folder: Path, url: str, **options: str) -> None:
        self._spark = spark
        self._options = {"url": url} | options
        self._rows = folder / "rows"
        self._checkpoint = folder / "checkpoint"

    def run(self, **options: str) -> StreamingQuery:
        """Reads what there is and ends."""
        query = self._writer(**options).trigger(availableNow=True).start(str(self._rows))
        query.awaitTermination()
        return query

    @contextmanager
    def going_on(self, **options: str) -> Iterator[StreamingQuery]:
        query = self._writer(**options).start(str(self._rows))
        try:
            yield query
        finally:
            query.stop()

    def _writer(self, **options: str) -> DataStreamWriter:
        reader = self._spark.readStream.format("durable_streams")
        frame = reader.options(**self._options | options).load().select(COMPARED)
        writer = frame.writeStream.format("parquet")
        return writer.option("checkpointLocation", str(self._checkpoint))

    def rows(self) -> list[Row]:
        """All that were ever written, each as often as it was."""
        return sorted(parquet_rows(self._rows), key=_place)

    def offsets(self) -> list[dict[str, str]]:
        """Those that Spark has planned to reach, batch by batch."""
        found = _numbered(self._checkpoint / "offsets")
        return [json.loads(path.read_text().splitlines()[-1]) for path in found]

    def forget_the_last_batch(self) -> None:
        """As if Spark had been killed between its plan and its end."""
        (self._checkpoint / "commits" / _numbered(self._checkpoint / "commits")[-1].name).unlink()
        _numbered(self._rows / "_spark_metadata")[-1].unlink()
        for folder in (self._checkpoint / "commits", self._rows / "_spark_metadata"):
            for checksum in folder.glob(".*.crc"):
                checksum.unlink()


def parquet_rows(folder: Path) -> Iterator[Row]:
    """What Spark's file sink calls committed: other files are of attempts that did not end."""
    for path in sorted(_committed(folder / "_spark_metadata")):
        yield from pq.read_table(path).to_pylist()


def _committed(log: Path) -> set[str]:
    if not log.exists():
        return set()
    files = [path for path in log.iterdir() if not path.name.startswith(".")]
    lines = [line for path in files for line in path.read_text().splitlines()[1:]]
    return {unquote(urlsplit(json.loads(line)["path"]).path) for line in lines}


def _numbered(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name))


def _place(row: Row) -> tuple[str, int, str]:
    return row["stream"], row["position"], row["offset"]
