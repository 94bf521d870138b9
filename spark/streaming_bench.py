"""How fast a query follows a stream from its beginning, beside a batch that reads it.

Both read the same messages from this machine's disk into Spark's no-op sink, in turns and warm.
A query's time is all of it, from its start to its end: it makes a plan for every batch, and keeps
a checkpoint.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark.bench import MESSAGE_BYTES, SCHEMA, fill_bucket, seconds, session

MIB = 2**20
COLUMNS = {"raw": {}, "everything": {"schema": SCHEMA}}
"""Of what a row has: our columns, or those and the fields of the messages."""

Run = Callable[[], float]


def query_seconds(frame: DataFrame) -> float:
    with tempfile.TemporaryDirectory(prefix="ds-spark-checkpoint-") as checkpoint:
        began = time.perf_counter()
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return time.perf_counter() - began


def runs(spark: SparkSession, bucket: Path, batch_bytes: int) -> dict[str, Run]:
    """`in batches` has a limit on what a batch reads, and divides that among all cores."""
    share = batch_bytes // (os.cpu_count() or 1)
    limit = {"maxBytesPerTrigger": str(batch_bytes), "partitionBytes": str(share)}

    def batch(options: dict[str, str]) -> Run:
        reader = spark.read.format("durable_streams").options(**options)
        return lambda: seconds(reader.load(str(bucket)))

    def query(options: dict[str, str]) -> Run:
        reader = spark.readStream.format("durable_streams").options(**options)
        return lambda: query_seconds(reader.load(str(bucket)))

    found: dict[str, Run] = {}
    for name, options in COLUMNS.items():
        found[f"batch, {name}"] = batch(options)
        found[f"query, {name}"] = query(options)
        found[f"query in batches, {name}"] = query(options | limit)
    return found


def measured(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """In turns, after one round that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            spent = run()
            if number:
                taken[name].append(spent)
            print(f"  round {number}: {name} {spent:.2f} s", file=sys.stderr)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m spark.streaming_bench", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="how much to read (256)")
    parser.add_argument("--batch-mib", type=int, default=32, help="of that, in one batch (32)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (3)")
    chosen = parser.parse_args()
    count = chosen.mib * MIB // MESSAGE_BYTES
    with tempfile.TemporaryDirectory(prefix="ds-spark-bench-") as place:
        bucket = Path(place) / "objects"
        asyncio.run(fill_bucket(bucket, count))
        spark = session()
        taken = measured(runs(spark, bucket, chosen.batch_mib * MIB), chosen.rounds)
        spark.stop()
    print(f"{count} messages of {MESSAGE_BYTES} bytes, {os.cpu_count()} cores")
    for name, spent in taken.items():
        middle = statistics.median(spent)
        print(f"{name:28} {count / middle:12,.0f} rows/s {middle:8.2f} s")


if __name__ == "__main__":
    main()
