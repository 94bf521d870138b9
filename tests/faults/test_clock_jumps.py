"""The clock of the server and of its Redis jumps by hours: appends and sealing go on."""

import asyncio
import itertools
import random

import pytest
from support import trial
from support.clock import clock
from support.external_redis import ExternalRedis

HOUR = 3600


@pytest.mark.timeout(trial.TIMEOUT_SECS)
async def test_a_clock_that_jumps_by_an_hour_stops_nothing(chance: random.Random) -> None:
    await trial.at_once(forward=jumps(HOUR, chance), back=jumps(-HOUR, chance))


async def jumps(step: int, chance: random.Random) -> None:
    """Again and again, so that some find data that wait for their age."""
    hours = itertools.count(1)

    async def jump() -> None:
        watch.jump_to(step * next(hours))
        await asyncio.sleep(chance.uniform(0, 3))

    with clock() as watch, ExternalRedis(environment=watch.environment) as redis:
        env = watch.environment | {"DS_REDIS__URL": redis.url}
        async with trial.server(env) as server:
            clients = await trial.endure(server, lambda _: trial.for_a_while(jump), chance)
    assert not clients.refused_appends()
