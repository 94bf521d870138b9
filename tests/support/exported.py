"""What an export has, read by readers that know nothing of ours."""

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession

COMPARED = ["stream", "offset", "next_offset", "position", "content_type", "payload"]

Row = dict[str, Any]


def by_spark(spark: SparkSession, folder: Path, *more: str) -> list[Row]:
    frame = spark.read.parquet(str(folder)).select(*COMPARED, *more)
    found = [row.asDict(recursive=True) for row in frame.collect()]
    for row in found:
        row["payload"] = bytes(row["payload"])
    return in_order(found)


def by_duckdb(folder: Path, *more: str) -> list[Row]:
    files = str(folder / "**" / "*.parquet")
    columns = ", ".join(f'"{name}"' for name in (*COMPARED, *more))
    with duckdb.connect() as connection:
        asked = connection.execute(
            f"SELECT {columns} FROM read_parquet(?, hive_partitioning = true)", [files]
        )
        names = [one[0] for one in asked.description]
        return in_order([dict(zip(names, row, strict=True)) for row in asked.fetchall()])


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["stream"], row["offset"]))


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file that readers see, and what changes when it is written again."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*.parquet")
    }


def days_in(folder: Path) -> list[tuple[date, int, int]]:
    """Each day, each time in it in ms, and how many messages have it."""
    files = str(folder / "**" / "*.parquet")
    with duckdb.connect() as connection:
        return connection.execute(
            "SELECT day, epoch_ms(append_time), count(*)"
            " FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL",
            [files],
        ).fetchall()
