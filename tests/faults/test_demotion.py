"""A deleted stream that forks still need: no edge finds it in the bucket, and every fork does."""

from collections.abc import Iterator

import pytest
from support.client import unique_name
from support.crashing import Point, crash
from support.pausing_sealer import frozen_sealer, thaw
from support.repairs import (
    NEVER,
    assert_sound,
    fsck,
    keys_in,
    lose_and_recover,
    seal_all,
    sweep,
)
from support.server import RunningServer, wait_until
from support.wire import Wire

TEXT = "text/plain"
CHUNK = 1024
READ_BY_EDGES = {"DS_EDGE__SECRET": "a-secret-of-edges", "DS_TIERING__DELETE_GRACE_SECS": "0"}
BODIES = [b"%04d" % number * 300 for number in range(4)]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER | READ_BY_EDGES) as running:
        yield running


def write(wire: Wire, name: str) -> bytes:
    """Chunks, and an end that is in Redis only."""
    wire.ask("PUT", name, content_type=TEXT)
    for body in (*BODIES, b"the end"):
        assert wire.ask("POST", name, body, content_type=TEXT).status == 204
    return b"".join((*BODIES, b"the end"))


def fork(wire: Wire, source: str, name: str) -> str:
    answer = wire.ask("PUT", name, stream_forked_from=f"/v1/stream/{source}")
    assert answer.status == 201
    return name


def chunks_of(server: RunningServer, name: str) -> list[str]:
    return [key for key in keys_in(server, f"chunks/{name}/") if key.startswith("chunks/")]


def assert_reads(wire: Wire, name: str, written: bytes) -> None:
    """From the beginning, and from any offset inside."""
    assert wire.read_all(name) == written
    log = str(wire.ask("HEAD", name)["Stream-Next-Offset"]).partition("_")[0]
    for position in (0, 1, 1200, 1300, len(written) - 1):
        answer = wire.ask("GET", name, offset=f"{log}_{position:016d}")
        assert answer.status == 200
        assert written[position:].startswith(answer.body)
        assert answer.body


def steps(wire: Wire, name: str) -> list[str]:
    """The offsets that a reader comes by: caches know the answers between them."""
    offsets = ["-1"]
    while True:
        answer = wire.ask("GET", name, offset=offsets[-1])
        offsets.append(str(answer["Stream-Next-Offset"]))
        if answer["Stream-Up-To-Date"]:
            return offsets


def test_the_chunks_of_a_deleted_stream_become_parts_that_its_forks_read(
    server: RunningServer, wire: Wire
) -> None:
    source = unique_name()
    written = write(wire, source)
    forks = [fork(wire, source, f"{source}-{number}") for number in range(2)]
    deeper = fork(wire, forks[0], f"{source}-deeper")
    seal_all(server)
    assert len(chunks_of(server, source)) == len(BODIES)
    before = {name: steps(wire, name) for name in (*forks, deeper)}
    assert wire.ask("DELETE", source).status == 204
    wait_until(lambda: not keys_in(server, f"chunks/{source}/"), what="the chunks to go")
    assert len([key for key in keys_in(server, source) if key.startswith("parts/")]) == 5
    for name in (*forks, deeper):
        assert steps(wire, name) == before[name]
        assert_reads(wire, name, written)
    assert_sound(server)
    lose_and_recover(server, wire)
    for name in (*forks, deeper):
        assert_reads(wire, name, written)
    assert wire.ask("GET", source).status == 410
    assert_sound(server)
    for name in (*forks, deeper):
        assert wire.ask("DELETE", name).status == 204
    wait_until(lambda: not keys_in(server, f"/{source}/"), what="the source to follow its forks")


def unsealed(server: RunningServer, wire: Wire) -> tuple[str, str, bytes]:
    """A stream that no sealer takes up by itself, and a fork of it: both names, and the bytes."""
    source = unique_name()
    with server.redis() as redis:
        redis.set(f"ds:{{{source}}}:lease", "a test", ex=29)
    written = write(wire, source)
    return source, fork(wire, source, f"{source}-fork"), written


def test_what_is_stored_of_a_stream_after_its_deletion_is_no_chunk(
    server: RunningServer, wire: Wire
) -> None:
    """Its forks want all of it stored, and the sealer had not got to it yet."""
    source, made, written = unsealed(server, wire)
    assert wire.ask("DELETE", source).status == 204
    seal_all(server)
    assert chunks_of(server, source) == []
    assert_reads(wire, made, written)
    assert_sound(server)


def test_a_chunk_that_was_being_stored_when_its_stream_was_deleted_does_not_stay(
    server: RunningServer, wire: Wire
) -> None:
    source, made, written = unsealed(server, wire)
    with frozen_sealer(server, source) as sealer:
        assert len(chunks_of(server, source)) == 1
        assert wire.ask("DELETE", source).status == 204
        thaw(sealer)
    assert chunks_of(server, source) == []
    assert_reads(wire, made, written)
    assert_sound(server)


def test_a_chunk_that_a_dead_sealer_left_behind_does_not_stay(
    server: RunningServer, wire: Wire
) -> None:
    """It is beyond what Redis knows to be stored, until the bytes are sealed as a part."""
    source, made, written = unsealed(server, wire)
    point = Point("after", "put_if_absent", "chunks/NAME").on(source)
    crash(server.environment, point, "seal", "--all")
    assert len(chunks_of(server, source)) == 1
    assert wire.ask("DELETE", source).status == 204
    seal_all(server)
    wait_until(lambda: not chunks_of(server, source), what="the chunk to go")
    assert_reads(wire, made, written)
    assert_sound(server)


def test_what_edges_can_read_of_a_deleted_stream_is_told_by_fsck_and_mended_by_a_sweep() -> None:
    """It was deleted when there were no edges yet."""
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        source = unique_name()
        written = write(wire, source)
        made = fork(wire, source, f"{source}-fork")
        seal_all(server)
        assert wire.ask("DELETE", source).status == 204
        exposed = chunks_of(server, source)
        assert len(exposed) == len(BODIES)
        assert_sound(server)
        server.settings |= READ_BY_EDGES
        problems = fsck(server)["problems"]
        assert [(one["kind"], one["key"]) for one in problems] == [("exposed", k) for k in exposed]
        assert {one["stream"] for one in problems} == {source}
        sweep(server)
        assert chunks_of(server, source) == []
        assert_sound(server)
        assert_reads(wire, made, written)
