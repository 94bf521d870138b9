"""Payloads that are cut into blocks on their way to Redis arrive whole, or not at all."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.client import unique_name
from support.server import RunningServer, wait_until
from support.wire import Answer, Wire

MIB = 1024 * 1024
BYTES = "application/octet-stream"


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def large_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with RunningServer(workers=request.param, chunk_bytes=2 * MIB) as server:
        yield server


@pytest.fixture
def wire(large_server: RunningServer) -> Iterator[Wire]:
    with Wire(large_server.url) as wire:
        yield wire


def made(wire: Wire, content_type: str = BYTES) -> str:
    name = unique_name()
    assert wire.ask("PUT", name, content_type=content_type).status == 201
    return name


def append(wire: Wire, name: str, body: bytes, **headers: str) -> Answer:
    return wire.ask("POST", name, body, content_type=BYTES, **headers)


def is_sealed_up_to_the_last_cut(server: RunningServer, name: str) -> bool:
    with server.redis() as redis:
        sealed, chunk = redis.hmget(f"ds:{{{name}}}:meta", "sealed", "chunk")
    return sealed == chunk


def nothing_is_staged(server: RunningServer) -> bool:
    with server.redis() as redis:
        return not list(redis.scan_iter("*staged*"))


def test_payloads_of_all_sizes_come_back_byte_for_byte(
    large_server: RunningServer, wire: Wire
) -> None:
    dice, name, written = random.Random(1), made(wire), b""
    for _ in range(30):
        body = dice.randbytes(dice.choice([1, 70_000, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]))
        assert append(wire, name, body).status == 204
        written += body
    assert wire.read_all(name) == written
    wait_until(lambda: is_sealed_up_to_the_last_cut(large_server, name), what="sealing")
    assert wire.read_all(name) == written
    assert nothing_is_staged(large_server)


def test_writers_who_spoil_each_others_guesses_lose_nothing(large_server: RunningServer) -> None:
    """Where an append begins is not known to a worker when others append to the same stream."""
    with Wire(large_server.url) as wire:
        name = made(wire)

    def write(letter: bytes) -> int:
        dice, total = random.Random(letter), 0
        with Wire(large_server.url) as wire:
            for _ in range(12):
                size = dice.randint(100_000, 2 * MIB)
                assert append(wire, name, letter * size).status == 204
                total += size
        return total

    letters = [b"a", b"b", b"c"]
    with ThreadPoolExecutor(len(letters)) as writers:
        written = dict(zip(letters, writers.map(write, letters), strict=True))
    with Wire(large_server.url) as wire:
        found = wire.read_all(name)
    assert {letter: found.count(letter) for letter in letters} == written
    assert nothing_is_staged(large_server)


def test_a_refused_payload_leaves_nothing_behind(large_server: RunningServer, wire: Wire) -> None:
    name, body = made(wire), b"x" * 3 * MIB
    for _ in range(4):
        assert append(wire, name, body).status == 204
    before = wire.ask("HEAD", name)["Stream-Next-Offset"]
    for _ in range(4):
        assert wire.ask("POST", name, body, content_type="text/plain").status == 409
    assert wire.ask("HEAD", name)["Stream-Next-Offset"] == before
    assert wire.read_all(name) == 4 * body
    assert nothing_is_staged(large_server)


def test_a_producers_retry_is_stored_once(large_server: RunningServer, wire: Wire) -> None:
    name, written = made(wire), b""
    for seq in range(4):
        body, said = (
            bytes([65 + seq]) * (2 * MIB + seq),
            {"producer_id": "p", "producer_epoch": "0"},
        )
        assert append(wire, name, body, **said, producer_seq=str(seq)).status == 200
        for _ in range(4):
            assert append(wire, name, body, **said, producer_seq=str(seq)).status == 204
        written += body
    assert wire.read_all(name) == written
    assert nothing_is_staged(large_server)


def test_json_batches_are_cut_between_blocks_and_not_lost(wire: Wire) -> None:
    name = made(wire, "application/json")
    messages = [b'"%b"' % (b"%d" % number * 50_000) for number in range(10, 60)]
    for _ in range(6):
        body = b"[" + b",".join(messages) + b"]"
        assert wire.ask("POST", name, body, content_type="application/json").status == 204
    assert wire.read_all_json(name) == b"[" + b",".join(6 * messages) + b"]"


def test_redis_may_forget_the_scripts(large_server: RunningServer, wire: Wire) -> None:
    name, body = made(wire), b"x" * 2 * MIB
    for _ in range(4):
        assert append(wire, name, body).status == 204
    with large_server.redis() as redis:
        redis.script_flush()
    for _ in range(4):
        assert append(wire, name, body).status == 204
    assert wire.read_all(name) == 8 * body
