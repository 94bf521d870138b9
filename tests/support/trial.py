"""A server under load, something that goes wrong for a while, and what must be true after it."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from support.client import eventually
from support.load import HEALING_SECS, Load, load
from support.server import RunningServer

from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import SealingDesk

FAULT_SECS = float(os.environ.get("DS_TEST_FAULT_SECS") or 30)
TIMEOUT_SECS = FAULT_SECS + 240
CHUNK_BYTES = 64 * 1024
RESTLESS = {
    "DS_TIERING__SEAL_AGE_SECS": "0.5",
    "DS_TIERING__SWEEP_SECS": "5",
    "DS_CACHE__CHUNK_BYTES": str(CHUNK_BYTES),
}
"""Everything is sealed at once, and read from object storage again."""

Trouble = Callable[[Load], Awaitable[None]]


@asynccontextmanager
async def server(env: dict[str, str] | None = None, **more: Any) -> AsyncIterator[RunningServer]:
    """Beside an event loop that goes on, because what the server needs may live in it."""
    wanted = {"workers": 2, "chunk_bytes": CHUNK_BYTES} | more
    running = RunningServer(env=RESTLESS | (env or {}), **wanted)
    try:
        await asyncio.to_thread(running.start)
        yield running
    except BaseException:
        print(running.log(), file=sys.stderr)
        raise
    finally:
        await asyncio.to_thread(running.close)


async def at_once(**trials: Awaitable[object]) -> None:
    """Each lasts half a minute and has its own server; what fails says which it was."""
    outcomes = await asyncio.gather(*trials.values(), return_exceptions=True)
    failed = {
        name: outcome
        for name, outcome in zip(trials, outcomes, strict=True)
        if isinstance(outcome, BaseException)
    }
    if failed:
        raise BaseExceptionGroup(f"failed: {', '.join(failed)}", list(failed.values()))


async def endure(server: RunningServer, trouble: Trouble, chance: random.Random) -> Load:
    """Nothing is lost, repeated or reordered, and in the end everything is sealed and sound."""
    async with load(server.url, chance) as clients:
        await clients.has_a_past(8 * CHUNK_BYTES)
        await trouble(clients)
        await clients.flows()
        await clients.finish()
        await everything_is_sealed(redis_url(server))
        await clients.check()
        checked = await asyncio.to_thread(server.command, "fsck")
        assert checked.returncode == 0, checked
        print({kind: dict(answers) for kind, answers in clients.seen().items()})
        return clients


def redis_url(server: RunningServer) -> str:
    return server.settings.get("DS_REDIS__URL") or f"unix://{server.redis_socket}"


async def everything_is_sealed(url: str) -> None:
    pipe = Pipe(Address.parse(url), timeout_secs=15)
    await pipe.open()
    desk = SealingDesk(pipe)

    async def unsettled() -> list[str]:
        surveys = [await desk.survey(name) async for name in desk.names()]
        return [one.manifest.name for one in surveys if one is not None and not one.is_settled]

    try:
        await eventually(unsettled, lambda left: not left, HEALING_SECS)
    except TimeoutError:
        raise AssertionError(f"not sealed: {await unsettled()}") from None
    finally:
        await pipe.close()


async def for_a_while(work: Callable[[], Awaitable[object]]) -> None:
    """Again and again, as long as a fault lasts."""
    loop = asyncio.get_running_loop()
    end = loop.time() + FAULT_SECS
    while loop.time() < end:
        await work()
