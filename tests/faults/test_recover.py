"""Redis is gone: what the bucket gives back, and what it says of the rest."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.client import unique_name
from support.crashing import Point, crash, is_frozen, start
from support.damage import own_redis
from support.external_redis import ExternalRedis
from support.model import parse_token, token
from support.repairs import (
    NEVER,
    assert_sound,
    command,
    keys_in,
    lose_and_recover,
    lose_redis,
    objects_of,
    produce,
    recover,
    seal_all,
    stop,
    sweep,
)
from support.server import RunningServer, wait_until
from support.wire import Answer, Wire

TEXT = "text/plain"
JSON = "application/json"
CHUNK = 1024
REGISTRY = 1
"""The server's own stream, which tells of the others."""

pytestmark = pytest.mark.timeout(120)


def write(wire: Wire, name: str, *bodies: bytes, content_type: str = TEXT) -> str:
    """Creates the stream if need be; the offset after the last append."""
    offset = wire.ask("PUT", name, content_type=content_type)["Stream-Next-Offset"]
    for body in bodies:
        answer = wire.ask("POST", name, body, content_type=content_type)
        assert answer.status == 204
        offset = answer["Stream-Next-Offset"]
    assert offset is not None
    return offset


def at(offset: str, position: int) -> str:
    return token(parse_token(offset)[0], position)


def assert_gone(answer: Answer, resume: str) -> None:
    assert answer.status == 410
    assert answer["Stream-Next-Offset"] == resume


def test_a_server_whose_redis_is_gone_refuses_and_names_the_command(
    server: RunningServer, wire: Wire
) -> None:
    write(wire, unique_name(), b"something")
    server.stop()
    lose_redis(server)
    code, printed = server.expect_refusal()
    assert code == 1
    assert "ds-server recover" in printed
    assert "Traceback" not in printed
    for other in ("seal --all", "sweep", "fsck", "stats"):
        refused = server.command(*other.split())
        assert refused.returncode == 1
        assert "ds-server recover" in refused.stderr


def test_every_sealed_byte_comes_back_and_what_is_missing_is_told_in_numbers(
    server: RunningServer, wire: Wire
) -> None:
    name = unique_name()
    sealed = os.urandom(3000).hex().encode()
    before = write(wire, name, *(sealed[start : start + 500] for start in range(0, 6000, 500)))
    seal_all(server)
    lost = write(wire, name, b"never seen again")
    report = lose_and_recover(server, wire)
    assert wire.read_all(name) == sealed
    assert report["streams"] == report["recovered"] == report["in_new_logs"] == 1 + REGISTRY
    assert report["missing"] == []
    assert parse_token(lost)[1] == 6016
    after = wire.ask("HEAD", name)["Stream-Next-Offset"] or ""
    assert parse_token(after)[0] > parse_token(before)[0]
    assert_sound(server)


def test_offsets_up_to_the_recovered_end_are_good_and_those_beyond_name_where_to_go_on(
    server: RunningServer, wire: Wire
) -> None:
    name = unique_name()
    before = write(wire, name, b"a" * 1500, b"b" * 300)
    seal_all(server)
    lost = write(wire, name, b"c" * 100)
    lose_and_recover(server, wire)
    end = wire.ask("HEAD", name)["Stream-Next-Offset"] or ""
    assert parse_token(end)[1] == 1800
    assert wire.ask("GET", name, offset=at(before, 700)).body == b"a" * 800
    assert wire.ask("GET", name, offset=at(before, 1500)).body == b"b" * 300
    assert wire.ask("GET", name, offset=before)["Stream-Next-Offset"] == end
    assert_gone(wire.ask("GET", name, offset=lost), resume=end)
    assert_gone(wire.ask("GET", name, offset=at(lost, 1801)), resume=end)
    write(wire, name, b"d" * 200)
    assert_gone(wire.ask("GET", name, offset=lost), resume=end)
    assert wire.ask("GET", name, offset=before).body == b"d" * 200


def test_a_closed_stream_that_is_whole_keeps_its_log(server: RunningServer, wire: Wire) -> None:
    name, empty = unique_name(), unique_name()
    write(wire, name, b"first", b"last")
    end = wire.ask("POST", name, stream_closed="true")["Stream-Next-Offset"]
    closed_empty = wire.ask("PUT", empty, content_type=JSON, stream_closed="true")
    seal_all(server)
    report = lose_and_recover(server, wire)
    assert (report["closed"], report["in_new_logs"]) == (2, REGISTRY)
    for stream, offset in ((name, end), (empty, closed_empty["Stream-Next-Offset"])):
        head = wire.ask("HEAD", stream)
        assert head["Stream-Next-Offset"] == offset
        assert head["Stream-Closed"] == "true"
    assert wire.read_all(name) == b"firstlast"
    assert wire.ask("POST", name, b"more", content_type=TEXT).status == 409
    assert_sound(server)


def test_a_closed_stream_whose_end_is_missing_is_open_again_and_says_how_much_is_lost(
    server: RunningServer, wire: Wire
) -> None:
    name = unique_name()
    write(wire, name, b"first")
    seal_all(server)
    write(wire, name, b"second")
    end = wire.ask("POST", name, stream_closed="true")["Stream-Next-Offset"] or ""
    seal_all(server)
    [last] = keys_in(server, f"{name}/{at(end, 5)}")[:1]
    (objects_of(server) / last).unlink()
    report = lose_and_recover(server, wire, exit_code=3)
    [lost] = report["missing"]
    assert (lost["stream"], lost["lost_bytes"], lost["recovered_bytes"]) == (name, 6, 5)
    head = wire.ask("HEAD", name)
    assert head["Stream-Closed"] is None
    assert_gone(wire.ask("GET", name, offset=end), resume=head["Stream-Next-Offset"] or "")
    assert wire.read_all(name) == b"first"


def test_configuration_comes_back(server: RunningServer, wire: Wire) -> None:
    name, timed, dated = unique_name(), unique_name(), unique_name()
    wire.ask("PUT", name, content_type="Application/JSON; charset=utf-8")
    wire.ask("PUT", timed, content_type=TEXT, stream_ttl="1000")
    wire.ask("PUT", dated, content_type=TEXT, stream_expires_at="2999-01-01T00:00:00Z")
    seal_all(server)
    report = lose_and_recover(server, wire)
    assert (report["empty"], report["recovered"]) == (3, 3 + REGISTRY)
    assert wire.ask("HEAD", name)["Content-Type"] == "Application/JSON; charset=utf-8"
    assert wire.ask("GET", name).body == b"[]"
    assert wire.ask("HEAD", timed)["Stream-TTL"] == "1000"
    assert wire.ask("HEAD", dated)["Stream-Expires-At"] == "2999-01-01T00:00:00Z"
    again = wire.ask("PUT", dated, content_type=TEXT, stream_expires_at="2999-01-01T00:00:00Z")
    assert again.status == 200
    assert_sound(server)


def test_deleted_and_expired_streams_stay_gone(server: RunningServer, wire: Wire) -> None:
    deleted, expired, anew = unique_name(), unique_name(), unique_name()
    wire.ask("PUT", expired, b"x", content_type=TEXT, stream_expires_at=soon(1))
    for name in (deleted, anew):
        write(wire, name, b"old")
    seal_all(server)
    for name in (deleted, anew):
        assert wire.ask("DELETE", name).status == 204
    write(wire, anew, b"new")
    seal_all(server)
    wait_until(lambda: wire.ask("HEAD", expired).status == 404)
    report = lose_and_recover(server, wire)
    assert report["deleted"] == 2
    assert [wire.ask("HEAD", name).status for name in (deleted, expired, anew)] == [404, 404, 200]
    assert wire.read_all(anew) == b"new"
    assert_sound(server)


def soon(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_lost_sequence_is_accepted_again_and_a_sealed_one_is_a_duplicate(
    server: RunningServer, wire: Wire
) -> None:
    name = unique_name()
    wire.ask("PUT", name, content_type=TEXT)
    assert [produce(wire, name, b"%d" % seq, seq, TEXT).status for seq in (0, 1)] == [200, 200]
    seal_all(server)
    assert produce(wire, name, b"2", 2, TEXT).status == 200
    lose_and_recover(server, wire)
    assert produce(wire, name, b"1", 1, TEXT).status == 204
    assert produce(wire, name, b"2", 2, TEXT).status == 200
    assert produce(wire, name, b"2", 2, TEXT).status == 204
    assert wire.read_all(name) == b"012"
    assert wire.ask("POST", name, b"3", content_type=TEXT, stream_seq="b").status == 204
    seal_all(server)
    lose_and_recover(server, wire)
    assert wire.ask("POST", name, b"4", content_type=TEXT, stream_seq="a").status == 409
    assert wire.ask("POST", name, b"4", content_type=TEXT, stream_seq="c").status == 204
    assert produce(wire, name, b"2", 2, TEXT).status == 204


def test_the_producer_that_closed_a_stream_is_recognised(server: RunningServer, wire: Wire) -> None:
    name = unique_name()
    write(wire, name, b"data")
    closing = {
        "content_type": TEXT,
        "stream_closed": "true",
        "producer_id": "p",
        "producer_epoch": "0",
        "producer_seq": "0",
    }
    assert wire.ask("POST", name, None, **closing).status in (200, 204)
    seal_all(server)
    lose_and_recover(server, wire)
    assert wire.ask("POST", name, None, **closing).status == 204


@pytest.mark.parametrize("whole", [False, True])
def test_a_batch_divided_over_chunks_is_there_whole_or_not_at_all(
    whole: bool, server: RunningServer, wire: Wire
) -> None:
    name = unique_name()
    first = [f"{n:0100d}" for n in range(3)]
    batch = [f"{n:0100d}" for n in range(100, 140)]
    wire.ask("PUT", name, content_type=JSON)
    assert produce(wire, name, json.dumps(first).encode(), 0, JSON).status == 200
    assert produce(wire, name, json.dumps(batch).encode(), 1, JSON).status == 200
    if whole:
        seal_all(server)
    else:
        wait_until(lambda: complete_chunks_are_sealed(server, name))
    report = lose_and_recover(server, wire, exit_code=0 if whole else 3)
    stored = sum(len(message) + 3 for message in batch)
    lost = [(entry["stream"], entry["lost_bytes"]) for entry in report["missing"]]
    assert lost == ([] if whole else [(name, stored)])
    found = json.loads(wire.read_all_json(name))
    assert found == (first + batch if whole else first)
    again = produce(wire, name, json.dumps(batch).encode(), 1, JSON)
    assert again.status == (204 if whole else 200)
    assert json.loads(wire.read_all_json(name)) == first + batch
    seal_all(server)
    assert_sound(server)
    lose_and_recover(server, wire)
    assert json.loads(wire.read_all_json(name)) == first + batch
    assert_sound(server)


def complete_chunks_are_sealed(server: RunningServer, name: str) -> bool:
    with server.redis() as redis:
        sealed, chunk = redis.hmget(f"ds:{{{name}}}:meta", "sealed", "chunk")
    return sealed is not None and sealed == chunk != b"0"


def test_a_stream_lost_again_and_again_reads_as_one(server: RunningServer, wire: Wire) -> None:
    name, written, offsets = unique_name(), b"", []
    for round in range(3):
        data = b"%d" % round * 700
        offsets.append((write(wire, name, data), len(written)))
        written += data
        seal_all(server)
        lost = write(wire, name, b"lost" * (round + 1))
        lose_and_recover(server, wire)
        end = wire.ask("HEAD", name)["Stream-Next-Offset"] or ""
        assert wire.read_all(name) == written
        assert_gone(wire.ask("GET", name, offset=lost), resume=end)
    logs = {parse_token(offset)[0] for offset, _ in offsets}
    assert len(logs) == 3
    for offset, begin in offsets:
        for position in (begin, begin + 350, begin + 700):
            answer = wire.ask("GET", name, offset=at(offset, position))
            assert answer.status == 200
            assert written[position:].startswith(answer.body)
    assert_sound(server)
    write(wire, name, b"end")
    wire.ask("POST", name, stream_closed="true")
    seal_all(server)
    lose_and_recover(server, wire)
    assert wire.read_all(name) == written + b"end"
    assert_sound(server)


def test_recovering_what_is_there_is_refused(server: RunningServer) -> None:
    refused = server.command("recover")
    assert refused.returncode == 1
    assert "already" in refused.stderr


def test_an_empty_bucket_is_nothing_to_recover_from() -> None:
    server = RunningServer()
    try:
        refused = server.command("recover")
        assert refused.returncode == 1
        assert "nothing to recover from" in refused.stderr
    finally:
        server.close()


def test_a_redis_of_another_deployment_is_served_by_nobody_and_not_recovered_into() -> None:
    with ExternalRedis() as redis, RunningServer(env=NEVER) as other:
        url = {"DS_REDIS__URL": f"unix://{redis.socket}"}
        with RunningServer(env=NEVER | url) as first:
            first.stop()
        other.stop()
        objects = {"DS_OBJECTS__URL": (other.data_dir / "objects").as_uri()}
        second = RunningServer(env=NEVER | url | objects)
        try:
            code, printed = second.expect_refusal()
            assert code == 1
            assert "different deployments" in printed
            refused = second.command("recover")
            assert refused.returncode == 1
            assert "something else" in refused.stderr
        finally:
            second.close()


def test_a_redis_that_knows_of_history_is_not_served_from_an_empty_bucket(tmp_path: Path) -> None:
    """What was sealed would be missing, and a deletion would be noted where nobody looks."""
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        name = unique_name()
        write(wire, name, b"x" * 3000, b"y")
        seal_all(server)
        stop(server, wire)
        server.settings["DS_OBJECTS__URL"] = tmp_path.as_uri()
        code, printed = server.expect_refusal()
        assert code == 1
        assert "point the server at the right bucket" in printed
        assert not list(tmp_path.glob("deployment*"))
        del server.settings["DS_OBJECTS__URL"]
        server.start()
        assert wire.read_all(name) == b"x" * 3000 + b"y"


def test_an_external_redis_that_was_emptied_is_rebuilt() -> None:
    with ExternalRedis() as redis:
        env = NEVER | {"DS_REDIS__URL": f"unix://{redis.socket}"}
        with RunningServer(chunk_bytes=CHUNK, env=env) as server, Wire(server.url) as wire:
            name = unique_name()
            write(wire, name, b"x" * 3000, b"y")
            seal_all(server)
            server.stop()
            redis.flush()
            code, printed = server.expect_refusal()
            assert (code, "ds-server recover" in printed) == (1, True)
            report = recover(server)
            assert report["recovered"] == 1 + REGISTRY
            wire.close()
            server.start()
            assert wire.read_all(name) == b"x" * 3000 + b"y"
            assert_sound(server)


def test_of_two_recoveries_at_once_the_second_refuses(server: RunningServer, wire: Wire) -> None:
    name = unique_name()
    write(wire, name, b"data")
    seal_all(server)
    stop(server, wire)
    lose_redis(server)
    point = Point("frozen before", "run", "restore")
    with start(server.environment, point, "recover") as first:
        try:
            wait_until(lambda: is_frozen(first), what="the first one to be at work")
            code, printed = command(server, "recover")
            assert code == 1
            assert "another recovery is running" in printed
        finally:
            first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=60) == 0
    server.start()
    assert wire.read_all(name) == b"data"
    assert_sound(server)


def test_a_last_append_that_also_closes_comes_back_as_one(
    server: RunningServer, wire: Wire
) -> None:
    """A sealer dies between the two: the bytes are in the bucket, Redis is lost with the rest."""
    name = unique_name()
    write(wire, name, b"before,")
    seal_all(server)
    with server.redis() as redis:
        redis.set(f"ds:{{{name}}}:lease", "a test", ex=29)
    closing = {"stream_closed": "true", "producer_id": "p", "producer_epoch": "0"}
    last = {"content_type": TEXT, "producer_seq": "0", **closing}
    assert wire.ask("POST", name, b"last", **last).status == 200
    stop(server, wire)
    crash(server.environment, Point("after", "run", f"seal ds:{{{name}}}"), "seal", "--all")
    with own_redis(server):
        pass
    lose_redis(server)
    recover(server)
    server.start()
    assert wire.ask("POST", name, b"last", **last).status in (200, 204)
    assert wire.ask("HEAD", name)["Stream-Closed"] == "true"
    assert wire.read_all(name) == b"before,last"


def test_a_fork_whose_source_cannot_be_recovered_is_told_and_left_alone(
    server: RunningServer, wire: Wire
) -> None:
    """With the source's manifest back in its place, the next recovery finds everything."""
    source, fork, deeper = "source", "fork", "deeper"
    server.settings["DS_TIERING__DELETE_GRACE_SECS"] = "0"
    written = write_family(wire, source, fork, deeper)
    write(wire, "stranger", b"not concerned")
    seal_all(server)
    [key] = keys_in(server, f"manifest/{source}/")
    manifest = (objects_of(server) / key).read_bytes()
    (objects_of(server) / key).write_bytes(manifest[:-3])
    before = contents(server, fork, deeper)
    report = lose_and_recover(server, wire, exit_code=3)
    told = [line for line in report["damaged"] if key not in line]
    assert sorted(told) == [
        f"{deeper} is a fork of {fork}, which is missing.",
        f"{fork} is a fork of {source}, which is missing.",
    ]
    assert report["recovered"] == 1 + REGISTRY
    assert [wire.ask("HEAD", name).status for name in written] == [404, 404, 404]
    assert wire.read_all("stranger") == b"not concerned"
    sweep(server)
    assert contents(server, fork, deeper) == before
    (objects_of(server) / key).write_bytes(manifest)
    assert lose_and_recover(server, wire)["damaged"] == []
    assert {name: wire.read_all(name) for name in written} == written
    assert_sound(server)


def write_family(wire: Wire, *names: str) -> dict[str, bytes]:
    """A stream, a fork of it, a fork of that: what each of them reads as."""
    written, inherited = {}, b""
    for source, name in zip((None, *names), names, strict=False):
        origin = {} if source is None else {"stream_forked_from": f"/v1/stream/{source}"}
        assert wire.ask("PUT", name, content_type=TEXT, **origin).status == 201
        write(wire, name, name.encode() * 300)
        written[name] = inherited = inherited + name.encode() * 300
    return written


def contents(server: RunningServer, *names: str) -> dict[str, bytes]:
    keys = [key for name in names for key in keys_in(server, f"/{name}/")]
    return {key: (objects_of(server) / key).read_bytes() for key in keys}
