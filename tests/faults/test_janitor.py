"""What is deleted or has expired leaves Redis and the bucket by itself, and nothing else does."""

import uuid
from collections.abc import Iterator

import pytest
from support import object_servers
from support.client import unique_name
from support.object_servers import ObjectServer
from support.repairs import (
    NEVER,
    assert_sound,
    fsck,
    keys_in,
    lose_and_recover,
    objects_of,
    seal_all,
    sweep,
)
from support.server import RunningServer, wait_until
from support.wire import Wire

TEXT = "text/plain"
CHUNK = 1024
AT_ONCE = {
    "DS_TIERING__SEAL_AGE_SECS": "0",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "0.2",
}

pytestmark = pytest.mark.timeout(120)


def write(wire: Wire, name: str, **headers: str) -> bytes:
    """Two chunks and a part."""
    wire.ask("PUT", name, content_type=TEXT, **headers)
    bodies = [b"%04d" % number * 300 for number in range(2)] + [name.encode()]
    for body in bodies:
        assert wire.ask("POST", name, body, content_type=TEXT).status == 204
    return b"".join(bodies)


def leave(wire: Wire, server: RunningServer) -> dict[str, str]:
    """A stream for each way to go; the names of those that are gone."""
    names = {way: f"{way}-{unique_name()}" for way in ("deleted", "accessed", "swept", "anew")}
    write(wire, names["deleted"])
    for way in ("accessed", "swept", "anew"):
        write(wire, names[way], stream_ttl="1")
    wait_until(lambda: len(keys_in(server, "index/")) >= 4 * 3)
    wire.ask("DELETE", names["deleted"])
    wait_until(
        lambda: wire.ask("PUT", names["anew"], content_type=TEXT, stream_ttl="999").status == 201
    )
    wait_until(lambda: wire.ask("HEAD", names["accessed"]).status == 404)
    return names


def test_every_way_to_go_leaves_nothing_behind_and_what_lives_stays() -> None:
    with RunningServer(chunk_bytes=CHUNK, env=AT_ONCE) as server, Wire(server.url) as wire:
        alive = write(wire, "alive")
        names = leave(wire, server)
        again = write(wire, names["anew"], stream_ttl="999")
        log = (wire.ask("HEAD", names["anew"])["Stream-Next-Offset"] or "").partition("_")[0]
        for way in ("deleted", "accessed", "swept"):
            wait_until(lambda way=way: not keys_in(server, names[way]), what=way)
        wait_until(lambda: all(log in key for key in keys_in(server, names["anew"])))
        wait_until(lambda: fsck(server)["leftovers"] == 0)
        assert wire.read_all(names["anew"]) == again
        assert wire.read_all("alive") == alive
        assert len(keys_in(server, "/alive/")) == 7
        assert_nothing_of(server, [names[way] for way in ("deleted", "accessed", "swept")])
        assert_sound(server)


def assert_nothing_of(server: RunningServer, names: list[str]) -> None:
    folders = [path for path in objects_of(server).rglob("*") if path.is_dir()]
    assert [path for path in folders if not any(path.iterdir()) and "^" not in path.name] == []
    with server.redis() as redis:
        keys = b"\n".join(redis.keys("*"))
        assert [name for name in names if name.encode() in keys] == []
        assert redis.zcard("ds:graves") == 0


def test_objects_stay_until_the_time_of_grace_is_over() -> None:
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        name = unique_name()
        write(wire, name)
        seal_all(server)
        before = keys_in(server, name)
        assert wire.ask("DELETE", name).status == 204
        sweep(server)
        assert keys_in(server, name) == before
        assert fsck(server)["leftovers"] == len(before) == 7
        server.settings["DS_TIERING__DELETE_GRACE_SECS"] = "0"
        sweep(server)
        assert keys_in(server, name) == []
        assert_sound(server)


@pytest.fixture
def bucket() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


def test_in_a_bucket_the_same_holds_and_the_bucket_gives_everything_back(
    bucket: ObjectServer,
) -> None:
    prefix = uuid.uuid4().hex
    env = AT_ONCE | bucket.settings(prefix)
    with RunningServer(chunk_bytes=CHUNK, env=env) as server, Wire(server.url) as wire:
        alive = write(wire, "alive")
        write(wire, "gone")
        write(wire, "anew")
        seal_all(server)
        assert len(bucket.keys(f"{prefix}/index/")) >= 9
        for name in ("gone", "anew"):
            assert wire.ask("DELETE", name).status == 204
        again = write(wire, "anew")
        seal_all(server)
        wait_until(lambda: fsck(server)["leftovers"] == 0)
        assert not [key for key in bucket.keys(prefix) if "/gone/" in key]
        assert_sound(server)
        lose_and_recover(server, wire)
        assert wire.read_all("alive") == alive
        assert wire.read_all("anew") == again
        assert wire.ask("GET", "gone").status == 404
        assert_sound(server)
