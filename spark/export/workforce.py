"""Who writes the files: the executors of a Spark."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from spark.batches import COLUMNS, Batches
from spark.export.layout import DAY, STREAM
from spark.export.writing import Numbered, Result, Setting, write_all
from tiering.errors import Refused, Unavailable

OURS = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])


class Workforce(Protocol):
    @property
    def parallelism(self) -> int: ...

    def schema(self, fields: str) -> StructType:
        """Our columns, and the fields that are named in DDL or as JSON."""

    def write(self, setting: Setting, tasks: Sequence[Sequence[Numbered]]) -> list[Result]: ...


class Executors:
    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    @property
    def parallelism(self) -> int:
        return self._context.defaultParallelism

    def schema(self, fields: str) -> StructType:
        if not fields:
            return OURS
        try:
            added = _parsed(fields)
        except (PySparkException, Py4JError, ValueError, KeyError) as error:
            raise Refused(f"--schema {fields!r} is no schema: {_first_line(error)}") from error
        _assert_distinct(added.fieldNames())
        schema = StructType(OURS.fields + added.fields)
        Batches(schema)  # Says now what it will not be able to make.
        return schema

    def write(self, setting: Setting, tasks: Sequence[Sequence[Numbered]]) -> list[Result]:
        def work(task: Sequence[Numbered]) -> list[Result]:
            return write_all(setting, task)

        try:
            return self._context.parallelize(tasks, len(tasks)).flatMap(work).collect()
        except (Py4JError, PySparkException) as error:
            raise Unavailable(f"Spark did not do its work: {_first_line(error)}") from error


def _parsed(fields: str) -> StructType:
    if fields.lstrip().startswith("{"):
        return StructType.fromJson(json.loads(fields))
    schema = StructType.fromDDL(fields)
    if not isinstance(schema, StructType):
        raise ValueError("it has no names of fields")
    return schema


def _assert_distinct(added: list[str]) -> None:
    """Spark does not tell columns by their case, and takes the names of folders for columns."""
    names = Counter(name.lower() for name in (*OURS.fieldNames(), STREAM, DAY, *added))
    for name in added:
        if names[name.lower()] > 1:
            raise Refused(f"the field {name!r} has the name of another column")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
