"""Redis frozen, restarted, or cut off in the middle of a word."""

import asyncio
import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from support.client import TEXT, Answer, Stream, eventually, unique_name
from support.connection import Connection
from support.external_redis import ExternalRedis
from support.producers import assert_unavailable, patient_session, traffic, until
from support.proxy import RedisProxy
from support.server import RunningServer, is_alive

from tiering.hot import scripts

APPEND = scripts.load("append").sha.encode()
LOOK = scripts.load("look").sha.encode()
FROZEN_SECS = 10.0
MiB = 1024 * 1024

Fixture = Callable[..., AsyncIterator[Any]]


pytestmark = pytest.mark.asyncio(loop_scope="module")


def shared(fixture: Fixture) -> Fixture:
    """The proxy lives in the event loop, so all who share it must."""
    return pytest_asyncio.fixture(fixture, scope="module", loop_scope="module")


@pytest.fixture(scope="module")
def redis() -> Iterator[ExternalRedis]:
    with ExternalRedis() as running:
        yield running


@shared
async def proxy(redis: ExternalRedis) -> AsyncIterator[RedisProxy]:
    async with RedisProxy(redis.socket) as running:
        yield running


@shared
async def server(proxy: RedisProxy) -> AsyncIterator[RunningServer]:
    """One worker, so that there is one connection of each kind. Its Redis is behind the proxy."""
    server = RunningServer(env={"DS_REDIS__URL": proxy.url})
    try:
        await asyncio.to_thread(server.start)
        yield server
    finally:
        await asyncio.to_thread(server.close)


@shared
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with patient_session() as session:
        yield session


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(server: RunningServer, http: aiohttp.ClientSession) -> None:
    """What the test before has cut is whole again."""
    probe = Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)
    await eventually(probe.create, lambda answer: answer.status in (200, 201))
    await eventually(probe.read, lambda answer: answer.status == 200)


@pytest.fixture
def stream(server: RunningServer, http: aiohttp.ClientSession) -> Stream:
    return Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)


async def test_a_frozen_redis_is_a_pause(http: aiohttp.ClientSession) -> None:
    """Or a 503, when the server is told to be less patient. Both at once: 10 s are long."""
    async with asyncio.TaskGroup() as group:
        group.create_task(freeze(http, redis_timeout_secs=15))
        impatient = group.create_task(freeze(http, redis_timeout_secs=1))
    assert impatient.result()["503"]


async def freeze(http: aiohttp.ClientSession, redis_timeout_secs: int) -> Counter[str]:
    env = {"DS_REDIS__TIMEOUT_SECS": str(redis_timeout_secs)}
    with RunningServer(workers=2, env=env) as server:
        async with traffic(server.url, http) as flow:
            await flow.flows()
            redis_pid = server.redis_pid()
            os.kill(redis_pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(FROZEN_SECS)
            finally:
                os.kill(redis_pid, signal.SIGCONT)
            await flow.flows()
            await flow.finish()
            assert server.redis_pid() == redis_pid
            await flow.check()
            return flow.seen()


async def test_the_private_redis_is_restarted(http: aiohttp.ClientSession) -> None:
    with RunningServer(workers=2) as server:
        async with traffic(server.url, http) as flow:
            for _ in range(3):
                await flow.flows()
                redis_pid = server.redis_pid()
                os.kill(redis_pid, signal.SIGTERM)
                await until(lambda pid=redis_pid: not is_alive(pid), "Redis to end")
            await flow.flows()
            await flow.finish()
            await flow.check()


async def test_an_external_redis_is_away_for_a_while(
    redis: ExternalRedis, server: RunningServer, http: aiohttp.ClientSession
) -> None:
    async with traffic(server.url, http) as flow:
        for end in (redis.stop, redis.kill):
            await flow.flows()
            refused = flow.seen()["503"]
            await asyncio.to_thread(end)
            await until(lambda before=refused: flow.seen()["503"] > before + 10, "refusals")
            await asyncio.to_thread(redis.start)
        await flow.flows()
        await flow.finish()
        await flow.check()


async def test_who_polls_after_an_append_was_acknowledged_is_told_of_it_before_any_wake_up(
    proxy: RedisProxy, stream: Stream
) -> None:
    """The worker remembers what it heard last, and does not take that for all there is."""
    start = (await stream.create()).next_offset
    polling = asyncio.create_task(stream.long_poll(start))
    await until(lambda: bool(proxy.subscriptions()), "a subscription")
    heard = (await stream.append(b"heard")).next_offset
    assert (await polling).next_offset == heard
    subscriptions = proxy.subscriptions()
    for link in subscriptions:
        link.flows.clear()
    try:
        acknowledged = (await stream.append(b" and not yet")).next_offset
        behind, at_the_end = await stream.long_poll(start), await stream.long_poll(heard)
    finally:
        for link in subscriptions:
            link.flows.set()
    assert (behind.body, at_the_end.body) == (b"heard and not yet", b" and not yet")
    assert behind.next_offset == at_the_end.next_offset == acknowledged


async def test_an_append_whose_reply_is_cut_anywhere_is_there_once(
    server: RunningServer, proxy: RedisProxy, stream: Stream
) -> None:
    await stream.create()
    for position in itertools.count():
        cut = proxy.cut_reply(APPEND, after=position)
        answer = await stream.produce(b"<%d>" % position, "p", 0, position)
        await cut.happened()
        if answer.status == 200:
            break
        assert_unavailable(answer)
        retry = await persistently(stream, b"<%d>" % position, position)
        assert retry.status == 204
        assert retry["Producer-Seq"] == str(position)
    assert position > 20, "a reply of Redis is longer than that"
    expected = b"".join(b"<%d>" % n for n in range(position + 1))
    assert (await stream.read()).body == expected


async def test_an_append_that_is_cut_anywhere_on_its_way_is_there_once(
    server: RunningServer, proxy: RedisProxy, stream: Stream
) -> None:
    """Redis does nothing with a part of a command, so each retry is the first it sees."""
    await stream.create()
    positions = range(0, 300, 7)
    for n, position in enumerate(positions):
        cut = proxy.cut_command(APPEND, after=position)
        assert_unavailable(await stream.produce(b"<%d>" % position, "p", 0, n))
        await cut.happened()
        assert (await persistently(stream, b"<%d>" % position, n)).status == 200
    expected = b"".join(b"<%d>" % position for position in positions)
    assert (await stream.read()).body == expected


async def persistently(stream: Stream, body: bytes, seq: int) -> Answer:
    while (answer := await stream.produce(body, "p", 0, seq)).status == 503:
        assert_unavailable(answer)
        await asyncio.sleep(0.01)
    return answer


async def test_every_waiting_request_gets_its_own_answer_when_the_wire_is_cut(
    server: RunningServer, proxy: RedisProxy, stream: Stream
) -> None:
    """Replies are matched to requests by their order alone: none may slip to a neighbour."""
    await stream.create()
    path = stream.url.removeprefix(server.url)
    connections = [await Connection.open(server.url) for _ in range(16)]
    for seq, after in enumerate((0, 10, 60, 100, 200, 333, 500)):
        cut = proxy.cut_reply(APPEND, after=after)
        answers = [None] * len(connections)
        while pending := [n for n, answer in enumerate(answers) if answer is None]:
            asked = [ask(connections[n], path, producer=n, seq=seq) for n in pending]
            for n, answer in zip(pending, await asyncio.gather(*asked), strict=True):
                if answer["Producer-Seq"] == str(seq):
                    answers[n] = answer["Stream-Next-Offset"]
            await asyncio.sleep(0.01)
        await cut.happened()
    for connection in connections:
        assert await connection.rest() == b""
        connection.close()
    stored = (await stream.read()).body.decode().split()
    assert len(stored) == len(connections) * 7
    for n in range(len(connections)):
        sent = [f"{n}:{seq}" for seq in range(7)]
        assert [one for one in stored if one.startswith(f"{n}:")] == sent


async def ask(connection: Connection, path: str, producer: int, seq: int):
    answer = await connection.ask(
        "POST",
        path,
        f"{producer}:{seq} ".encode(),
        content_type=TEXT,
        producer_id=f"p{producer}",
        producer_epoch=0,
        producer_seq=seq,
    )
    if answer.status == 503:
        assert_unavailable(answer)
    else:
        assert answer.status in (200, 204), answer
    return answer


@pytest.mark.parametrize(
    ("command", "after"),
    [
        (LOOK, 0),
        (LOOK, 30),
        (b"GETRANGE", 0),
        (b"GETRANGE", 1),
        (b"GETRANGE", 11),
        (b"GETRANGE", MiB // 2),
        (b"GETRANGE", MiB + 5),
        (b"GETRANGE", MiB + MiB // 2),
        (b"GETRANGE", 3 * MiB - 1),
    ],
)
async def test_a_read_whose_reply_is_cut_is_refused_or_broken_off_but_never_short(
    server: RunningServer, proxy: RedisProxy, stream: Stream, command: bytes, after: int
) -> None:
    body = random.Random(1).randbytes(3 * MiB)
    await stream.create(body)
    cut = proxy.cut_reply(command, after)
    try:
        answer = await stream.read()
    except aiohttp.ClientPayloadError:
        assert after > MiB, "nothing had been sent yet: this could have been a 503"
    else:
        assert_unavailable(answer)
    await cut.happened()
    answer = await eventually(stream.read, lambda answer: answer.status != 503)
    assert answer.status == 200
    assert answer.body == body


async def test_followers_miss_nothing_when_only_the_subscription_is_cut(
    server: RunningServer, proxy: RedisProxy, http: aiohttp.ClientSession
) -> None:
    async with traffic(server.url, http) as flow:
        await flow.flows()
        for after in (0, 1, 7, 40, 90, 1000, 10_000):
            await until(lambda: bool(proxy.subscriptions()), "a subscription")
            [subscription] = proxy.subscriptions()
            await subscription.cut_replies(after).happened()
            await flow.flows()
        await flow.finish()
        assert not flow.seen()["503"]
        await flow.check()


async def test_followers_get_what_was_appended_while_the_subscription_was_away(
    server: RunningServer, proxy: RedisProxy, stream: Stream
) -> None:
    tail = (await stream.create()).next_offset
    async with stream.follow(tail) as following:
        await following.until_caught_up()
        polling = asyncio.create_task(stream.long_poll(tail))
        await stream.read()
        await until(lambda: bool(proxy.subscriptions()), "a subscription")
        proxy.refuses = True
        [subscription] = proxy.subscriptions()
        subscription.end()
        for n in range(10):
            assert (await stream.append(b"<%d>" % n)).status == 204
        proxy.refuses = False
        expected = "".join(f"<{n}>" for n in range(10))
        async with asyncio.timeout(30):
            await following.until(lambda event: event.kind == "data" and event.data == expected)
            polled = await polling
        assert (polled.status, polled.body.decode()) in [(200, expected), (204, "")]


async def test_cuts_at_random_places_under_load_lose_and_repeat_nothing(
    server: RunningServer, proxy: RedisProxy, http: aiohttp.ClientSession, chance: random.Random
) -> None:
    async with traffic(server.url, http) as flow:
        for _ in range(20):
            await flow.flows()
            command = chance.choice([APPEND, LOOK])
            cut = chance.choice([proxy.cut_reply, proxy.cut_command])
            await cut(command, chance.randrange(400)).happened()
        await flow.flows()
        await flow.finish()
        await flow.check()
