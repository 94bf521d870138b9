"""Stored data that is not what was written: never served, and always found."""

import json
import threading
from http.client import IncompleteRead

import pytest
from support import damage
from support.client import unique_name
from support.damage import KINDS, Target
from support.repairs import (
    NEVER,
    assert_sound,
    command,
    fsck,
    keys_in,
    lose_and_recover,
    objects_of,
    produce,
    seal_all,
    stop,
)
from support.server import RunningServer
from support.wire import Wire

TEXT = "text/plain"
JSON = "application/json"
CHUNK = 1024
BODIES = [b"%04d" % number * 275 for number in range(2)]
MIB = 1024 * 1024

pytestmark = pytest.mark.timeout(120)


def write_victims(server: RunningServer, wire: Wire, names: list[str]) -> None:
    for name in names:
        wire.ask("PUT", name, content_type=TEXT)
        for body in BODIES:
            wire.ask("POST", name, body, content_type=TEXT)
        assert produce(wire, name, b"a part", 0, TEXT).status == 200
    seal_all(server)
    for name in names:
        wire.ask("POST", name, b"a tail", content_type=TEXT)


def test_fsck_finds_every_kind_of_damage_and_nothing_else(
    server: RunningServer, wire: Wire
) -> None:
    names = {kind: kind.__name__ for kind in KINDS}
    write_victims(server, wire, [*names.values(), "sound"])
    assert_sound(server)
    stop(server, wire)
    plant(server, list(KINDS))
    report = fsck(server)
    found = {name: problems_of(report, name) for name in names.values()}
    assert found == {names[kind]: wanted for kind, wanted in KINDS.items()}
    assert len(report["problems"]) == sum(map(len, KINDS.values()))
    assert all(problem["what"] for problem in report["problems"])
    assert_one_is_told(server)


def problems_of(report: dict[str, list[dict[str, str]]], name: str) -> list[str]:
    return sorted(one["kind"] for one in report["problems"] if one["stream"] == name)


def plant(server: RunningServer, kinds: list[damage.Damage]) -> None:
    """The server must not run: it would mend some of it."""
    with damage.own_redis(server) as redis:
        for kind in kinds:
            kind(Target(server, redis, kind.__name__))


def assert_one_is_told(server: RunningServer) -> None:
    """By name, by exit code, and to people too."""
    assert problems_of(fsck(server, "--stream", "alter"), "alter") == ["damaged body"]
    assert fsck(server, "--stream", "sound")["problems"] == []
    nothing = server.command("fsck", "--stream", "alterr")
    assert nothing.returncode == 1
    assert "there is no stream 'alterr'" in nothing.stderr
    told = server.command("fsck", "--stream", "alter")
    assert told.returncode == 3
    assert "damaged body: alter: chunks/alter/" in told.stdout
    assert "1" in told.stdout


def test_damaged_data_is_an_error_that_names_the_object_and_never_data(
    server: RunningServer, wire: Wire
) -> None:
    kinds = [damage.truncate, damage.alter, damage.remove, damage.swap, damage.remove_index]
    write_victims(server, wire, [kind.__name__ for kind in kinds])
    stop(server, wire)
    plant(server, kinds)
    server.start()
    for kind in kinds:
        name = kind.__name__
        log = (wire.ask("HEAD", name)["Stream-Next-Offset"] or "").partition("_")[0]
        served = b"".join(served_from(server, wire, name, f"{log}_{n:016d}") for n in (0, 1100))
        assert served in (b"", *BODIES)
        assert wire.ask("GET", name, offset=f"{log}_{2200:016d}").body == b"a parta tail"


def served_from(server: RunningServer, wire: Wire, name: str, offset: str) -> bytes:
    """The whole chunk, or a refusal that says why."""
    answer = wire.ask("GET", name, offset=offset)
    if answer.status == 200:
        return answer.body
    assert answer.status == 500
    assert answer["Cache-Control"] == "no-store"
    assert f"chunks/{name}/" in json.loads(answer.body)["detail"]
    assert f"chunks/{name}/" in server.log()
    return b""


def test_damage_far_inside_an_object_breaks_the_answer_off() -> None:
    with RunningServer(env=NEVER) as server, Wire(server.url) as wire:
        name, body = unique_name(), b"0123456789abcdef" * (3 * MIB // 16)
        wire.ask("PUT", name, body, content_type=TEXT, stream_closed="true")
        seal_all(server)
        stop(server, wire)
        [chunk] = (objects_of(server) / "chunks" / name).glob("*[0-9]")
        chunk.write_bytes(body[: 2 * MIB + 5] + b"?" + body[2 * MIB + 6 :])
        server.start()
        with pytest.raises(IncompleteRead) as broken:
            wire.ask("GET", name)
        assert body.startswith(broken.value.partial)
        assert len(broken.value.partial) <= 2 * MIB
        assert f"chunks/{name}/" in server.log()


def test_fsck_beside_a_busy_server_gives_no_false_alarm() -> None:
    busy = {"DS_TIERING__SEAL_AGE_SECS": "0", "DS_TIERING__DELETE_GRACE_SECS": "0"}
    with RunningServer(chunk_bytes=CHUNK, env=busy) as server:
        done = threading.Event()
        writer = threading.Thread(target=write_until, args=(server.url, done))
        writer.start()
        try:
            for _ in range(5):
                assert_sound(server)
        finally:
            done.set()
            writer.join()


def write_until(url: str, done: threading.Event) -> None:
    """Appends, closes, deletes and creates, as fast as one client can."""
    with Wire(url) as wire:
        number = 0
        while not done.is_set():
            name = f"busy-{number % 5}"
            wire.ask("PUT", name, content_type=JSON)
            for seq in range(10):
                produce(wire, name, b'["%064d", "%064d"]' % (seq, number), seq, JSON)
            if number % 3 == 2:
                wire.ask("DELETE", name)
            number += 1


def test_a_damaged_stream_is_recovered_with_its_damage_told(
    server: RunningServer, wire: Wire
) -> None:
    write_victims(server, wire, ["alter", "remove", "remove_index", "garble_manifest", "sound"])
    stop(server, wire)
    plant(server, [damage.alter, damage.remove, damage.remove_index, damage.garble_manifest])
    server.start()
    report = lose_and_recover(server, wire, exit_code=3)
    told = "\n".join(report["damaged"])
    for key in ("chunks/remove/", "index/chunks/remove_index/", "manifest/garble_manifest/"):
        assert key in told
    assert wire.read_all("sound") == b"".join(BODIES) + b"a part"
    assert wire.ask("GET", "garble_manifest").status == 404
    for name in ("alter", "remove", "remove_index"):
        assert (wire.ask("HEAD", name)["Stream-Next-Offset"] or "").endswith("2206")
    kinds = {(one["stream"], one["kind"]) for one in fsck(server)["problems"]}
    assert {("alter", "damaged body"), ("remove", "missing body")} <= kinds


def test_a_hole_in_the_tail_is_said_by_the_sealer_and_not_sealed(
    server: RunningServer, wire: Wire
) -> None:
    write_victims(server, wire, ["cut_block"])
    stop(server, wire)
    plant(server, [damage.cut_block])
    before = keys_in(server)
    code, printed = command(server, "seal", "--all")
    assert code == 1
    assert "does not hold all of what cut_block has" in printed
    assert [key for key in keys_in(server) if "cut_block" in key and key not in before] == []


def test_a_sweep_passes_by_what_is_damaged_and_looks_after_the_rest(
    server: RunningServer, wire: Wire
) -> None:
    """A stream whose facts are unreadable, and a fork whose source is gone."""
    write_victims(server, wire, ["garble_facts", "forget"])
    fork = {"stream_forked_from": "/v1/stream/forget"}
    assert wire.ask("PUT", "fork", **fork).status == 201
    over = [f"over-{number}" for number in range(20)]
    for name in over:
        wire.ask("PUT", name, content_type=TEXT, stream_ttl="0")
    stop(server, wire)
    plant(server, [damage.garble_facts, damage.forget])
    code, printed = command(server, "sweep")
    assert code == 0, printed
    with damage.own_redis(server) as redis:
        assert [name for name in over if redis.exists(f"ds:{{{name}}}:meta")] == []
        assert redis.exists("ds:{garble_facts}:meta", "ds:{fork}:meta") == 2
