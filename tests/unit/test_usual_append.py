"""The usual append has a short way through its script, which leaves what the long one leaves."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from support.client import BYTES, JSON, TEXT, unique_name
from support.external_redis import ExternalRedis
from support.hot import FOREVER, Hot, hot, plain

from tiering.hot import scripts
from tiering.hot.appends import INLINE_BYTES, append_keys, append_words
from tiering.hot.keys import stream_keys
from tiering.hot.terms import Append
from tiering.hot.wake import Wake
from tiering.messages import NOTHING
from tiering.stream import Lifetime, Producer

GRID = 3 * scripts.BLOCK_BYTES // 2
SHORT = scripts.load("append").source
LONG = SHORT.replace("if ARGV[4] == ''", "if false and ARGV[4] == ''", 1)
EDGES = [1, 2, 100, INLINE_BYTES, INLINE_BYTES + 1, scripts.BLOCK_BYTES // 2 - 1]
LIFETIME = Lifetime(ttl_secs=600)
STATES: list[dict[str, str]] = [
    {},
    {"closed": "1"},
    {"hidden": "1"},
    {"run": "another"},
    {"deadline": "1"},
    {"base": "77", "tail": "77", "chunk": "77", "sealed": "77"},
    {"base": "1048570", "tail": "1048570", "chunk": "1048570", "sealed": "1048000"},
    {"tail": "1048570", "sealed": "5"},
]


@pytest.fixture
async def tier(redis: ExternalRedis) -> AsyncIterator[Hot]:
    async with hot(redis.url, grid=GRID) as tier:
        yield tier


class Twin:
    """A stream that is appended to by one of the ways."""

    def __init__(self, tier: Hot, source: str, name: str) -> None:
        self._tier = tier
        self._source = source
        self.name = name

    async def append(self, append: Append, most: int = 0) -> Any:
        """The reply without its log, which is not the other's."""
        keys = append_keys(self.name)
        words = append_words(append, append.payload.data, most, scripts.DURABLE)
        reply = await self._tier.pipe.call("EVAL", self._source, len(keys), *keys, *words)
        return [*reply[:1], *reply[2:]] if len(reply) > 2 else reply[:1]

    async def become(self, state: dict[str, str]) -> None:
        for field, value in state.items():
            await self._tier.pipe.call("HSET", stream_keys(self.name).meta, field, value)

    async def left(self) -> dict[str, Any]:
        content = await self._tier.content(self.name)
        keys = sorted(await self._tier.pipe.call("KEYS", f"{stream_keys(self.name).blocks}*"))
        blocks = [(key.rpartition(b":")[2], await self._tier.pipe.call("GET", key)) for key in keys]
        return content | {"blocks": blocks}


async def twins(tier: Hot, kind: str, lifetime: Lifetime = FOREVER) -> tuple[Twin, Twin]:
    return (
        Twin(tier, SHORT, await tier.stream(kind, lifetime)),
        Twin(tier, LONG, await tier.stream(kind, lifetime)),
    )


def random_append(chance: random.Random, kind: str) -> Append:
    rest: dict[str, Any] = chance.choice([{}] * 6 + [{"seq": "a"}, {"closes": True}])
    if chance.random() < 0.1:
        rest = {"producer": Producer("p", 0, 0)}
    if chance.random() < 0.05:
        return Append(NOTHING, "", closes=chance.random() < 0.5)
    size = chance.choice(EDGES)
    body = b"x" * size if kind != JSON else b'["%b",%d]' % (b"x" * size, size)
    return plain(body, chance.choice([kind] * 9 + [TEXT]), **rest)


def test_there_are_two_ways() -> None:
    assert SHORT != LONG


@pytest.mark.parametrize("lifetime", [FOREVER, LIFETIME], ids=["ever", "ttl"])
@pytest.mark.parametrize("kind", [JSON, BYTES])
async def test_both_ways_reply_and_leave_the_same(tier: Hot, kind: str, lifetime: Lifetime) -> None:
    for seed, state in enumerate(STATES * 3):
        chance = random.Random(seed)
        short, long = await twins(tier, kind, lifetime)
        if state:
            assert await short.append(plain(b"1", kind)) == await long.append(plain(b"1", kind))
            await short.become(state)
            await long.become(state)
        for _ in range(12):
            append, most = random_append(chance, kind), chance.choice([0, 0, 3_000_000, 1_000_000])
            assert await short.append(append, most) == await long.append(append, most), seed
        assert await short.left() == await long.left(), seed


@pytest.mark.parametrize("line", [scripts.BLOCK_BYTES, GRID])
@pytest.mark.parametrize("size", [9, 10, 11])
async def test_before_at_and_behind_the_end_of_blocks_and_chunks(
    tier: Hot, line: int, size: int
) -> None:
    short, long = await twins(tier, BYTES)
    for twin in (short, long):
        await twin.become({"tail": str(line - 10)})
    for append in (plain(b"x" * size, BYTES), plain(b"y", BYTES)):
        assert await short.append(append) == await long.append(append)
    assert await short.left() == await long.left()


@pytest.mark.parametrize("size", [9, 10, 11])
async def test_the_largest_stream_is_the_same(tier: Hot, size: int) -> None:
    append = plain(b"x" * size, BYTES)
    replies = [await twin.append(append, most=10) for twin in await twins(tier, BYTES)]
    assert replies[0] == replies[1]
    assert (replies[0] == [b"too_large"]) == (size > 10)


async def test_nobody_has_a_stream_by_appending(tier: Hot) -> None:
    for source in (SHORT, LONG):
        assert await Twin(tier, source, unique_name()).append(plain(b"1")) == [b"missing"]


async def test_times_and_wake_ups_are_the_same(redis: ExternalRedis, tier: Hot) -> None:
    for kind, body in (JSON, b"[1,2]"), (BYTES, b"x" * INLINE_BYTES), (BYTES, b"x" * 20_000):
        wakes = []
        for twin in await twins(tier, kind):
            keys = stream_keys(twin.name)
            with redis.client() as client, client.pubsub(ignore_subscribe_messages=True) as heard:
                heard.subscribe(keys.live)
                heard.get_message(timeout=5)
                before = int(await tier.pipe.call("HGET", keys.meta, "created"))
                await twin.append(plain(body, kind))
                told = heard.get_message(timeout=5)
            assert told is not None
            wakes.append(replace(Wake.parse(told["data"]), log=0))
            [[_, fields]] = await tier.pipe.call("XRANGE", keys.records, "-", "+")
            written = await tier.pipe.call("HGET", keys.meta, "written")
            assert fields[:2] == [b"t", written]
            assert before <= int(written) < before + 60_000
        assert wakes[0] == wakes[1]
