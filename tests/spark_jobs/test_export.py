"""`ds-spark export`: what plain Spark and DuckDB read from its files is what HTTP returns."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.exported import Row, by_duckdb, by_spark, days_in, files_in
from support.object_servers import ObjectServer
from support.redated import redate
from support.repairs import (
    NEVER,
    keys_in,
    lose_redis,
    objects_of,
    recover_what_there_is,
    seal_all,
    stop,
    sweep,
)
from support.server import RunningServer
from support.small_disk import small_disk
from support.spark_world import JSON, TEXT, World
from support.wire import Wire

from spark.compact import compact
from spark.deployment import Deployment
from spark.export.directory import Directory
from spark.export.job import Wish, export, imagine
from spark.export.summary import Summary, report
from spark.export.workforce import Executors, Workforce
from spark.export.writing import Numbered, Result, Setting
from spark.options import Bucket
from tiering.errors import Refused, Unavailable
from tiering.objects.open import Credentials

pytestmark = pytest.mark.timeout(240)

CHUNK = 256
AT_ONCE = {"DS_TIERING__DELETE_GRACE_SECS": "0"}
DAY_MS = 86_400_000
MIDNIGHT_MS = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
STRANGE = [
    "1",
    "01",
    "a=b/day=2026-01-01",
    "100%",
    "%2F",
    " b c ",
    "ü/日本/🦆",
    "__HIVE_DEFAULT_PARTITION__",
    "NULL",
    "[x]*?{y}",
    "line\nbreak",
    "_hidden",
    ".hidden",
    "n" * 400,
    "n" * 399 + "m",
    "é" * 133,
]


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
def to(tmp_path: Path) -> Path:
    return tmp_path / "exported"


@pytest.fixture
def wish(server: RunningServer, to: Path) -> Callable[..., Wish]:
    def wish(**more: Any) -> Wish:
        return Wish(Bucket(objects_of(server).as_uri()), Directory(to), **more)

    return wish


@pytest.fixture
def run(wish: Callable[..., Wish], wire: Wire, spark: SparkSession) -> Callable[..., Summary]:
    """A run may take longer than the server keeps connections for."""

    def run(**more: Any) -> Summary:
        wire.close()
        return export(wish(**more), lambda: Executors(spark))

    return run


Run = Callable[..., Summary]


def compacted(server: RunningServer, spark: SparkSession) -> int:
    deployment = Deployment.parse({"data_dir": str(server.data_dir)}, {})
    summary = asyncio.run(compact(deployment, lambda: spark))
    assert summary.damaged == []
    return summary.streams_compacted


class Archive:
    """What must be in the files: all that was there to be exported whenever a run came by."""

    def __init__(self, world: World, to: Path, spark: SparkSession) -> None:
        self.world = world
        self.kept: dict[tuple[str, str], Row] = {}
        self._to = to
        self._spark = spark

    def assert_has(self, summary: Summary) -> None:
        """Each row once, and the last run wrote the new ones alone."""
        self.world.assert_told_by_http()
        before = len(self.kept)
        self.kept |= {(row["stream"], row["offset"]): row for row in self.world.rows()}
        self.world.hang_up()
        expected = [row for _, row in sorted(self.kept.items())]
        assert summary.damaged == []
        assert summary.rows == len(self.kept) - before
        assert by_duckdb(self._to) == expected
        assert by_spark(self._spark, self._to) == expected


def test_random_streams_are_exported_as_http_shows_them(
    server: RunningServer, wire: Wire, run: Run, to: Path, spark: SparkSession
) -> None:
    """In buckets and outside, forks, some closed, some deleted; compacted, and not retained any
    more. What was exported stays as it is, whatever happens to its stream."""
    with Wire(server.url, root="/ds/") as buckets:
        world = World(wire, seed=11, buckets=buckets)
        archive = Archive(world, to, spark)
        world.populate(15)
        seal_all(server)
        world.hang_up()
        first = run(task_cost=200_000)
        archive.assert_has(first)
        before = files_in(to)
        again = run()
        assert (again.rows, again.streams_unchanged) == (0, first.streams)
        assert files_in(to) == before
        world.grow()
        seal_all(server)
        world.publish_some()
        world.hang_up()
        assert compacted(server, spark) > 2
        for name in world.random.sample(sorted(world.streams), 4):
            world.delete(name)
        world.populate(6)
        seal_all(server)
        sweep(server)
        world.hang_up()
        second = run()
        archive.assert_has(second)
        assert sum(gap.bytes for gap in second.gaps) > 0
        assert before.items() <= files_in(to).items()
        assert run().gaps == []


def test_strange_names_fields_and_both_sides_of_midnight(
    server: RunningServer, wire: Wire, run: Run, to: Path, spark: SparkSession
) -> None:
    """A clock that was put back too: messages keep their order, and each has its day."""
    world = World(wire, seed=5)
    for number, name in enumerate(STRANGE):
        world.create(JSON if number % 2 else TEXT, name)
        for _ in range(4):
            world.append(name)
    seal_all(server)
    ticks = cycle([MIDNIGHT_MS - 1, MIDNIGHT_MS, MIDNIGHT_MS - 2 * DAY_MS, MIDNIGHT_MS])
    redate(objects_of(server), lambda position: next(ticks))
    for field in ("Payload", "day", "stream_dir"):
        with pytest.raises(Refused, match=f"'{field}' has the name of another"):
            run(fields=f"n LONG, {field} STRING")
    with pytest.raises(Refused, match="is no schema"):
        run(fields="n, LONG of what")
    some = run(pattern="n*", fields="n LONG,  s STRING, _corrupt BOOLEAN")
    assert some.streams == some.streams_exported == 2
    summary = run(fields="n LONG, s STRING, _corrupt BOOLEAN")
    assert (summary.streams, summary.streams_unchanged, summary.days) == (len(STRANGE), 2, 3)
    assert by_duckdb(to) == by_spark(spark, to) == world.rows()
    fields = ("n", "s", "_corrupt")
    parsed = by_duckdb(to, *fields)
    assert parsed == by_spark(spark, to, *fields)
    assert {row["_corrupt"] for row in parsed} == {True, False}
    assert any(row["n"] is not None for row in parsed)
    for day, time_ms, count in days_in(to):
        assert datetime.fromtimestamp(time_ms / 1000, UTC).date() == day
        assert count > 0
    chosen = spark.read.parquet(str(to)).where("stream_dir = 'a=b/day=2026-01-01'")
    assert {row["stream"] for row in chosen.collect()} == {"a=b/day=2026-01-01"}
    assert max(len(path.name.encode()) for path in to.rglob("*")) <= 255
    with pytest.raises(Refused, match="was begun with --schema"):
        run(fields="n INT")


def test_streams_made_anew_and_streams_recovered(
    server: RunningServer, wire: Wire, run: Run, to: Path
) -> None:
    """Offsets of the past stay what they were: HTTP takes them as well."""
    world = World(wire, seed=7)
    names = [world.create(JSON, f"r{number}") for number in range(3)]
    anew = world.create(TEXT, "anew")
    for name in (*names, anew):
        world.append(name)
    seal_all(server)
    run()
    old = by_duckdb(to)
    world.delete(anew)
    world.create(JSON, anew)
    world.append(anew)
    world.append(names[0])
    seal_all(server)
    stop(server, wire)
    lose_redis(server)
    recover_what_there_is(server)
    server.start()
    world.forget_what_was_lost()
    world.grow()
    world.append(names[1])
    seal_all(server)
    summary = run()
    assert (summary.begun_anew, summary.superseded, summary.damaged) == ([anew], [], [])
    found = by_duckdb(to)
    assert [row for row in found if row in old] == old
    dead = [row for row in old if row["stream"] == anew]
    assert told(row for row in found if row not in dead) == told(world.rows())
    for row in found:
        if row not in dead:
            assert wire.ask("GET", f"{row['stream']}?offset={row['offset']}").status == 200
    assert run().rows == 0


def told(rows: Any) -> list[tuple[Any, ...]]:
    """Without the log that offsets are told in."""
    found = ((row["stream"], row["position"], row["payload"]) for row in rows)
    return sorted(found)


def test_damage_stops_its_stream_alone_and_it_goes_on_when_it_is_repaired(
    server: RunningServer, wire: Wire, run: Run, to: Path
) -> None:
    world = World(wire, seed=9)
    for name in ("body", "index", "gone", "manifest", "sound"):
        world.create(TEXT, name)
        for _ in range(12):
            world.append(name)
    seal_all(server)
    objects = objects_of(server)
    victims = [last(server, "chunks/body/"), last(server, "index/chunks/index/")]
    victims += [last(server, "chunks/gone/"), last(server, "manifest/manifest/")]
    sound = {victim: (objects / victim).read_bytes() for victim in victims}
    for victim in victims:
        (objects / victim).unlink()
    (objects / victims[0]).write_bytes(b"?" * len(sound[victims[0]]))
    (objects / victims[3]).write_bytes(b"{}")
    summary = run(task_cost=1)
    assert {one.stream for one in summary.damaged} == {"body", "index", "gone", "manifest"}
    assert "damaged, and exported up to there: 4" in report(summary)
    found = by_duckdb(to)
    for name in ("body", "index", "gone", "manifest", "sound"):
        here = [row for row in found if row["stream"] == name]
        assert here == world.rows([name])[: len(here)]
        assert bool(here) == (name not in ("gone", "manifest"))
    assert [row for row in found if row["stream"] == "sound"] == world.rows(["sound"])
    for victim, content in sound.items():
        (objects / victim).unlink(missing_ok=True)
        (objects / victim).write_bytes(content)
    assert run().damaged == []
    assert by_duckdb(to) == world.rows()


def last(server: RunningServer, prefix: str) -> str:
    return [key for key in keys_in(server, prefix) if key.startswith(prefix)][-1]


class Interfering:
    """Executors who find that other things have happened meanwhile."""

    def __init__(self, executors: Workforce, deed: Callable[[], Any]) -> None:
        self._executors = executors
        self._deeds = [deed]
        self.parallelism = executors.parallelism
        self.schema = executors.schema

    def write(self, setting: Setting, tasks: Sequence[Sequence[Numbered]]) -> list[Result]:
        while self._deeds:
            self._deeds.pop()()
        return self._executors.write(setting, tasks)


def test_pieces_that_are_replaced_under_it_are_found_in_their_new_place(
    server: RunningServer, wire: Wire, wish: Callable[..., Wish], to: Path, spark: SparkSession
) -> None:
    """And a stream that is deleted then is exported up to there, or not at all."""
    world = World(wire, seed=3)
    for name in ("deleted", "merged"):
        world.create(TEXT, name)
        for _ in range(4):
            world.append(name)
            seal_all(server)

    planned = set(keys_in(server, "parts/merged/"))

    def meanwhile() -> None:
        world.hang_up()
        assert compacted(server, spark) >= 2
        world.delete("deleted")
        sweep(server)
        assert not planned <= set(keys_in(server))
        world.hang_up()

    dry = imagine(wish())
    assert (dry.streams_exported, to.exists()) == (2, False)
    summary = export(wish(), lambda: Interfering(Executors(spark), meanwhile))
    assert summary.damaged == []
    assert summary.bytes == sum(len(row["payload"]) for row in by_duckdb(to)) <= dry.bytes
    merged = [row for row in by_duckdb(to) if row["stream"] == "merged"]
    assert merged == world.rows()


def test_a_full_disk_is_an_error_that_leaves_nothing_and_passes(
    seaweedfs: ObjectServer, spark: SparkSession
) -> None:
    settings = seaweedfs.settings("full-disk")
    with RunningServer(env=NEVER | settings) as server, Wire(server.url) as wire:
        world = World(wire, seed=2)
        for name, content_type in (("a/json", JSON), ("b", TEXT)):
            world.create(content_type, name)
            for _ in range(5):
                world.append(name)
        seal_all(server)
        expected = world.rows()
    bucket = Bucket(
        settings["DS_OBJECTS__URL"],
        settings["DS_OBJECTS__ENDPOINT"],
        "us-east-1",
        Credentials(settings["AWS_ACCESS_KEY_ID"], settings["AWS_SECRET_ACCESS_KEY"]),
    )
    with small_disk(2) as disk:
        to = disk.path / "exported"
        wish = Wish(bucket, Directory(to))
        to.mkdir()
        (to / "_export").mkdir()
        disk.fill()
        with pytest.raises(Unavailable, match="No space left"):
            export(wish, lambda: Executors(spark))
        assert list(to.rglob("*.parquet")) == []
        disk.empty()
        assert export(wish, lambda: Executors(spark)).rows == len(expected)
        assert by_duckdb(to) == expected
