"""A server that is stopped and started again on its data knows everything it knew before."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from support.client import BYTES, JSON, TEXT, Stream, assert_problem, eventually
from support.model import token
from support.server import RunningServer

Named = Callable[..., Stream]


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    with RunningServer(workers=2, chunk_bytes=1024) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """No connection is used twice: those of before the restart are dead."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield session


@pytest.fixture
def named(server: RunningServer, http: aiohttp.ClientSession) -> Named:
    def stream(name: str, content_type: str = JSON) -> Stream:
        return Stream(http, f"{server.url}/v1/stream/{name}", content_type)

    return stream


def restart(server: RunningServer) -> None:
    assert server.stop() == 0
    server.start()


async def test_everything_is_there_after_a_restart(server: RunningServer, named: Named) -> None:
    open_one, closed_one, long_one = named("open"), named("closed", TEXT), named("long", BYTES)
    await open_one.create(b"[1.10]")
    await closed_one.create(b"all of it", closed=True)
    await long_one.create(stream_ttl="3600")
    for n in range(20):
        await long_one.append(bytes([n]) * 300)
    await open_one.append(b"2", stream_seq="5")
    await open_one.produce(b"3", "p", 4, 0)
    await open_one.produce(b"4", "p", 4, 1)
    streams = (open_one, closed_one, long_one)
    before = [await stream.read_to_the_tail() for stream in streams]
    heads = [dict((await stream.head()).headers) for stream in streams]

    restart(server)

    for stream, then, head in zip(streams, before, heads, strict=True):
        now = await stream.read_to_the_tail()
        assert [answer.body for answer in now] == [answer.body for answer in then]
        assert [answer["ETag"] for answer in now] == [answer["ETag"] for answer in then]
        assert (await stream.head()).headers["Stream-Next-Offset"] == head["Stream-Next-Offset"]
    assert (await closed_one.head())["Stream-Closed"] == "true"
    assert (await long_one.head())["Stream-TTL"] == "3600"
    assert_problem(await open_one.append(b"0", stream_seq="5"), 409)
    assert_problem(await open_one.produce(b"0", "p", 3, 2), 403)
    assert (await open_one.produce(b"0", "p", 4, 1)).status == 204
    assert (await open_one.produce(b"5", "p", 4, 2)).status == 200
    assert (await open_one.read()).body == b"[1.10,2,3,4,5]"


async def test_a_closing_append_is_recognised_after_a_restart(
    server: RunningServer, named: Named
) -> None:
    stream = named("s", TEXT)
    await stream.create()
    await stream.produce(b"last", "p", 0, 0, stream_closed="true")
    restart(server)
    retry = await stream.produce(b"last", "p", 0, 0, stream_closed="true")
    assert retry.status == 204
    assert retry["Stream-Closed"] == "true"


async def test_no_log_is_used_again_after_a_restart(server: RunningServer, named: Named) -> None:
    stream = named("s", TEXT)
    first = await stream.create(b"first")
    await stream.delete()
    restart(server)
    second = await stream.create(b"second")
    assert second.log > first.log
    assert_problem(await stream.read(first.next_offset), 410)


async def test_a_window_that_ended_while_the_server_was_down_is_over(
    server: RunningServer, named: Named
) -> None:
    stream = named("s", TEXT)
    await stream.create(b"x", stream_ttl="1")
    restart(server)
    await eventually(stream.head, lambda answer: answer.status == 404)


async def test_the_grid_is_the_one_a_stream_was_created_with(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with RunningServer(chunk_bytes=1024, data_dir=tmp_path / "data") as first:
        stream = Stream(http, f"{first.url}/v1/stream/s", BYTES)
        log = (await stream.create(b"x" * 700)).log
    with RunningServer(chunk_bytes=4096, data_dir=tmp_path / "data") as second:
        stream = Stream(http, f"{second.url}/v1/stream/s", BYTES)
        newer = Stream(http, f"{second.url}/v1/stream/newer", BYTES)
        await newer.create()
        for _ in range(10):
            await stream.append(b"y" * 700)
            await newer.append(b"y" * 700)
        assert (await stream.read(token(log, 0))).position == 1400
        assert (await newer.read()).position == 4200


async def test_stopping_lets_followers_go_with_an_offset_to_resume_from(
    server: RunningServer, named: Named
) -> None:
    stream = named("s")
    tail = (await stream.create(b"1")).next_offset
    polling = asyncio.create_task(stream.long_poll(tail))
    async with stream.follow("-1") as following:
        events = await following.until_caught_up()
        stopping = asyncio.create_task(asyncio.to_thread(server.stop))
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ClientPayloadError):
                events += await following.rest()
            answer = await polling
            assert await stopping == 0
    assert events[-1].control["streamNextOffset"] == tail
    assert answer.status == 204
    assert answer.next_offset == tail
