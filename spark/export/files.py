"""Parquet files of a stretch of a stream, one for each day in it."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark.export.layout import DAY_US, path_of
from tiering.offset import Offset

ROW_GROUP_BYTES = 32 * 2**20

_FEW_VALUES = ["stream", "content_type"]
_LARGE_VALUES = "payload"
_GROWING_VALUES = {
    "offset": "DELTA_BYTE_ARRAY",
    "next_offset": "DELTA_BYTE_ARRAY",
    "position": "DELTA_BINARY_PACKED",
    "append_time": "DELTA_BINARY_PACKED",
}


@dataclass(frozen=True, slots=True)
class File:
    """Safe on disk under the name of its draft."""

    draft: str
    path: str
    day: int
    rows: int
    size: int


class Files:
    """A day that comes again, because a clock was put back, begins another file: one is open at a
    time, and messages stay in their order."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._open: Draft | None = None
        self._done: list[File] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open is not None:
            self._open.discard()

    def write(self, batch: pa.RecordBatch) -> None:
        for day, rows in by_day(batch):
            if self._open is None or self._open.day != day:
                self._finish()
                self._open = Draft(self._folder, day, rows)
            self._open.write(rows)

    def finished(self) -> tuple[File, ...]:
        self._finish()
        return tuple(self._done)

    def _finish(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish(self._name))
            self._open = None


class Draft:
    """A file that is being written. `first` are rows that it will begin with."""

    def __init__(self, folder: Path, day: int, first: pa.RecordBatch) -> None:
        self.day = day
        self._start = _offset(first["offset"][0])
        self._end = self._start.position
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._name = f"{uuid.uuid4().hex}.draft"
        self._file = (folder / self._name).open("xb")
        self._writer = _writer(self._file, first.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        self._end = _offset(batch["next_offset"][-1]).position
        if self._bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self, stream: str) -> File:
        self._write_row_group()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        path = path_of(stream, self.day, self._start, self._end)
        return File(self._name, path, self.day, self._rows, size)

    def discard(self) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def _write_row_group(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._bytes = [], 0


def _writer(file: object, schema: pa.Schema) -> pq.ParquetWriter:
    """Statistics of payloads would be copies of payloads."""
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=_FEW_VALUES,
        column_encoding=_GROWING_VALUES,
        write_statistics=[name for name in schema.names if name != _LARGE_VALUES],
        sorting_columns=[pq.SortingColumn(schema.get_field_index("position"))],
    )


def by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Stretches of one day in UTC, as days since 1970."""
    times = batch["append_time"].cast(pa.int64()).to_numpy()
    days = np.floor_divide(times, DAY_US)
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for first, last in pairwise(edges):
        yield int(days[first]), batch.slice(first, last - first)


def _offset(token: pa.StringScalar) -> Offset:
    offset = Offset.parse(token.as_py())
    assert offset is not None
    return offset
