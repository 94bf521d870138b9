"""Very many who come and go: what is left of them."""

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator

import aiohttp
import pytest
from support.client import TEXT, Stream, eventually, unique_name
from support.connection import ANSWER_SECS, head
from support.metrics import metrics, open_files
from support.server import RunningServer

VISITS = 20_000
AT_ONCE = 100
CROWDS = 2
STREAMS = 40
PAUSE_SECS = 0.02
LEFT_BEHIND = ("ds_live_followers", "ds_live_streams")
BEGUN, EVENT = b"HTTP/1.1 200", b"event: control"


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(long_poll_timeout_secs=30) as server:
        yield server


@pytest.mark.timeout(300)
async def test_a_storm_of_visitors_leaves_nothing_behind(
    http: aiohttp.ClientSession, server: RunningServer, chance: random.Random
) -> None:
    streams = [await made(http, server) for _ in range(STREAMS)]
    idle = await metrics(http, server)
    files = open_files(server)
    groups = iter(range(VISITS // AT_ONCE))
    seeds = [chance.random() for _ in range(CROWDS)]
    writing = asyncio.create_task(keep_writing(http, server, streams))
    heard = await asyncio.gather(
        *(asyncio.to_thread(keep_visiting, server.port, streams, groups, seed) for seed in seeds)
    )
    writing.cancel()
    after = await eventually(
        lambda: metrics(http, server),
        lambda seen: (
            not any(seen[name] for name in LEFT_BEHIND) and seen["ds_tasks"] <= idle["ds_tasks"] + 5
        ),
        timeout=60,
    )
    with server.redis() as client:
        assert client.pubsub_channels() == []
    answered = after["ds_reads_total"] - idle["ds_reads_total"]
    print(f"{answered:.0f} of {VISITS} were answered, {sum(heard)} stayed to hear it")
    assert answered >= sum(heard) == VISITS / 2
    await eventually(
        lambda: asyncio.sleep(0, open_files(server)), lambda count: count <= files + 5, timeout=60
    )


async def made(http: aiohttp.ClientSession, server: RunningServer) -> str:
    name = unique_name()
    await Stream(http, f"{server.url}/v1/stream/{name}", TEXT).create(b"begin")
    return name


def keep_visiting(port: int, streams: list[str], groups: Iterator[int], seed: float) -> int:
    """How many have heard something; bare sockets, so that the storm is the server's alone."""
    chance = random.Random(seed)
    return sum(visit_together(port, streams, chance) for _ in groups)


def visit_together(port: int, streams: list[str], chance: random.Random) -> int:
    """Half leave before they are answered, the others in the middle or after an event."""
    with contextlib.ExitStack() as together:
        visitors = [
            together.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(AT_ONCE)
        ]
        hasty, patient = visitors[::2], visitors[1::2]
        for visitor in hasty:
            ask(visitor, chance.choice(streams), chance.choice(["sse", "long-poll"]), chance)
        for visitor in patient:
            ask(visitor, chance.choice(streams), "sse", chance)
        return sum(hears(one, chance.choice([BEGUN, EVENT])) for one in patient)


def ask(visitor: socket.socket, stream: str, mode: str, chance: random.Random) -> None:
    offset = chance.choice(["-1", "now"])
    visitor.sendall(head("GET", f"/v1/stream/{stream}?offset={offset}&live={mode}"))


def hears(visitor: socket.socket, wanted: bytes) -> bool:
    visitor.settimeout(ANSWER_SECS)
    heard = b""
    while wanted not in heard:
        piece = visitor.recv(4096)
        assert piece, heard
        heard += piece
    return True


async def keep_writing(
    http: aiohttp.ClientSession, server: RunningServer, streams: list[str]
) -> None:
    while True:
        for name in streams:
            await Stream(http, f"{server.url}/v1/stream/{name}", TEXT).append(b"more")
            await asyncio.sleep(PAUSE_SECS)
