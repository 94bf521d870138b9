"""What Spark writes stands in the streams once, whatever happens on the way."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from support.forgetful_proxy import ForgetfulProxy
from support.repairs import NEVER, objects_of, seal_all
from support.server import RunningServer
from support.spark_world import JSON, World
from support.wire import Wire

pytestmark = pytest.mark.timeout(240)

Save = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=256, env=NEVER) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def save(server: RunningServer) -> Save:
    def save(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("durable_streams").mode("append")
        writer.options(**{"server": server.url} | options).save()

    return save


def test_what_was_read_can_be_written_elsewhere_message_for_message(
    spark: SparkSession, save: Save, server: RunningServer, wire: Wire
) -> None:
    """Every kind of stream, in buckets and outside; the streams say what kind they are."""
    with (
        RunningServer() as elsewhere,
        Wire(server.url, root="/ds/") as buckets,
        Wire(elsewhere.url) as there,
        Wire(elsewhere.url, root="/ds/") as buckets_there,
    ):
        world = World(wire, seed=11, buckets=buckets)
        world.populate(20)
        copy = World(there, seed=0, buckets=buckets_there)
        for name, known in world.streams.items():
            copy.ask("PUT", name, content_type=known.content_type)
        copy.streams = world.streams
        copy.hang_up()
        seal_all(server)
        read = spark.read.format("durable_streams").load(str(objects_of(server)))
        save(read.select("stream", "payload"), server=elsewhere.url)
        assert len(copy.streams) > 15
        copy.assert_told_by_http()


def test_a_named_producer_writes_each_epoch_once(
    spark: SparkSession, save: Save, server: RunningServer
) -> None:
    frame = spark.range(0, 900, 1, 2).select(
        f.concat(f.lit("many/"), f.col("id") % 30).alias("stream"),
        f.to_json(f.struct("id")).alias("payload"),
    )
    nightly = {"contentType": JSON, "producer": "nightly"}
    expected = {name: [{"id": n} for n in range(name, 900, 30)] for name in range(30)}

    def found() -> dict[int, list[dict[str, int]]]:
        with Wire(server.url) as wire:
            messages = {name: json.loads(wire.read_all_json(f"many/{name}")) for name in range(30)}
        for found in messages.values():
            first, second = ([one for one in found if one["id"] // 450 == half] for half in (0, 1))
            found[:] = first + second  # Each task keeps its order, but either may be first.
        return messages

    save(frame, **nightly, epoch="1")
    save(frame, **nightly, epoch="1")
    assert found() == expected
    with pytest.raises(PySparkException, match="nightly/0 began epoch 1 with other rows"):
        save(frame.where("id > 0"), **nightly, epoch="1")
    with pytest.raises(PySparkException, match="is at epoch 1 already, and this is 0"):
        save(frame, **nightly)
    assert found() == expected
    one = frame.where("stream = 'many/7'")
    save(one, **nightly, epoch="2")
    save(one, contentType=JSON)
    assert len(found()[7]) == 3 * 30


def test_a_batch_that_runs_again_is_not_written_again(
    spark: SparkSession, server: RunningServer, wire: Wire, tmp_path: Path
) -> None:
    checkpoint, source = tmp_path / "checkpoint", tmp_path / "source"
    source.mkdir()

    def run(lines: range) -> None:
        (source / f"{lines.start}.txt").write_text("".join(f"{n}\n" for n in lines))
        query = (
            spark.readStream.text(str(source))
            .withColumnRenamed("value", "payload")
            .writeStream.format("durable_streams")
            .options(server=server.url, stream="batches", contentType=JSON)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(range(10))
    run(range(10, 20))
    forget_last_commit(checkpoint)
    run(range(20, 30))
    assert json.loads(wire.read_all_json("batches")) == list(range(30))
    forget_last_commit(checkpoint)
    (source / "20.txt").write_text("something else\n")
    with pytest.raises(PySparkException, match="not one JSON value: 'something else'"):
        run(range(30, 40))


def test_a_task_that_is_tried_again_writes_nothing_twice(
    spark: SparkSession, save: Save, server: RunningServer, wire: Wire
) -> None:
    """The one that loses an answer fails, though what it sent was taken."""
    rows = spark.range(0, 200, 1, 2).selectExpr("concat(id, '\n') AS payload")
    with ForgetfulProxy(server.url, lambda appends: appends == 60) as proxy:
        impatient = {"server": proxy.url, "retrySecs": "0"}
        save(rows, stream="numbers", contentType="text/plain", **impatient)
        assert proxy.appends > 200
    found = [int(line) for line in wire.read_all("numbers").split()]
    assert [n for n in found if n < 100] == list(range(100))
    assert [n for n in found if n >= 100] == list(range(100, 200))


def forget_last_commit(checkpoint: Path) -> None:
    """As if the query had died after its last append."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink()
