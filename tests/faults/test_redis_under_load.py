"""Redis away, frozen or cut off again and again: appends get 503, and nothing is lost."""

import asyncio
import os
import random
import signal

import pytest
import redis
from support import trial
from support.external_redis import ExternalRedis
from support.producers import until
from support.proxy import RedisProxy
from support.server import RunningServer, is_alive

IMPATIENT = {"DS_REDIS__TIMEOUT_SECS": "2"}


@pytest.mark.timeout(trial.TIMEOUT_SECS)
async def test_nothing_is_lost_when_redis_restarts_is_frozen_or_drops_connections(
    chance: random.Random,
) -> None:
    await trial.at_once(
        restarts=restarts(chance), is_frozen=is_frozen(chance), drops=drops_connections(chance)
    )


async def restarts(chance: random.Random) -> None:
    async def restart() -> None:
        pid = server.redis_pid()
        os.kill(pid, chance.choice([signal.SIGTERM, signal.SIGKILL]))
        await until(lambda: not is_alive(pid), "Redis to end")
        await until(lambda: has_another_redis(server, pid), "another Redis")
        await asyncio.sleep(chance.uniform(0, 3))

    async with trial.server() as server:
        clients = await trial.endure(server, lambda _: trial.for_a_while(restart), chance)
    assert clients.refused_appends()


def has_another_redis(server: RunningServer, than: int) -> bool:
    try:
        return server.redis_pid() != than
    except (OSError, redis.RedisError):
        return False


async def is_frozen(chance: random.Random) -> None:
    async def freeze() -> None:
        pid = server.redis_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.uniform(0.1, 6))
        finally:
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(chance.uniform(0.1, 2))

    async with trial.server(IMPATIENT) as server:
        clients = await trial.endure(server, lambda _: trial.for_a_while(freeze), chance)
    assert clients.refused_appends()


async def drops_connections(chance: random.Random) -> None:
    async def cut() -> None:
        for link in proxy.links():
            link.cut_replies(after=chance.randrange(2000))
        await asyncio.sleep(chance.uniform(0, 0.5))

    with ExternalRedis() as external:
        async with (
            RedisProxy(external.socket) as proxy,
            trial.server({"DS_REDIS__URL": proxy.url}) as server,
        ):
            clients = await trial.endure(server, lambda _: trial.for_a_while(cut), chance)
    assert clients.refused_appends()
