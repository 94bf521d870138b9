"""Processes killed at random moments under load: nothing acknowledged is lost or there twice."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable

import aiohttp
import pytest
from support.producers import traffic
from support.server import RunningServer

Victims = Callable[[RunningServer, random.Random], list[int]]


def whole_server(server: RunningServer, chance: random.Random) -> list[int]:
    return [server.pid, *server.worker_pids()]


def parent(server: RunningServer, chance: random.Random) -> list[int]:
    return [server.pid]


def one_worker(server: RunningServer, chance: random.Random) -> list[int]:
    return [chance.choice(server.worker_pids())]


def only_redis(server: RunningServer, chance: random.Random) -> list[int]:
    return [server.redis_pid()]


def parent_and_redis(server: RunningServer, chance: random.Random) -> list[int]:
    return [server.pid, server.redis_pid()]


def everything(server: RunningServer, chance: random.Random) -> list[int]:
    return [server.pid, server.redis_pid(), *server.worker_pids()]


CRASHES: list[Victims] = [
    whole_server,
    parent,
    one_worker,
    only_redis,
    parent_and_redis,
    everything,
]


@pytest.mark.timeout(240)
async def test_what_was_acknowledged_survives_every_crash_once_and_in_order(
    http: aiohttp.ClientSession, chance: random.Random
) -> None:
    crashes = [*CRASHES, *CRASHES]
    chance.shuffle(crashes)
    with RunningServer(workers=2, chunk_bytes=64 * 1024) as server:
        async with traffic(server.url, http) as flow:
            for victims in crashes:
                await flow.flows(appends=chance.randrange(1, 20))
                await crash(server, victims, chance)
            await flow.flows()
            await flow.finish()
            print(f"{[victims.__name__ for victims in crashes]}: {dict(flow.seen())}")
            await flow.check()
            assert server.stop() == 0
            server.start()
            await flow.check()


async def crash(server: RunningServer, victims: Victims, chance: random.Random) -> None:
    """Kills them in any order at any moment, and starts the server again if it was among them."""
    parent_pid, pids = server.pid, victims(server, chance)
    chance.shuffle(pids)
    await asyncio.sleep(chance.uniform(0, 0.03))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if parent_pid in pids:
        server.kill()
        await asyncio.to_thread(server.start)
