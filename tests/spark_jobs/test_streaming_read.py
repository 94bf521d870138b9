"""What `readStream` gives a sink is what HTTP shows, each message once, whatever happens."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from support.following import Following, Row
from support.model import token
from support.repairs import NEVER, lose_and_recover, objects_of, seal_all, sweep
from support.server import RunningServer
from support.spark_world import BUCKETED, JSON, TEXT, World
from support.wire import Wire

from spark.compact import compact
from spark.deployment import Deployment

pytestmark = pytest.mark.timeout(240)

CHUNK = 256
AT_ONCE = {"DS_TIERING__DELETE_GRACE_SECS": "0"}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """What is not needed any more goes at once."""
    with RunningServer(chunk_bytes=CHUNK, env=NEVER | AT_ONCE) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def following(spark: SparkSession, server: RunningServer, tmp_path: Path) -> Following:
    return Following(spark, tmp_path, str(objects_of(server)))


def compacted(server: RunningServer, spark: SparkSession) -> int:
    deployment = Deployment.parse({"data_dir": str(server.data_dir)}, {})
    summary = asyncio.run(compact(deployment, lambda: spark))
    assert summary.damaged == []
    sweep(server)
    return summary.streams_compacted


class Expected:
    """All that was ever to be seen, by stream and offset: what was read stays in the sink."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows: dict[tuple[str, str], Row] = {}

    def rows(self) -> list[Row]:
        self._rows |= {(row["stream"], row["offset"]): row for row in self._world.rows()}
        self._world.hang_up()
        return sorted(self._rows.values(), key=lambda row: (row["stream"], row["position"]))


def seen(following: Following) -> list[Row]:
    return sorted(following.rows(), key=lambda row: (row["stream"], row["position"]))


def test_a_query_follows_streams_through_everything_that_happens_to_them(
    server: RunningServer, wire: Wire, following: Following, spark: SparkSession
) -> None:
    """New ones, forks, closed ones, those in buckets; seals, compactions, snapshots, deletions."""
    with Wire(server.url, root="/ds/") as buckets:
        world = World(wire, seed=11, buckets=buckets)
        world.populate(10)
        seal_all(server)
        expected = Expected(world)
        with following.going_on(maxBytesPerTrigger="500", partitionBytes="70000") as query:
            query.processAllAvailable()
            assert seen(following) == expected.rows()
            assert len(following.offsets()) > 1
            world.publish_some()
            world.delete(min(world.streams))
            world.grow()
            world.populate(4)
            seal_all(server)
            query.processAllAvailable()
            assert compacted(server, spark) > 0
            world.grow()
            seal_all(server)
            query.processAllAvailable()
            assert seen(following) == expected.rows()
        tails = {name: wire_tail(world, name) for name in world.streams}
        read = {name: text.rpartition("..")[2] for name, text in following.offsets()[-1].items()}
        assert {name: read.get(name) for name in tails} == tails


def wire_tail(world: World, name: str) -> str | None:
    return world.ask("HEAD", name)["Stream-Next-Offset"]


def test_a_batch_that_comes_again_is_the_same_and_the_next_one_goes_on(
    server: RunningServer, wire: Wire, following: Following, spark: SparkSession
) -> None:
    world = World(wire, seed=21)
    world.populate(8)
    seal_all(server)
    expected = Expected(world)
    following.run()
    assert seen(following) == expected.rows()
    world.grow()
    seal_all(server)
    following.run()
    following.forget_the_last_batch()
    world.grow()
    seal_all(server)
    assert compacted(server, spark) > 0
    following.run()
    assert seen(following) == expected.rows()
    batches = len(following.offsets())
    world.hang_up()
    following.run()
    assert len(following.offsets()) == batches


def test_streams_that_die_return_or_are_recovered_are_told_apart(
    server: RunningServer, wire: Wire, following: Following
) -> None:
    world = World(wire, seed=31)
    for name in ("dies", "returns", "stays"):
        world.create(JSON, name)
        world.append(name)
    seal_all(server)
    expected = Expected(world)
    following.run()
    assert seen(following) == expected.rows()
    world.delete("dies")
    world.delete("returns")
    world.create(TEXT, "returns")
    world.append("returns")
    sweep(server)
    seal_all(server)
    following.run()
    assert seen(following) == expected.rows()
    assert following.offsets()[-1].keys() == {"returns", "stays"}
    before = seen(following)
    lose_and_recover(server, wire)
    world.append("stays")
    seal_all(server)
    following.run()
    new = [row for row in seen(following) if row not in before]
    assert new == [row for row in world.rows(["stays"]) if row["position"] >= end_of(before)]
    assert len(seen(following)) == len(before) + len(new)


def end_of(rows: list[Row]) -> int:
    last = max((row for row in rows if row["stream"] == "stays"), key=lambda row: row["position"])
    return int(last["next_offset"].split("_")[1])


def test_what_a_query_missed_is_an_error_unless_it_may_be_missed(
    server: RunningServer, wire: Wire, following: Following
) -> None:
    with Wire(server.url, root="/ds/") as buckets:
        world = World(wire, seed=41, buckets=buckets)
        name = world.create(JSON, f"{BUCKETED}s")
        world.append(name)
        seal_all(server)
        following.run()
        first = seen(following)
        for _ in range(3):
            world.append(name)
        position = world.streams[name].stored
        snapshot = f"{name}/snapshot/{token(world.log(name), position)}"
        assert world.ask("PUT", snapshot, b"{}", content_type=TEXT).status in (200, 201, 204)
        for _ in range(3):
            world.append(name)
        seal_all(server)
        retained = [row for row in world.rows() if row["position"] >= position]
        with pytest.raises(StreamingQueryException, match=f"retains nothing before .*{position}"):
            following.run()
        assert seen(following) == first
        following.run(failOnDataLoss="false")
        assert seen(following) == first + retained
        world.append(name)
        seal_all(server)
        following.run()
        assert len(seen(following)) == len(first + retained) + len(world.rows()[-1:])


def test_options_that_cannot_be_are_refused_by_the_query(following: Following) -> None:
    with pytest.raises(StreamingQueryException, match="readStream has no option includeTail"):
        following.run(includeTail="true")
