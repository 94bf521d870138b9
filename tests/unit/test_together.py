"""Appends of one turn of the event loop travel together, and nobody can tell."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.client import BYTES, JSON, TEXT, eventually, unique_name
from support.external_redis import ExternalRedis
from support.hot import Hot, hot, plain

from tiering.errors import Conflict, NotFound, StreamClosed, TooLarge, Unavailable
from tiering.hot.appends import INLINE_BYTES
from tiering.hot.keys import stream_keys
from tiering.hot.terms import Append, Appended, Attention, Expired
from tiering.hot.wake import Wake
from tiering.messages import NOTHING
from tiering.stream import Lifetime, Producer

GRID = 64
BODIES = [b'"a"', b'["b", 12, {"c": [3]}]', b"4", b'["' + b"x" * 150 + b'", "y"]', b'"z"'] * 3


@pytest.fixture
async def tier(redis: ExternalRedis) -> AsyncIterator[Hot]:
    async with hot(redis.url, grid=GRID) as tier:
        yield tier


async def at_once(tier: Hot, name: str, *appends: Append) -> list[Any]:
    """In one turn of the event loop; answers and refusals, in order."""
    return await asyncio.gather(
        *(tier.tier.append(name, append) for append in appends), return_exceptions=True
    )


def ends(answers: list[Any]) -> list[int]:
    assert all(isinstance(answer, Appended) for answer in answers), answers
    return [answer.tail.position for answer in answers]


@pytest.mark.parametrize("lifetime", [Lifetime(), Lifetime(ttl_secs=600)], ids=["ever", "ttl"])
@pytest.mark.parametrize("kind", [JSON, BYTES])
async def test_together_they_leave_what_they_leave_one_by_one(
    tier: Hot, kind: str, lifetime: Lifetime
) -> None:
    joined, single = await tier.stream(kind, lifetime), await tier.stream(kind, lifetime)
    appends = [plain(body, kind) for body in BODIES]
    before = tier.pipe.sent
    together = await at_once(tier, joined, *appends)
    assert tier.pipe.sent == before + 1
    one_by_one = [await tier.tier.append(single, append) for append in appends]
    assert ends(together) == ends(one_by_one)
    assert not any(answer.closed or answer.duplicate for answer in together)
    assert await tier.content(joined) == await tier.content(single)
    assert len((await tier.content(joined))["cuts"]) > 3


async def test_one_who_is_alone_sends_what_he_always_did(tier: Hot) -> None:
    name, other = await tier.stream(), await tier.stream()
    before = tier.pipe.sent
    answers = await asyncio.gather(
        tier.tier.append(name, plain(b"1")), tier.tier.append(other, plain(b"2"))
    )
    assert ends(answers) == [2, 2]
    assert tier.pipe.sent == before + 2


async def test_a_sliding_lifetime_begins_anew(tier: Hot) -> None:
    name = await tier.stream(lifetime=Lifetime(ttl_secs=600))
    meta = stream_keys(name).meta
    await tier.pipe.call("HINCRBY", meta, "deadline", -300_000)
    earlier = int(await tier.pipe.call("HGET", meta, "deadline"))
    ends(await at_once(tier, name, plain(b"1"), plain(b"2")))
    assert int(await tier.pipe.call("HGET", meta, "deadline")) >= earlier + 300_000


async def test_what_is_not_plain_goes_by_itself_and_keeps_its_answer(tier: Hot) -> None:
    name = await tier.stream()
    answers = await at_once(
        tier,
        name,
        plain(b"1"),
        plain(b"2", producer=Producer("p", 0, 0)),
        plain(b"3"),
        plain(b"4", producer=Producer("p", 0, 7)),
        plain(b"5", seq="a"),
        plain(b"x", BYTES),
        plain(b"6"),
        Append(NOTHING, "", closes=True),
        plain(b"7", seq="b"),
    )
    assert [answer.tail.position for answer in answers[:3]] == [2, 8, 4]
    assert isinstance(answers[3], Conflict)
    assert answers[4].tail.position == 10
    assert isinstance(answers[5], Conflict)
    assert answers[6].tail.position == 6
    assert answers[7].closed
    assert isinstance(answers[8], StreamClosed)
    assert (await tier.content(name))["block"] == b"1,3,6,2,5,"


async def test_each_is_refused_as_if_it_had_come_alone(tier: Hot) -> None:
    closed, name = await tier.stream(), await tier.stream()
    expired = await tier.stream(lifetime=Lifetime(ttl_secs=600))
    await tier.tier.append(closed, Append(NOTHING, "", closes=True))
    await tier.pipe.call("HSET", stream_keys(expired).meta, "deadline", 1)
    two = plain(b"1"), plain(b"2")
    for stream, refusal in (unique_name(), NotFound), (closed, StreamClosed), (expired, Expired):
        assert [type(answer) for answer in await at_once(tier, stream, *two)] == [refusal] * 2
    answers = await at_once(tier, name, plain(b"x", TEXT), plain(b"y", TEXT), *two)
    assert [type(answer) for answer in answers] == [Conflict] * 2 + [Appended] * 2


async def test_of_those_that_are_too_much_the_first_are_taken(redis: ExternalRedis) -> None:
    async with hot(redis.url, most=10) as tier:
        name = await tier.stream()
        answers = await at_once(tier, name, *[plain(b"%d" % number) for number in range(8)])
        assert ends(answers[:5]) == [2, 4, 6, 8, 10]
        assert [type(answer) for answer in answers[5:]] == [TooLarge] * 3
        assert (await tier.content(name))["block"] == b"0,1,2,3,4,"


async def test_the_sealer_is_told(tier: Hot) -> None:
    told: list[Attention] = []
    tier.tier.attend = lambda name, attention: told.append(attention)
    name = await tier.stream()
    told.clear()
    await at_once(tier, name, plain(b"1"), plain(b"2"))
    assert set(told) == {Attention.LATER}
    told.clear()
    await at_once(tier, name, plain(b"3"), plain(b"4"))
    assert not told
    await at_once(tier, name, plain(b"5"), plain(b'"%s"' % (b"x" * GRID)), plain(b"6"))
    assert set(told) == {Attention.NOW}


async def test_one_who_leaves_takes_nobody_with_him(tier: Hot) -> None:
    name = await tier.stream()
    tasks = [asyncio.create_task(tier.tier.append(name, plain(b"%d" % n))) for n in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers.pop(1), asyncio.CancelledError)
    assert ends(answers) == [2, 6, 8]
    assert (await tier.content(name))["block"] == b"0,1,2,3,"


async def test_all_learn_of_a_lost_connection_and_the_next_ones_go_on(
    redis: ExternalRedis, tier: Hot
) -> None:
    name = await tier.stream()
    tasks = [asyncio.create_task(tier.tier.append(name, plain(b"1"))) for _ in range(3)]
    await asyncio.sleep(0)
    tier.pipe._drop()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 3

    async def again() -> list[Any]:
        return await at_once(tier, name, plain(b"2"), plain(b"3"))

    healed = await eventually(again, lambda found: Unavailable not in map(type, found))
    first, second = ends(healed)
    assert second == first + 2


async def test_scripts_that_redis_has_forgotten_are_brought_again(tier: Hot) -> None:
    name = await tier.stream()
    await tier.pipe.call("SCRIPT", "FLUSH")
    assert ends(await at_once(tier, name, plain(b"1"), plain(b"2"))) == [2, 4]
    for _ in range(2):
        before = tier.pipe.sent
        ends(await at_once(tier, name, plain(b"3"), plain(b"4")))
        assert tier.pipe.sent == before + 1


async def test_what_is_joined_always_travels_with_its_wake_up(
    redis: ExternalRedis, tier: Hot
) -> None:
    name = await tier.stream(BYTES)
    size = INLINE_BYTES // 4 + 1
    with redis.client() as client, client.pubsub() as heard:
        heard.subscribe(stream_keys(name).live)
        before = tier.pipe.sent
        answers = await at_once(tier, name, *[plain(b"x" * size, BYTES)] * 7)
        assert ends(answers) == [size * number for number in range(1, 8)]
        assert tier.pipe.sent == before + 3
        messages = (told["data"] for told in heard.listen() if told["type"] == "message")
        wakes = [Wake.parse(message) for message in itertools.islice(messages, 3)]
    assert [wake.end // size for wake in wakes] == [3, 6, 7]
    assert all(wake.carries_data for wake in wakes)
