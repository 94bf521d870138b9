"""A Redis that forgets: by its settings, or because somebody put an old copy back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.client import unique_name
from support.crashing import Point, crash
from support.durability import Backup
from support.external_redis import DURABLE, EVERY_SECOND, IN_MEMORY, ExternalRedis
from support.model import parse_token
from support.repairs import (
    NEVER,
    assert_sound,
    fsck,
    keys_in,
    seal_all,
    stop,
)
from support.server import RunningServer, wait_until
from support.wire import Wire

TEXT = "text/plain"
LEAST_AGE_SECS = 2

pytestmark = pytest.mark.timeout(120)


@contextmanager
def serving(redis: ExternalRedis, **settings: str) -> Iterator[tuple[RunningServer, Wire]]:
    env = NEVER | {"DS_REDIS__URL": redis.url} | settings
    with RunningServer(env=env) as server, Wire(server.url) as wire:
        yield server, wire


def append(wire: Wire, name: str, body: bytes) -> str:
    wire.ask("PUT", name, content_type=TEXT)
    answer = wire.ask("POST", name, body, content_type=TEXT)
    assert answer.status == 204
    return answer["Stream-Next-Offset"] or ""


def appended_again(wire: Wire, name: str, body: bytes) -> str:
    """As soon as the server has found its Redis again."""
    answer = wait_until(
        lambda: (a := wire.ask("POST", name, body, content_type=TEXT)).status == 204 and a
    )
    return answer["Stream-Next-Offset"] or ""


@pytest.mark.parametrize("promise", [EVERY_SECOND, DURABLE])
def test_after_a_restart_only_a_redis_that_promises_everything_keeps_its_logs(
    promise: tuple[str, ...],
) -> None:
    name = unique_name()
    with ExternalRedis(promise) as redis, serving(redis) as (_, wire):
        before = append(wire, name, b"before")
        redis.stop()
        redis.start()
        after = appended_again(wire, name, b" and after")
        has_new_log = parse_token(after)[0] > parse_token(before)[0]
        assert has_new_log == (promise is EVERY_SECOND)
        assert wire.read_all(name) == b"before and after"
        assert wire.ask("GET", name, offset=before).body == b" and after"


def test_offsets_that_a_weaker_redis_forgot_are_gone_after_the_next_append(tmp_path: Path) -> None:
    name = unique_name()
    with ExternalRedis(EVERY_SECOND) as redis, serving(redis) as (server, wire):
        kept = append(wire, name, b"kept")
        backup = Backup(redis, tmp_path / "backup")
        lost = append(wire, name, b"lost")
        redis.kill()
        backup.put_back()
        redis.start()
        after = appended_again(wire, name, b"++++ and more")
        assert parse_token(after)[0] > parse_token(lost)[0]
        gone = wire.ask("GET", name, offset=lost)
        assert gone.status == 410
        resume = gone["Stream-Next-Offset"] or ""
        assert parse_token(resume) == (parse_token(after)[0], 4)
        for offset in (kept, resume):
            assert wire.ask("GET", name, offset=offset).body == b"++++ and more"
        seal_all(server)
        assert wire.read_all(name) == b"kept++++ and more"
        assert_sound(server)


def test_nothing_is_sealed_that_is_not_on_the_disk_of_redis() -> None:
    name = unique_name()
    with (
        ExternalRedis(EVERY_SECOND) as redis,
        serving(redis) as (server, wire),
        redis.client() as client,
    ):
        append(wire, name, b"x")
        crash(server.environment, Point("before", "call", "WAITAOF"), "seal", "--all")
        assert keys_in(server, f"/{name}/") == []
        seal_all(server)
        assert client.get("ds:fence") == b"1"
        assert int(client.info("commandstats")["cmdstat_waitaof"]["calls"]) > 0
        assert keys_in(server, f"parts/{name}/")


def test_without_a_file_of_its_own_what_redis_holds_is_sealed_when_it_has_aged() -> None:
    name = unique_name()
    with ExternalRedis(IN_MEMORY) as redis, serving(redis) as (server, wire):
        append(wire, name, b"x")
        began = time.monotonic()
        seal_all(server)
        assert time.monotonic() - began >= LEAST_AGE_SECS
        assert keys_in(server, f"parts/{name}/")
        assert_sound(server)


def test_a_redis_put_back_to_an_older_state_gets_new_logs_and_says_so(tmp_path: Path) -> None:
    name = unique_name()
    with ExternalRedis() as redis, serving(redis) as (server, wire):
        first = append(wire, name, b"first,")
        seal_all(server)
        backup = Backup(redis, tmp_path / "backup")
        forgotten = append(wire, name, b"forgotten,")
        seal_all(server)
        stop(server, wire)
        redis.stop()
        backup.put_back()
        redis.start()
        assert [problem["kind"] for problem in fsck(server)["problems"]] == ["damaged manifest"]
        server.settings["DS_TIERING__SEAL_AGE_SECS"] = "0"
        server.start()
        append(wire, name, b"instead and longer,")
        wait_until(lambda: "gone back in time" in server.log())
        wait_until(lambda: not fsck(server)["problems"])
        assert wire.read_all(name) == b"first,instead and longer,"
        assert wire.ask("GET", name, offset=forgotten).status == 410
        assert wire.ask("GET", name, offset=first).body == b"instead and longer,"
        head = wire.ask("HEAD", name)["Stream-Next-Offset"] or ""
        assert parse_token(head)[0] > parse_token(forgotten)[0]
        assert f"{name} goes on in log" in server.log()
        append(wire, name, b"and on")
        seal_all(server)
        assert_sound(server)
        stop(server, wire)
        redis.flush()
        assert server.command("recover").returncode == 0
        server.start()
        assert wire.read_all(name) == b"first,instead and longer,and on"
