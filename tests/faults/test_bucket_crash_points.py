"""A process dies in the midst of what buckets and snapshots need; afterwards nothing shows it.

The rows are those of `docs/crash-points.md`; all die beside a server that lives on.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.client import unique_name
from support.crashing import Point, crash
from support.repairs import (
    NEVER,
    assert_sound,
    keys_in,
    lose_and_recover,
    objects_of,
    seal_all,
    sweep,
)
from support.server import RunningServer
from support.shelf import Shelf
from support.wire import Wire

DOCUMENT = Path(__file__).parents[2] / "docs" / "crash-points.md"
CHUNK = 1024

BUCKET = {
    "created, before its object is put": Point("before", "put", "buckets/BUCKET"),
    "created, after its object is put": Point("after", "put", "buckets/BUCKET"),
    "deleted, before its object is removed": Point("before", "delete", "buckets/BUCKET"),
}
MEMBER = {
    "created, after it was entered": Point("after", "run", "join ds:bucket:{BUCKET}"),
    "created, before it is confirmed": Point("after", "run", "create ds:{NAME}"),
    "deleted, before it leaves its bucket": Point("before", "call", "ZREMRANGEBYLEX ds:bucket:"),
}
PUBLICATION = {
    "after the intention": Point("after", "call", "ZADD ds:{NAME}:shed"),
    "in the middle of the upload": Point("before", "send", "second"),
    "after the upload": Point("after", "put_pieces", "snapshots/SEGMENT"),
    "after it is in force": Point("after", "run", "publish ds:{NAME}"),
}
TRIMMING = {
    "after the pieces are taken out": Point("after", "run", "trim ds:{NAME}"),
    "after the objects are removed": Point("after", "delete", "chunks/SEGMENT"),
    "before they are forgotten": Point("before", "call", "ZREM ds:{NAME}:shed"),
}
ROWS: dict[str, list[str]] = {
    "bucket": list(BUCKET),
    "member": list(MEMBER),
    "publish": list(PUBLICATION),
    "trim": list(TRIMMING),
}

pytestmark = pytest.mark.timeout(120)


@dataclass
class House:
    server: RunningServer
    wire: Wire

    def crash(self, point: Point, shelf: Shelf, *arguments: str) -> None:
        bucket, _, _ = shelf.name.partition("/")
        words = point.words.replace("BUCKET", bucket).replace("SEGMENT", shelf.segment)
        there = replace(point, words=words.replace("NAME", shelf.inner_name))
        crash(self.server.environment, there, *arguments)

    def shelf(self) -> Shelf:
        return Shelf(self.wire, f"{unique_name()}/it")

    def bucket(self, shelf: Shelf) -> dict[str, object] | None:
        answer = self.wire.ask("GET", shelf.name.partition("/")[0])
        return json.loads(answer.body) if answer.status == 200 else None

    def listed(self, shelf: Shelf) -> list[str]:
        answer = self.wire.ask("GET", f"{shelf.name.partition('/')[0]}/streams")
        return [stream["stream_id"] for stream in json.loads(answer.body)["streams"]]

    def assert_can_be_deleted(self, shelf: Shelf) -> None:
        bucket = shelf.name.partition("/")[0]
        assert self.wire.ask("DELETE", bucket).status == 204
        assert self.wire.ask("GET", bucket).status == 404
        assert keys_in(self.server, f"buckets/{bucket}") == []


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """The server leaves everything alone for a day, the commands do not."""
    grace = "DS_TIERING__DELETE_GRACE_SECS"
    with (
        RunningServer(chunk_bytes=CHUNK, env=NEVER | {grace: "86400"}) as server,
        Wire(server.url, root="/ds/") as wire,
    ):
        server.settings[grace] = "0"
        yield House(server, wire)


def test_the_document_has_the_rows_of_these_tests() -> None:
    table = re.findall(r"^\| ([a-z]+) \| ([^|]+) \|", DOCUMENT.read_text(), re.MULTILINE)
    documented = [row for row in table if row[0] in ROWS]
    assert documented == [(verb, point) for verb, points in ROWS.items() for point in points]


@pytest.mark.parametrize("where", BUCKET)
def test_a_worker_dies_with_a_bucket_in_its_hands(where: str, house: House) -> None:
    shelf = house.shelf()
    bucket = shelf.name.partition("/")[0]
    is_deletion = "deleted" in where
    if is_deletion:
        assert house.wire.ask("PUT", bucket).status == 201
    verb = "delete-bucket" if is_deletion else "create-bucket"
    house.crash(BUCKET[where], shelf, verb, bucket)
    assert (house.bucket(shelf) is None) == is_deletion
    sweep(house.server)
    assert keys_in(house.server, f"buckets/{bucket}") == (
        [] if is_deletion else [f"buckets/{bucket}"]
    )
    assert house.wire.ask("PUT", bucket).status == (201 if is_deletion else 409)
    shelf.create().write(1)
    assert house.listed(shelf) == ["it"]
    assert_sound(house.server)


@pytest.mark.parametrize("is_swept", [False, True])
@pytest.mark.parametrize("where", MEMBER)
def test_a_worker_dies_between_a_stream_and_its_bucket(
    where: str, is_swept: bool, house: House
) -> None:
    shelf = house.shelf()
    house.wire.ask("PUT", shelf.name.partition("/")[0])
    if is_deletion := "deleted" in where:
        shelf.create().write(3)
    verb = "delete" if is_deletion else "create"
    house.crash(MEMBER[where], shelf, verb, shelf.inner_name)
    is_there = where == "created, before it is confirmed"
    assert (house.wire.ask("HEAD", shelf.name).status == 200) == is_there
    assert house.listed(shelf) == (["it"] if is_there else [])
    if is_swept:
        sweep(house.server)
        assert house.bucket(shelf) is not None
        assert (house.bucket(shelf) or {})["streams"] == is_there
    assert_sound(house.server)
    if is_there:
        assert house.wire.ask("PUT", shelf.name, content_type="text/plain").status == 200
        assert house.wire.ask("DELETE", shelf.name).status == 204
    house.assert_can_be_deleted(shelf)


@pytest.mark.parametrize("where", PUBLICATION)
def test_a_publisher_dies(where: str, house: House) -> None:
    shelf = house.shelf().create().write(30).publish(10)
    seal_all(house.server)
    house.crash(PUBLICATION[where], shelf, "publish", shelf.inner_name, shelf.at(20))
    if where != "after it is in force":
        shelf.assert_whole(snapshot=10)
        assert_sound(house.server)
        assert shelf.wire.ask("GET", f"{shelf.name}/snapshot/{shelf.at(20)}").status == 404
        shelf.publish(20)
    shelf.write(3)
    assert shelf.bootstrap().messages == shelf.messages[20:]
    seal_all(house.server)
    expire_intentions(house, shelf)
    sweep(house.server)
    [left] = keys_in(house.server, f"snapshots/{shelf.segment}/")
    assert f"_{shelf.position(20):016d}-" in left
    assert list((objects_of(house.server) / "^scratch").iterdir()) == []
    assert shelf.bootstrap().messages == shelf.messages[20:]
    assert_sound(house.server)


def expire_intentions(house: House, shelf: Shelf) -> None:
    """As if the hours had passed that an upload may take."""
    with house.server.redis() as redis:
        key = f"ds:{{{shelf.inner_name}}}:shed"
        for member in redis.zrange(key, 0, -1):
            redis.zadd(key, {member: 0})


@pytest.mark.parametrize("where", TRIMMING)
def test_a_janitor_dies_while_it_trims(where: str, house: House) -> None:
    shelf = house.shelf().create().write(60).publish(10)
    seal_all(house.server)
    shelf.publish(40)
    seal_all(house.server)
    house.crash(TRIMMING[where], shelf, "sweep")
    shelf.assert_whole(snapshot=40)
    assert_sound(house.server)
    sweep(house.server)
    shelf.write(2).assert_whole(snapshot=40)
    assert len(keys_in(house.server, f"snapshots/{shelf.segment}/")) == 1
    starts = [
        int(key.rsplit("_", 1)[1][:16])
        for key in keys_in(house.server, shelf.segment)
        if "chunks/" in key
    ]
    assert min(starts) > shelf.position(40) - 2 * CHUNK
    with house.server.redis() as redis:
        assert not redis.exists(f"ds:{{{shelf.inner_name}}}:shed")
    assert_sound(house.server)


def test_after_all_that_the_bucket_gives_everything_back(house: House) -> None:
    shelf = house.shelf().create().write(30).publish(20)
    seal_all(house.server)
    lose_and_recover(house.server, house.wire)
    shelf.assert_whole(snapshot=20)
    assert house.listed(shelf) == ["it"]
    assert_sound(house.server)
