"""A driver with two queries over the same streams: into Parquet files, and into another stream.

`python -m support.streaming_driver DATA_DIR SERVER FOLDER go|compact|finish`: either until it is
killed, perhaps after a compaction, or until everything that is sealed by now was read.
"""

import asyncio
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from support.quick_spark import SMALL

from spark import register
from spark.compact import compact
from spark.deployment import Deployment

MOST_BYTES = "8192"
FILES, STREAM = "files", "stream"
SOURCES, JSON_SOURCES, COPY = "source/*", "source/json*", "copy"


def session(folder: Path) -> SparkSession:
    found = (
        SparkSession.builder.master("local[2]")
        .appName("ds-tests-streaming")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(map=SMALL)
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    return found


def followed(spark: SparkSession, bucket: str, streams: str) -> DataFrame:
    reader = spark.readStream.format("durable_streams").option("stream", streams)
    limits = {"maxBytesPerTrigger": MOST_BYTES, "partitionBytes": "100000"}
    return reader.options(**limits).load(bucket)


def into_files(frame: DataFrame, folder: Path) -> DataStreamWriter:
    rows = frame.select("stream", "position", "payload")
    return rows.writeStream.format("parquet").option("path", str(folder / "rows"))


def into_a_stream(frame: DataFrame, server: str) -> DataStreamWriter:
    writer = frame.select("payload").writeStream.format("durable_streams")
    return writer.options(server=server, stream=COPY, contentType="application/json")


def started(writer: DataStreamWriter, checkpoint: Path, mode: str) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if mode == "finish" else writer).start()


def main(data_dir: str, server: str, place: str, mode: str) -> None:
    folder, bucket = Path(place), str(Path(data_dir) / "objects")
    spark = session(folder)
    if mode == "compact":
        deployment = Deployment.parse({"data_dir": data_dir}, {})
        print(asyncio.run(compact(deployment, lambda: spark)), flush=True)
    files = into_files(followed(spark, bucket, SOURCES), folder)
    stream = into_a_stream(followed(spark, bucket, JSON_SOURCES), server)
    work = [(files, folder / FILES), (stream, folder / STREAM)]
    if mode == "finish":
        for writer, checkpoint in work:
            started(writer, checkpoint, mode).awaitTermination()
    else:
        for query in [started(writer, checkpoint, mode) for writer, checkpoint in work]:
            query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
