"""What Spark shows of a bucket is what the HTTP surface returns, message for message."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.model import token
from support.object_servers import ObjectServer
from support.repairs import (
    NEVER,
    fsck,
    lose_redis,
    objects_of,
    recover_what_there_is,
    seal_all,
    stop,
    sweep,
)
from support.server import RunningServer
from support.spark_world import BUCKETED, JSON, TEXT, World
from support.wire import Wire

from spark.compact import Summary, compact
from spark.deployment import Deployment
from spark.options import Options

pytestmark = pytest.mark.timeout(240)

COMPARED = ["stream", "offset", "next_offset", "position", "content_type", "payload"]
CHUNK = 256
AT_ONCE = {"DS_TIERING__DELETE_GRACE_SECS": "0"}

Read = Callable[..., DataFrame]
Place = tuple[RunningServer, dict[str, str]]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """What is not needed any more goes at once."""
    with RunningServer(chunk_bytes=CHUNK, env=NEVER | AT_ONCE) as running:
        yield running


@pytest.fixture
def on_a_directory(server: RunningServer) -> Place:
    return server, {"url": str(objects_of(server))}


@pytest.fixture
def on_seaweedfs(seaweedfs: ObjectServer) -> Iterator[Place]:
    """What was replaced stays beside what replaced it."""
    settings = NEVER | seaweedfs.settings("reading")
    options = {
        "url": settings["DS_OBJECTS__URL"],
        "endpoint": seaweedfs.endpoint,
        "region": "us-east-1",
        "accessKeyId": seaweedfs.environment["AWS_ACCESS_KEY_ID"],
        "secretAccessKey": seaweedfs.environment["AWS_SECRET_ACCESS_KEY"],
    }
    with RunningServer(chunk_bytes=CHUNK, env=settings) as server:
        yield server, options


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def read(spark: SparkSession, server: RunningServer) -> Read:
    """Options of a reader add up, so that every query needs its own."""

    def read(**options: str) -> DataFrame:
        url = str(objects_of(server))
        return spark.read.format("durable_streams").options(**{"url": url} | options).load()

    return read


def rows(frame: DataFrame, *more: str) -> list[dict[str, Any]]:
    found = [row.asDict() for row in frame.select(*COMPARED, *more).collect()]
    for row in found:
        row["payload"] = bytes(row["payload"])
    return sorted(found, key=lambda row: (row["stream"], row["position"]))


def times_out_of(found: list[dict[str, Any]]) -> list[int | None]:
    """Takes the append times away, and gives them in ms."""
    times = [row.pop("append_time") for row in found]
    return [time and round(time.timestamp() * 1000) for time in times]


@pytest.mark.parametrize("place", ["on_a_directory", "on_seaweedfs"])
def test_fifty_random_streams_are_seen_as_http_shows_them(
    place: str, request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    """In chunks and parts, in buckets and outside, some forks of others, some of those deleted
    since; with snapshots that stand for what is not retained; before and after compactions."""
    server, options = request.getfixturevalue(place)
    with Wire(server.url) as wire, Wire(server.url, root="/ds/") as buckets:
        world = World(wire, seed=50, buckets=buckets)
        world.populate(25)
        seal_all(server)
        world.grow()
        world.publish_some()
        seal_all(server)
        world.hang_up()
        assert compacted(server, options, spark).streams_compacted > 10
        world.populate(35)
        world.grow()
        world.publish_some()
        seal_all(server)
        assert len(world.streams) >= 50
        times = assert_seen(world, server, options, spark)
        assert compacted(server, options, spark).streams_compacted > 10
        assert assert_seen(world, server, options, spark) == times
        assert_seen_since(sorted(times)[len(times) // 2], world, times, options, spark)
        assert fsck(server)["problems"] == []


def compacted(server: RunningServer, options: dict[str, str], spark: SparkSession) -> Summary:
    deployment = Deployment(f"unix://{server.redis_socket}", Options.parse(options).bucket)
    summary = asyncio.run(compact(deployment, lambda: spark))
    assert summary.damaged == []
    return summary


def assert_seen(
    world: World, server: RunningServer, options: dict[str, str], spark: SparkSession
) -> list[int]:
    """Also when each was appended, and that is returned."""
    sweep(server)
    world.assert_told_by_http()
    expected = world.rows()
    world.hang_up()
    found = rows(spark.read.format("durable_streams").options(**options).load(), "append_time")
    times = times_out_of(found)
    assert found == expected
    assert_within(times, world)
    return [time for time in times if time is not None]


def assert_within(times: list[int | None], world: World) -> None:
    for time, (before, after) in zip(times, world.moments(), strict=True):
        assert time is not None
        assert before <= time <= after


def assert_seen_since(
    time_ms: int, world: World, times: list[int], options: dict[str, str], spark: SparkSession
) -> None:
    """Chunks that end before it are not looked at; of the others only the messages that count."""
    since = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    frame = spark.read.format("durable_streams").options(**options, since=since).load()
    expected = [row for row, time in zip(world.rows(), times, strict=True) if time >= time_ms]
    world.hang_up()
    assert 0 < len(expected) < len(times)
    assert rows(frame) == expected


def test_recovered_streams_and_forks_of_them_are_seen_whole(
    server: RunningServer, wire: Wire, read: Read
) -> None:
    world = World(wire, seed=7)
    world.populate(12)
    seal_all(server)
    world.grow()
    stop(server, wire)
    lose_redis(server)
    recover_what_there_is(server)
    server.start()
    world.forget_what_was_lost()
    world.grow()
    world.populate(6)
    seal_all(server)
    world.assert_told_by_http()
    found = rows(read(), "append_time")
    assert_within(times_out_of(found), world)
    assert found == world.rows()


def test_what_is_not_sealed_comes_from_the_server(
    server: RunningServer, wire: Wire, read: Read
) -> None:
    """Only JSON tells its messages there; bytes are as one."""
    world = World(wire, seed=3)
    known = world.create(JSON)
    world.append(known)
    seal_all(server)
    world.append(known)
    new = world.create(JSON)
    for _ in range(20):
        world.append(new)
    tail = {"includeTail": "true", "server": server.url}
    assert rows(read(stream=known, **tail)) == world.rows([known])
    assert rows(read(stream=new, **tail)) == world.rows([new])
    assert rows(read(stream="nobody knows it", **tail)) == []
    assert_bucketed_tails(server, wire, read, tail)
    text = world.create(TEXT, "text")
    world.append(text)
    seal_all(server)
    world.append(text)
    world.append(text)
    sealed = rows(read(stream=text), "append_time")
    whole = rows(read(stream=text, **tail), "append_time")
    assert whole[: len(sealed)] == sealed
    assert None not in times_out_of(sealed)
    assert set(times_out_of(whole)[len(sealed) :]) == {None}
    assert b"".join(row["payload"] for row in whole) == wire.read_all(text)
    assert whole[-1]["next_offset"] == wire.ask("HEAD", text)["Stream-Next-Offset"]


def assert_bucketed_tails(
    server: RunningServer, wire: Wire, read: Read, tail: dict[str, str]
) -> None:
    with Wire(server.url, root="/ds/") as buckets:
        world = World(wire, seed=4, buckets=buckets)
        name = world.create(JSON, f"{BUCKETED}in a bucket")
        world.append(name)
        assert rows(read(stream=name, **tail)) == world.rows([name])
        seal_all(server)
        assert rows(read(stream=name)) == world.rows([name])
        world.append(name)
        assert rows(read(stream=f"{BUCKETED}*", **tail)) == world.rows([name])


def test_fields_are_parsed_and_what_does_not_fit_is_null(
    server: RunningServer, wire: Wire, read: Read
) -> None:
    wire.ask("PUT", "s", content_type=JSON)
    values = [
        {"n": 1, "s": "one", "day": "2026-01-31", "at": "2026-01-31T12:00:00Z", "more": {"x": [1]}},
        {"n": "not a number", "s": "two"},
        None,
        {"s": "three", "unknown": 3},
    ]
    wire.ask("POST", "s", json.dumps(values, indent=1).encode(), content_type=JSON)
    wire.ask("PUT", "t", b'{"n":1}', content_type=TEXT)
    seal_all(server)
    schema = "n INT, s STRING, day DATE, at TIMESTAMP, more STRUCT<x: ARRAY<BIGINT>>"
    frame = read(schema=f"{schema}, _corrupt BOOLEAN").orderBy("stream", "offset")
    found = [row.asDict(recursive=True) for row in frame.collect()]
    nothing = {"n": None, "s": None, "day": None, "at": None, "more": None}
    first = {"n": 1, "s": "one", "day": date(2026, 1, 31), "more": {"x": [1]}}
    expected = [first, nothing, nothing, nothing | {"s": "three"}, nothing]
    for row, fields in zip(found, expected, strict=True):
        assert {name: row[name] for name in fields} == fields
    assert found[0]["at"].timestamp() == datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    assert [row["_corrupt"] for row in found] == [False, True, True, False, False]
    assert [json.loads(bytes(row["payload"])) for row in found[:4]] == values
    with pytest.raises(PySparkException, match="does not fit the schema"):
        read(schema=schema, mode="FAILFAST").collect()


def test_a_schema_of_the_readers_own_chooses_columns(
    server: RunningServer, wire: Wire, spark: SparkSession
) -> None:
    wire.ask("PUT", "s", content_type=JSON)
    wire.ask("POST", "s", b'[{"n":1},{"n":2}]', content_type=JSON)
    seal_all(server)
    reader = spark.read.format("durable_streams").schema("n BIGINT, position BIGINT")
    frame = reader.load(str(objects_of(server)))
    assert sorted(tuple(row) for row in frame.collect()) == [(1, 0), (2, 8)]
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW events USING durable_streams"
        f" OPTIONS (url '{objects_of(server)}', schema 'n BIGINT')"
    )
    assert spark.sql("SELECT sum(n) FROM events").collect()[0][0] == 3


def test_what_cannot_be_is_refused_with_a_reason(
    server: RunningServer, wire: Wire, read: Read
) -> None:
    wire.ask("PUT", "s", b"1", content_type=JSON)
    seal_all(server)
    reasons = [
        ({"untill": "x"}, "knows no option"),
        ({"from": "first"}, "no offset"),
        ({"since": "yesterday"}, "no time"),
        ({"includeTail": "true"}, "needs the option server"),
        ({"schema": "offset INT"}, "twice"),
        ({"schema": "m MAP<STRING, INT>"}, "Arrow reads no map"),
        ({"url": "/nowhere/at/all"}, "cannot be used"),
        ({"url": str(server.data_dir)}, "holds no streams"),
        ({"from": token(77, 0)}, "no offset of s"),
    ]
    for options, reason in reasons:
        with pytest.raises(PySparkException, match=reason):
            read(**options).collect()
