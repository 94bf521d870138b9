"""Thousands of streams that are followed through one worker, each by somebody else."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from support.external_redis import ExternalRedis
from support.listener import Listener, message
from support.producers import until
from support.watched_worker import WatchedWorker

from loadtest.generator import Connection, Target, append_request, create_streams, expect

GROUPS = 6
GROUP = 500
WRITERS = 32
# In processor time of the server, of the last thousand against the first; what costs by the number
# of streams would grow elevenfold.
MOST_GROWTH = 4.0


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("enough_files")
async def test_each_of_thousands_of_streams_reaches_its_follower_and_the_last_cost_as_the_first(
    tmp_path: Path,
) -> None:
    settings = {
        "DS_STORAGE__DATA_DIR": str(tmp_path),
        "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "0",
    }
    with ExternalRedis() as redis, WatchedWorker.started(redis.url, settings) as worker:
        target = Target.parse(f"{worker.url}/v1/stream")
        names = [f"followed-{number}" for number in range(GROUPS * GROUP)]
        await create_streams(target, names)
        followers: list[Listener] = []
        alone = worker.open_files()

        async def arrive(group: int) -> None:
            followers.extend(await gathered(worker, names[group * GROUP : (group + 1) * GROUP]))

        async def leave(group: int) -> None:
            for follower in followers[group * GROUP : (group + 1) * GROUP]:
                follower.close()
            left = alone + (GROUPS - group - 1) * GROUP + 5
            await until(lambda: worker.open_files() <= left, "departures")

        arrivals = await costs(worker, arrive)
        with redis.client() as client:
            assert len(client.pubsub_channels()) == len(names)
        await append_to_all(target, names)
        await until(lambda: all(one.next == 1 for one in followers), "what was appended")
        departures = await costs(worker, leave)
        with redis.client() as client:
            await until(lambda: not client.pubsub_channels(), "the channels to be left")
    print(f"arrivals {shown(arrivals)}, departures {shown(departures)} µs each")
    assert min(arrivals[-2:]) < MOST_GROWTH * min(arrivals[:2])
    assert min(departures[-2:]) < MOST_GROWTH * min(departures[:2])


async def costs(worker: WatchedWorker, step: Callable[[int], Awaitable[None]]) -> list[float]:
    """Processor seconds for one of each group. Of two groups the cheaper one will count, since
    what disturbs a group only adds to it."""
    found = []
    for group in range(GROUPS):
        worker.rounds()
        await step(group)
        found.append(worker.rounds().total / GROUP)
    return found


def shown(costs: Sequence[float]) -> str:
    return " ".join(f"{cost * 1e6:.0f}" for cost in costs)


async def gathered(worker: WatchedWorker, names: Sequence[str]) -> list[Listener]:
    paths = [f"/v1/stream/{name}?offset=now&live=sse" for name in names]
    followers = [await Listener.open(worker.url, path) for path in paths]
    await until(lambda: all(one.has_begun for one in followers), "the followers")
    return followers


async def append_to_all(target: Target, names: Sequence[str]) -> None:
    waiting = iter(names)

    async def append_to_some(connection: Connection) -> None:
        for name in waiting:
            await expect(connection.ask(append_request(target, name, message(0, 100))))
        connection.close()

    connections = await target.connect_many([Connection] * WRITERS)
    await asyncio.gather(*map(append_to_some, connections))
