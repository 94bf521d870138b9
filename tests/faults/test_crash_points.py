"""A process dies at each line where that could matter; afterwards nothing shows it.

The rows are those of `docs/crash-points.md`. All but those of `recover` die beside a server that
lives on, each with streams of its own; at the end the bucket must give all of them back.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pytest
from support.client import unique_name
from support.crashing import Point, compact, crash
from support.object_servers import free_ports
from support.purge_sink import PurgeSink
from support.repairs import (
    NEVER,
    assert_sound,
    command,
    keys_in,
    lose_and_recover,
    lose_redis,
    objects_of,
    produce,
    seal_all,
    stop,
    sweep,
)
from support.server import RunningServer, wait_until
from support.shelf import Shelf
from support.wire import Wire

from tiering.compaction import Compaction
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.objects.directory import DirectoryStore

DOCUMENT = Path(__file__).parents[2] / "docs" / "crash-points.md"
TEXT = "text/plain"
JSON = "application/json"
CHUNK = 1024
GRACE = "DS_TIERING__DELETE_GRACE_SECS"

SEALING = {
    "before the index is put": Point("before", "put_if_absent", "index/chunks/NAME"),
    "after the index": Point("after", "put_if_absent", "index/chunks/NAME"),
    "after the body": Point("after", "put_if_absent", "chunks/NAME"),
    "after the commit": Point("after", "run", "seal ds:{NAME"),
}
MANIFEST = {
    "before it is announced": Point("before", "run", "manifest ds:{NAME"),
    "before the put": Point("before", "put", "manifest/NAME"),
    "after the put, before it is noted": Point("after", "put", "manifest/NAME"),
    "after it is noted": Point("after", "run", "manifest ds:{NAME", 2),
}
DELETION = {
    "before the tombstone": Point("before", "put", "manifest/NAME"),
    "after the tombstone": Point("after", "put", "manifest/NAME"),
    "after the script": Point("after", "run", "delete ds:{NAME"),
    "before the hint": Point("before", "call", "ZADD ds:graves"),
    "before the purge": Point("before", "forget", "NAME"),
    "before the bodies go": Point("before", "delete", "chunks/NAME"),
    "after the bodies": Point("after", "delete", "chunks/NAME"),
    "before the last purge": Point("after", "call", "HSET ds:{NAME}:recalls"),
}
DEMOTION = {
    "before the purge": Point("before", "forget", "NAME"),
    "after the part": Point("after", "put_if_absent", "parts/NAME"),
    "after the script": Point("after", "run", "demote ds:{NAME"),
    "before the last purge": Point("after", "call", "HSET ds:{NAME}:recalls"),
}
WIPED = Point("after", "run", "delete ds:{NAME")
EXPIRY = {
    "on access, after the wipe, before the tombstone": (WIPED, "expire"),
    "by the sweep, after the wipe, before the tombstone": (WIPED, "sweep"),
    "by the sweep, after the tombstone": (Point("after", "put", "manifest/NAME"), "sweep"),
}
CLEANING = {
    "after the tombstone": Point("after", "put", "manifest/NAME"),
    "after the bodies": Point("after", "delete", "parts/NAME"),
    "after the indexes": Point("after", "delete", "index/parts/NAME"),
    "after the manifest": Point("after", "delete", "manifest/NAME"),
    "before it is forgotten": Point("before", "call", "ZREM ds:{NAME}:dead"),
}
FORKING = {
    "after the loan is taken": (Point("after", "run", "lend ds:{NAME"), "fork"),
    "after it is made, before the loan is confirmed": (
        Point("after", "run", "create ds:{NAME"),
        "fork",
    ),
    "deleted, before the loan is given back": (
        Point("before", "run", "release ds:{NAME"),
        "delete",
    ),
}
RECOVERY = {
    "after the marker": Point("after", "call", "SET ds:recovering"),
    "after a shortened part was put": Point("after", "put_if_absent", "parts/batched"),
    "after the first manifest": Point("after", "put", "manifest/"),
    "after half of the streams": Point("after", "run", "restore", 3),
    "before a superseded snapshot is noted": Point("before", "call", "ZADD ds:{__ds/kept/it}:shed"),
    "before the buckets": Point("before", "call", "HSETNX ds:bucket:{kept}"),
    "before a stream is back in its bucket": Point("before", "run", "join ds:bucket:{kept}"),
    "before the deployment id": Point("before", "call", "SET ds:deployment"),
    "before anybody was told": Point("after", "call", "SET ds:deployment"),
    "before the marker is removed": Point("before", "call", "DEL ds:recovering"),
}
LET_IN = ("before anybody was told", "before the marker is removed")
COMPACTION = {
    "after it is begun": Point("after", "run", "intend ds:{NAME"),
    "after the index": Point("after", "put_if_absent", "index/chunks/NAME"),
    "after the body": Point("after", "put_if_absent", "chunks/NAME"),
    "after everything is merged": Point("before", "run", "compact ds:{NAME"),
    "after a commit, before the hint": Point("after", "run", "compact ds:{NAME"),
    "between two commits": Point("before", "run", "compact ds:{NAME", 2),
}
ROWS: dict[str, list[str]] = {
    "seal": list(SEALING),
    "manifest": list(MANIFEST),
    "delete": list(DELETION),
    "demote": list(DEMOTION),
    "expiry": list(EXPIRY),
    "janitor": list(CLEANING),
    "fork": list(FORKING),
    "recover": list(RECOVERY),
    "compact": list(COMPACTION),
}

pytestmark = pytest.mark.timeout(120)


@dataclass
class House:
    """A server, what must be in its streams, and which of them must be gone."""

    server: RunningServer
    wire: Wire
    cache: PurgeSink | None = None
    expected: dict[str, bytes] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def crash(self, point: Point, name: str, *arguments: str) -> None:
        crash(self.server.environment, point.on(name), *arguments)

    def add(self, **headers: str) -> str:
        """A chunk and more, in Redis only: no sealer takes it up by itself."""
        name = self.create(**headers)
        for size in (400, 900, 300):
            self.produce(name, b"%03d " % size * (size // 4))
        return name

    def add_crumbs(self) -> str:
        """Two chunks in parts, and a part of a third one."""
        name = self.create()
        for size in (400, 900, 300, 800, 200):
            self.produce(name, b"%03d " % size * (size // 4))
            seal_all(self.server)
        return name

    def create(self, **headers: str) -> str:
        name = unique_name()
        with self.server.redis() as redis:
            redis.set(f"ds:{{{name}}}:lease", "a test", ex=29)
        self.wire.ask("PUT", name, content_type=TEXT, **headers)
        self.expected[name], self.last[name] = b"", -1
        return name

    def produce(self, name: str, body: bytes) -> None:
        self.last[name] += 1
        assert produce(self.wire, name, body, self.last[name], TEXT).status == 200
        self.expected[name] += body

    def assert_whole(self, *names: str) -> None:
        for name in names or self.expected:
            assert self.wire.read_all(name) == self.expected[name]

    def assert_goes_on(self, name: str) -> None:
        """Nothing is there twice, and the next append is where it belongs."""
        self.assert_whole(name)
        assert produce(self.wire, name, b"again", self.last[name], TEXT).status == 204
        self.produce(name, b"more")
        self.assert_whole(name)
        assert_sound(self.server)

    def assert_recalled(self, name: str) -> None:
        """No edge finds a byte of it, though its time of grace is not over."""
        assert self.cache is not None
        asked = self.cache.tags.count(f"stream-{name}")
        with patch.dict(self.server.settings, {GRACE: "86400"}):
            sweep(self.server)
        wait_until(lambda: not self.chunks_of(name), what="the bodies to go")
        tags = self.cache.tags
        wait_until(lambda: tags.count(f"stream-{name}") > asked, what="the purge")
        assert_sound(self.server)

    def chunks_of(self, name: str) -> list[str]:
        return [key for key in keys_in(self.server, f"/{name}/") if key.startswith("chunks/")]

    def assert_gone_for_good(self, name: str) -> None:
        self.gone.append(name)
        del self.expected[name]
        assert self.wire.ask("GET", name).status == 404
        assert_sound(self.server)
        sweep(self.server)
        assert keys_in(self.server, f"/{name}/") == []
        assert_sound(self.server)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """The server leaves its dead alone for a day, the commands do not."""
    with PurgeSink(free_ports(1)[0]) as cache:
        edges = {"DS_EDGE__SECRET": "a-secret-of-edges", **cache.setting}
        with (
            RunningServer(chunk_bytes=CHUNK, env=NEVER | edges | {GRACE: "86400"}) as server,
            Wire(server.url) as wire,
        ):
            server.settings[GRACE] = "0"
            yield House(server, wire, cache)


def test_the_document_has_the_rows_of_these_tests() -> None:
    table = re.findall(r"^\| ([a-z]+) \| ([^|]+) \|", DOCUMENT.read_text(), re.MULTILINE)
    documented = [row for row in table if row[0] in ROWS]
    assert documented == [(verb, point) for verb, points in ROWS.items() for point in points]


@pytest.mark.parametrize("where", SEALING)
def test_a_sealer_dies(where: str, house: House) -> None:
    name = house.add()
    house.crash(SEALING[where], name, "seal", "--all")
    house.assert_goes_on(name)
    seal_all(house.server)
    house.assert_whole(name)
    assert_sound(house.server)


@pytest.mark.parametrize("where", MANIFEST)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_writer_of_a_manifest_dies(where: str, is_deleted: bool, house: House) -> None:
    """Also when the stream is deleted before anybody could write it again."""
    name = house.add()
    house.crash(MANIFEST[where], name, "seal", "--all")
    house.assert_goes_on(name)
    if is_deleted:
        assert house.wire.ask("DELETE", name).status == 204
        house.assert_gone_for_good(name)
    seal_all(house.server)
    assert_sound(house.server)


@pytest.mark.parametrize("where", DELETION)
def test_a_worker_dies_in_a_delete(where: str, house: House) -> None:
    name = house.add()
    seal_all(house.server)
    house.crash(DELETION[where], name, "delete", name)
    assert_sound(house.server)
    if "tombstone" in where:
        house.assert_goes_on(name)
        seal_all(house.server)
        assert "deleted" not in manifest(house, name)
        assert house.wire.ask("DELETE", name).status == 204
    else:
        house.assert_recalled(name)
    house.assert_gone_for_good(name)


@pytest.mark.parametrize("where", DEMOTION)
def test_a_worker_dies_in_a_delete_of_what_forks_need(where: str, house: House) -> None:
    source = house.add()
    fork = f"{source}-fork"
    assert house.wire.ask("PUT", fork, stream_forked_from=f"/v1/stream/{source}").status == 201
    house.expected[fork] = house.expected[source]
    seal_all(house.server)
    assert house.chunks_of(source) != []
    house.crash(DEMOTION[where], source, "delete", source)
    assert house.wire.ask("GET", source).status == 410
    house.assert_whole(fork)
    house.assert_recalled(source)
    house.assert_whole(fork)
    assert house.wire.ask("DELETE", fork).status == 204
    house.assert_gone_for_good(fork)
    house.assert_gone_for_good(source)


def manifest(house: House, name: str) -> dict[str, object]:
    [key] = keys_in(house.server, f"manifest/{name}/")
    return dict(json.loads((objects_of(house.server) / key).read_bytes()))


@pytest.mark.parametrize("where", EXPIRY)
def test_a_worker_dies_in_an_expiry(where: str, house: House) -> None:
    point, verb = EXPIRY[where]
    name = house.add(stream_ttl="1")
    seal_all(house.server)
    wait_until(lambda: has_expired(house, name))
    house.crash(point, name, verb, *([name] if verb == "expire" else []))
    house.assert_gone_for_good(name)


def has_expired(house: House, name: str) -> bool:
    with house.server.redis() as redis:
        seconds, _ = redis.time()
        return int(redis.hget(f"ds:{{{name}}}:meta", "deadline") or 0) < seconds * 1000


@pytest.mark.parametrize("where", CLEANING)
def test_a_janitor_dies(where: str, house: House) -> None:
    is_expired = "tombstone" in where
    name = house.add(**({"stream_ttl": "1"} if is_expired else {}))
    seal_all(house.server)
    if is_expired:
        wait_until(lambda: has_expired(house, name))
    else:
        assert house.wire.ask("DELETE", name).status == 204
    house.crash(CLEANING[where], name, "sweep")
    house.assert_gone_for_good(name)


@pytest.mark.parametrize("where", FORKING)
def test_a_worker_dies_while_a_fork_comes_or_goes(where: str, house: House) -> None:
    """After one sweep its source knows of it if it is there, and of nothing if it is not."""
    point, verb = FORKING[where]
    source = house.add()
    name = f"{source}-fork"
    if verb == "delete":
        house.wire.ask("PUT", name, stream_forked_from=f"/v1/stream/{source}")
        seal_all(house.server)
    house.crash(point, source, verb, name, *([source] if verb == "fork" else []))
    sweep(house.server)
    assert_sound(house.server)
    is_there = house.wire.ask("HEAD", name).status == 200
    assert is_there == ("made" in where)
    assert len(loans(house, source)) == is_there
    if is_there:
        assert house.wire.read_all(name) == house.expected[source]
        assert house.wire.ask("DELETE", name).status == 204
    house.assert_goes_on(source)
    assert house.wire.ask("DELETE", source).status == 204
    house.assert_gone_for_good(source)
    assert keys_in(house.server, f"/{name}/") == []


def loans(house: House, source: str) -> list[bytes]:
    with house.server.redis() as redis:
        return list(redis.zrange(f"ds:{{{source}}}:loans", 0, -1))


@pytest.mark.parametrize("where", COMPACTION)
@pytest.mark.parametrize("is_taken_up", [False, True])
def test_a_compaction_dies(where: str, is_taken_up: bool, house: House) -> None:
    """The next one goes on; if there is none, what was begun goes when its time is over."""
    name = house.add_crumbs()
    house.crash(COMPACTION[where], name, "compact", name)
    house.assert_goes_on(name)
    committed = 1 if "commit" in where else 0
    sweep(house.server)
    assert len(kept(house, "parts", name)) == 5 - 2 * committed
    if is_taken_up:
        assert asyncio.run(compacted(house, name)) == ["ok"] * (2 - committed)
    else:
        expire_intentions(house, name)
    sweep(house.server)
    chunks = 2 if is_taken_up else committed
    assert len(kept(house, "chunks", name)) == len(kept(house, "index/chunks", name)) == chunks
    assert (
        len(kept(house, "parts", name)) == len(kept(house, "index/parts", name)) == 5 - 2 * chunks
    )
    with house.server.redis() as redis:
        assert not redis.exists(f"ds:{{{name}}}:shed")
    house.assert_goes_on(name)


def kept(house: House, kind: str, name: str) -> list[str]:
    return [key for key in keys_in(house.server) if key.startswith(f"{kind}/{name}/")]


async def compacted(house: House, name: str) -> list[str]:
    pipe = Pipe(Address.parse(f"unix://{house.server.redis_socket}"), timeout_secs=30)
    await pipe.open()
    try:
        async with DirectoryStore(objects_of(house.server)) as store:
            return [*await compact(Compaction(pipe), store, name)]
    finally:
        await pipe.close()


def expire_intentions(house: House, name: str) -> None:
    """As if the hours had passed that a compaction may take."""
    with house.server.redis() as redis:
        for piece in redis.zrange(f"ds:{{{name}}}:shed", 0, -1):
            redis.zadd(f"ds:{{{name}}}:shed", {piece: 0})


def test_after_all_that_the_bucket_gives_everything_back(house: House) -> None:
    house.add()
    seal_all(house.server)
    lose_and_recover(house.server, house.wire)
    house.assert_whole()
    for name in house.gone:
        assert house.wire.ask("GET", name).status == 404
    assert_sound(house.server)


@pytest.mark.parametrize("where", RECOVERY)
def test_a_recovery_dies(where: str) -> None:
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        house = House(server, wire)
        names = [house.add() for _ in range(4)]
        house.wire.ask("PUT", "closed", b"whole", content_type=TEXT, stream_closed="true")
        house.expected["closed"] = b"whole"
        seal_all(server)
        shelf = house_in_a_bucket(server)
        add_one_to_be_damaged(house)
        add_batch_without_end(house)
        stop(server, wire)
        lose_redis(server)
        damage(server)
        crash(server.environment, RECOVERY[where], "recover")
        finish_recovery(house, where)
        house.assert_whole()
        assert house.wire.read_all("batched") == b'["first"]'
        house.assert_goes_on(names[0])
        assert_in_its_bucket(server, shelf)


def house_in_a_bucket(server: RunningServer) -> Shelf:
    """With a snapshot that is not in force any more, and a bucket that has nothing in it."""
    with Wire(server.url, root="/ds/") as wire:
        shelf = Shelf(wire, "kept/it").create().write(30).publish(10)
        assert wire.ask("PUT", "empty").status == 201
        seal_all(server)
        shelf.publish(20)
        seal_all(server)
    assert len(keys_in(server, "snapshots/")) == 2
    return shelf


def assert_in_its_bucket(server: RunningServer, shelf: Shelf) -> None:
    with Wire(server.url, root="/ds/") as wire:
        shelf.wire = wire
        shelf.assert_whole(snapshot=20)
        for bucket, count in (("kept", 1), ("empty", 0)):
            assert json.loads(wire.ask("GET", bucket).body)["streams"] == count
    server.settings["DS_TIERING__DELETE_GRACE_SECS"] = "0"
    sweep(server)
    assert len(keys_in(server, "snapshots/")) == 1
    assert_sound(server)


def add_batch_without_end(house: House) -> None:
    """Its complete chunks are in the bucket, its end is in Redis only."""
    house.wire.ask("PUT", "batched", b'["first"]', content_type=JSON)
    batch = json.dumps([f"{n:0100d}" for n in range(25)]).encode()
    assert house.wire.ask("POST", "batched", batch, content_type=JSON).status == 204
    wait_until(lambda: chunks_are_committed(house.server, "batched"))


def chunks_are_committed(server: RunningServer, name: str) -> bool:
    with server.redis() as redis:
        sealed, chunk = redis.hmget(f"ds:{{{name}}}:meta", "sealed", "chunk")
    return bool(sealed == chunk != b"0")


def add_one_to_be_damaged(house: House) -> None:
    house.wire.ask("PUT", "damaged", b"a chunk " * 200, content_type=TEXT)
    assert house.wire.ask("POST", "damaged", b"the rest", content_type=TEXT).status == 204
    seal_all(house.server)
    house.expected["damaged"] = b"a chunk " * 200


def damage(server: RunningServer) -> None:
    """The part is gone, and so is its index."""
    for key in keys_in(server, "parts/damaged/"):
        (objects_of(server) / key).unlink()


def finish_recovery(house: House, where: str) -> None:
    """What is not there yet is what an operator is told to bring back; what is lost is told by
    the run that ends, whichever one found it."""
    if where not in LET_IN:
        refused, printed = command(house.server, "seal", "--all")
        assert refused == 1
        assert "ds-server recover" in printed
    code, printed = command(house.server, "recover", "--json")
    assert code == 3, printed
    lost = {one["stream"]: one["lost_bytes"] for one in json.loads(printed)["missing"]}
    assert lost["damaged"] == len(b"the rest")
    again, printed = command(house.server, "recover")
    assert again == 1
    assert "nothing to recover" in printed
    house.server.start()
