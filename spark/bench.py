"""How fast Spark reads a stream from the bucket, beside its own reader of JSON lines.

Both read the same messages from this machine's disk into Spark's no-op sink, in turns and warm.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from spark import register
from tiering.cold import index as indexes
from tiering.cold.index import Record
from tiering.cold.keys import DEPLOYMENT, Piece, manifest_key, piece_metadata
from tiering.cold.manifest import VERSION, Manifest
from tiering.messages import body, pack_lengths
from tiering.objects.directory import DirectoryStore
from tiering.stream import JSON, ContentType

SCHEMA = "id LONG, user STRING, kind STRING, amount DOUBLE, ok BOOLEAN, text STRING"
MESSAGE_BYTES = 200
GRID = 4 * 2**20
BATCH = 100
STREAM, LOG, BEGAN_MS = "bench", 1, 1_760_000_000_000
BASELINE = "json lines"
LINES_PER_FILE = 64 * 2**20 // MESSAGE_BYTES

Reader = Callable[[], DataFrame]


def messages(count: int) -> Iterator[bytes]:
    kinds = ("view", "click", "buy", "return")
    for number in range(count):
        value = {
            "id": number,
            "user": f"user-{number * 7919 % 100_000:05d}",
            "kind": kinds[number % 4],
            "amount": number % 10_000 / 100,
            "ok": number % 3 > 0,
            "text": "",
        }
        value["text"] = "lorem ipsum " * 12
        text = orjson.dumps(value)
        surplus = len(text) - MESSAGE_BYTES
        value["text"] = str(value["text"])[:-surplus]
        yield orjson.dumps(value)


async def fill_bucket(folder: Path, count: int) -> None:
    """Objects as the sealer would have written them: the same functions make them."""
    async with DirectoryStore(folder) as store:
        await store.put(DEPLOYMENT, b"bench")
        position, chunk = 0, bytearray()
        records: list[Record] = []
        lengths: list[int] = []
        for number, message in enumerate(messages(count), start=1):
            chunk += message + b","
            lengths.append(len(message) + 1)
            is_cut = len(chunk) >= GRID or number == count
            if is_cut or len(lengths) == BATCH:
                end = position + len(chunk)
                records.append(Record(end, BEGAN_MS + number, pack_lengths(lengths)))
                lengths = []
            if is_cut:
                await _put_chunk(store, position, bytes(chunk), records)
                position += len(chunk)
                chunk, records = bytearray(), []
        manifest = Manifest(VERSION, STREAM, LOG, JSON, GRID, BEGAN_MS, position, position)
        await store.put(manifest_key(STREAM, LOG), manifest.encode())


async def _put_chunk(
    store: DirectoryStore, start: int, stored: bytes, records: list[Record]
) -> None:
    content_type = ContentType(JSON)
    piece = Piece("chunk", STREAM, LOG, start, start + len(stored))
    content = body(content_type, stored)
    index = indexes.build(piece.start, piece.end, content, records, {}, "")
    await store.put_if_absent(piece.index_key, index.encode())
    await store.put_if_absent(piece.key, content, piece_metadata(piece, JSON, ends=False))


def fill_lines(folder: Path, count: int) -> None:
    folder.mkdir()
    lines = messages(count)
    for first in range(0, count, LINES_PER_FILE):
        with (folder / f"{first:012d}.json").open("wb") as file:
            for _ in range(min(LINES_PER_FILE, count - first)):
                file.write(next(lines) + b"\n")


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = (
        SparkSession.builder.master(f"local[{os.cpu_count()}]")
        .appName("ds-spark bench")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    return found


def readers(spark: SparkSession, bucket: Path, lines: Path) -> dict[str, Reader]:
    """`same schema` has the columns that Spark's own reader has; `raw` and `everything` ours."""

    def streams() -> DataFrameReader:
        return spark.read.format("durable_streams").option("url", str(bucket))

    return {
        BASELINE: lambda: spark.read.schema(SCHEMA).json(str(lines)),
        "raw": lambda: streams().load(),
        "same schema": lambda: streams().schema(SCHEMA).load(),
        "everything": lambda: streams().option("schema", SCHEMA).load(),
    }


def seconds(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def compare(readers: dict[str, Reader], rounds: int) -> dict[str, list[float]]:
    """In turns, after one round that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(rounds + 1):
        for name, reader in readers.items():
            spent = seconds(reader())
            if number:
                taken[name].append(spent)
            print(f"  round {number}: {name} {spent:.2f} s", file=sys.stderr)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="make sparkbench", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="how much to read (1024)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (3)")
    chosen = parser.parse_args()
    count = chosen.mib * 2**20 // MESSAGE_BYTES
    with tempfile.TemporaryDirectory(prefix="ds-spark-bench-") as place:
        bucket, lines = Path(place) / "objects", Path(place) / "lines"
        asyncio.run(fill_bucket(bucket, count))
        fill_lines(lines, count)
        spark = session()
        taken = compare(readers(spark, bucket, lines), chosen.rounds)
        spark.stop()
    baseline = statistics.median(taken[BASELINE])
    print(f"{count} messages of {MESSAGE_BYTES} bytes, {os.cpu_count()} cores")
    for name, spent in taken.items():
        middle = statistics.median(spent)
        print(f"{name:12} {count / middle:12,.0f} rows/s {baseline / middle:6.2f} x json lines")


if __name__ == "__main__":
    main()
