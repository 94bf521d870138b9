"""Redis is gone, or an object is damaged: what becomes of buckets, snapshots, retained ranges."""

import json
from collections.abc import Iterator

import pytest
from support.damage import own_redis
from support.repairs import (
    NEVER,
    assert_sound,
    command,
    fsck,
    keys_in,
    lose_and_recover,
    lose_redis,
    objects_of,
    seal_all,
    stop,
    sweep,
)
from support.server import RunningServer, wait_until
from support.shelf import Shelf
from support.wire import Wire

CHUNK = 1024

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Nothing is removed by itself."""
    env = NEVER | {"DS_TIERING__DELETE_GRACE_SECS": "86400"}
    with RunningServer(chunk_bytes=CHUNK, env=env) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url, root="/ds/") as wire:
        yield wire


def listing(wire: Wire, bucket: str) -> dict[str, int]:
    answer = wire.ask("GET", f"{bucket}/streams")
    assert answer.status == 200
    return {one["stream_id"]: one["tail_offset"] for one in json.loads(answer.body)["streams"]}


def described(wire: Wire, bucket: str) -> dict[str, object]:
    return dict(json.loads(wire.ask("GET", bucket).body))


def remove_what_is_due(server: RunningServer) -> None:
    server.settings["DS_TIERING__DELETE_GRACE_SECS"] = "0"
    sweep(server)


def wait_for_the_manifest(server: RunningServer, shelf: Shelf, count: int) -> None:
    """Until object storage knows of the snapshot."""
    [key] = keys_in(server, f"manifest/{shelf.segment}/")
    path = objects_of(server) / key
    wait_until(lambda: json.loads(path.read_bytes()).get("earliest") == shelf.position(count))


def test_buckets_snapshots_and_retained_ranges_come_back(server: RunningServer, wire: Wire) -> None:
    assert wire.ask("PUT", "empty-bucket").status == 201
    plain = Shelf(wire, "full-bucket/plain").create().write(25)
    folded = Shelf(wire, "full-bucket/folded").create().write(40).publish(12)
    gone = Shelf(wire, "full-bucket/gone").create().write(2)
    seal_all(server)
    folded.publish(30)
    assert wire.ask("DELETE", gone.name).status == 204
    seal_all(server)
    before = {name: described(wire, name) for name in ("empty-bucket", "full-bucket")}
    listed = listing(wire, "full-bucket")
    old_start, old_snapshot = folded.at(30), folded.at(12)

    report = lose_and_recover(server, wire)
    assert report["missing"] == report["damaged"] == report["left_alone"] == []
    assert {name: described(wire, name) for name in before} == before
    assert listing(wire, "full-bucket") == listed
    plain.assert_whole(snapshot=None)
    folded.assert_whole(snapshot=30)
    assert wire.ask("GET", folded.name, offset=old_start).status == 200
    assert wire.ask("GET", folded.name, offset=old_snapshot).status == 410
    assert wire.ask("GET", f"{folded.name}/snapshot/{old_start}").body == folded.folded(30)
    folded.write(3).publish(42)
    plain.write(3).publish(5)
    assert wire.ask("DELETE", "empty-bucket").status == 204
    assert_sound(server)


def test_what_lies_behind_the_retained_range_is_removed_after_a_recovery(
    server: RunningServer, wire: Wire
) -> None:
    """Old snapshots as well as old pieces: nobody but recovery could tell that they are old."""
    shelf = Shelf(wire, "full-bucket/it").create().write(60).publish(10)
    seal_all(server)
    shelf.publish(40)
    seal_all(server)
    assert len(keys_in(server, "snapshots/")) == 2
    lose_and_recover(server, wire)
    shelf.assert_whole(snapshot=40)
    remove_what_is_due(server)
    [left] = keys_in(server, "snapshots/")
    assert f"_{shelf.position(40):016d}-" in left
    starts = [int(key[-16:]) for key in keys_in(server, f"chunks/{shelf.segment}/")]
    assert min(starts) > shelf.position(40) - 2 * CHUNK
    shelf.assert_whole(snapshot=40)
    assert fsck(server)["leftovers"] == 0
    assert_sound(server)


def test_a_snapshot_beyond_the_sealed_end_stands_for_what_was_lost_before_it(
    server: RunningServer, wire: Wire
) -> None:
    """The stream goes on where the snapshot ends; only what came after it is missing."""
    shelf = Shelf(wire, "full-bucket/it").create().write(15)
    seal_all(server)
    shelf.write(5).publish(18)
    wait_for_the_manifest(server, shelf, 18)
    report = lose_and_recover(server, wire, exit_code=3)
    assert [lost["lost_bytes"] for lost in report["missing"]] == [200]
    shelf.lose_the_end(18)
    shelf.assert_whole(snapshot=18)
    shelf.write(20).assert_whole(snapshot=18)
    seal_all(server)
    remove_what_is_due(server)
    shelf.assert_whole(snapshot=18)
    assert fsck(server)["leftovers"] == 0
    assert_sound(server)


def test_a_busy_stream_tells_object_storage_of_its_snapshot_at_once(
    server: RunningServer, wire: Wire
) -> None:
    """Though there is always something unsealed, which is young."""
    shelf = Shelf(wire, "full-bucket/it").create().write(3)
    seal_all(server)
    shelf.write(1).publish(2)
    wait_for_the_manifest(server, shelf, 2)
    assert shelf.write(1).bootstrap().messages == shelf.messages[2:]
    # What is sealed ends here; no record in Redis tells of this boundary.
    shelf.publish(3)
    wait_for_the_manifest(server, shelf, 3)


def test_a_fork_keeps_what_its_source_does_not_retain(server: RunningServer, wire: Wire) -> None:
    """Through a loss of Redis as well, and no longer than it is there."""
    source = Shelf(wire, "full-bucket/source").create().write(40)
    fork = source.fork("fork", 20).write(5)
    seal_all(server)
    source.publish(30)
    seal_all(server)
    late = source.fork("late", 35)
    seal_all(server)
    assert_sound(server)
    lose_and_recover(server, wire)
    fork.assert_whole(snapshot=None)
    late.assert_whole(snapshot=30)
    source.assert_whole(snapshot=30)
    assert_sound(server)
    remove_what_is_due(server)
    fork.assert_whole(snapshot=None)
    for one in (fork, late):
        assert wire.ask("DELETE", one.name).status == 204
    remove_what_is_due(server)
    starts = [int(key[-16:]) for key in keys_in(server, f"chunks/{source.segment}/")]
    assert min(starts) > source.position(30) - 2 * CHUNK
    source.write(1).assert_whole(snapshot=30)
    assert_sound(server)


def test_a_fork_of_what_only_redis_had_ends_where_the_data_end(
    server: RunningServer, wire: Wire
) -> None:
    """Its source goes on at a snapshot, which says nothing to a fork that was made before it."""
    source = Shelf(wire, "full-bucket/source").create().write(15)
    seal_all(server)
    fork = source.write(10).fork("fork", 5)
    seal_fork(server, fork)
    source.publish(25)
    wait_for_the_manifest(server, source, 25)
    lose_and_recover(server, wire)
    fork.assert_whole(snapshot=None)
    source.assert_whole(snapshot=25)
    source.write(20).assert_whole(snapshot=25)
    seal_all(server)
    assert_sound(server)


def seal_fork(server: RunningServer, fork: Shelf) -> None:
    assert fork.wire.ask("POST", fork.name, stream_closed="true").status == 204
    wait_until(lambda: keys_in(server, f"manifest/{fork.segment}/"))


def test_the_old_snapshot_stays_until_object_storage_knows_of_the_new_one(
    server: RunningServer, wire: Wire
) -> None:
    """Should Redis be lost in between, it is in force again."""
    shelf = Shelf(wire, "full-bucket/it").create().write(40).publish(10)
    seal_all(server)
    with server.redis() as redis:
        redis.set(f"ds:{{{shelf.inner_name}}}:lease", "a test", ex=29)
    shelf.publish(30)
    remove_what_is_due(server)
    lose_and_recover(server, wire)
    shelf.assert_whole(snapshot=10)
    assert_sound(server)


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_damaged_snapshot_is_found_and_not_served(
    server: RunningServer, wire: Wire, is_missing: bool
) -> None:
    shelf = Shelf(wire, "full-bucket/it").create().write(20).publish(10)
    sound = Shelf(wire, "full-bucket/sound").create().write(20).publish(10)
    seal_all(server)
    [key] = keys_in(server, f"snapshots/{shelf.segment}/")
    stop(server, wire)
    path = objects_of(server) / key
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[::-1])
    [problem] = fsck(server)["problems"]
    assert (problem["kind"], problem["key"]) == ("snapshot", key)
    server.start()
    answer = wire.ask("GET", f"{shelf.name}/snapshot/{shelf.at(10)}")
    assert answer.status == 500
    assert key in json.loads(answer.body)["detail"]
    stop(server, wire)
    lose_redis(server)
    code, printed = command(server, "recover")
    assert code == (3 if is_missing else 0), printed
    assert (key in printed) == is_missing
    server.start()
    sound.assert_whole(snapshot=10)
    [problem] = fsck(server)["problems"]
    assert problem["kind"] == "snapshot"
    # The way out: whoever can fold the stream anew publishes a later one.
    shelf.publish(15).assert_whole(snapshot=15)
    assert_sound(server)


def test_a_bucket_that_does_not_know_its_stream_is_told_by_the_sweep(
    server: RunningServer, wire: Wire
) -> None:
    shelf = Shelf(wire, "full-bucket/it").create().write(3)
    homeless = Shelf(wire, "lost-bucket/it").create().write(3)
    seal_all(server)
    stop(server, wire)
    with own_redis(server) as redis:
        redis.delete("ds:bucket:{full-bucket}:streams")
        redis.delete("ds:bucket:{lost-bucket}:streams", "ds:bucket:{lost-bucket}:meta")
    problems = fsck(server)["problems"]
    assert [(one["kind"], one["stream"]) for one in problems] == [
        ("bucket", shelf.inner_name),
        ("bucket", homeless.inner_name),
    ]
    server.start()
    sweep(server)
    assert listing(wire, "full-bucket") == {"it": 300}
    assert listing(wire, "lost-bucket") == {"it": 300}
    assert described(wire, "full-bucket")["streams"] == 1
    assert_sound(server)
    assert wire.ask("DELETE", "lost-bucket").status == 409


def test_a_damaged_bucket_object_is_told_and_the_bucket_comes_back(
    server: RunningServer, wire: Wire
) -> None:
    for bucket in ("one-bucket", "two-bucket"):
        assert wire.ask("PUT", bucket).status == 201
    stop(server, wire)
    (objects_of(server) / "buckets" / "one-bucket").write_bytes(b"{")
    lose_redis(server)
    code, printed = command(server, "recover")
    assert code == 3
    assert "buckets/one-bucket" in printed
    server.start()
    for bucket in ("one-bucket", "two-bucket"):
        assert described(wire, bucket)["streams"] == 0
