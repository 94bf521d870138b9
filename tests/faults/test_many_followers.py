"""A thousand followers of one stream, and what they cost."""

import asyncio
import contextlib
import json
import re

import aiohttp
import pytest
from support.client import JSON, Stream, unique_name
from support.connection import Connection, head
from support.metrics import memory_bytes
from support.server import RunningServer

FOLLOWERS = 1000
MESSAGES = 100
MOST_BYTES = 300 * 1000 * 1000

EVENT = re.compile(rb"event: (data|control)\ndata: ?([^\n]*)\n\n")


@pytest.mark.usefixtures("enough_files")
async def test_a_thousand_followers_get_every_message_in_order_in_little_memory(
    http: aiohttp.ClientSession,
) -> None:
    without_end = {"DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "0"}
    with RunningServer(workers=2, env=without_end) as server:
        stream = Stream(http, f"{server.url}/v1/stream/{unique_name()}", JSON)
        await stream.create()
        followers = [Follower() for _ in range(FOLLOWERS)]
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(follower.follow(server.url, stream)) for follower in followers
            ]
            for follower in followers:
                await follower.caught_up.wait()
            for n in range(MESSAGES):
                assert (await stream.append(b'{"n":%d}' % n)).status == 204
            await asyncio.gather(*following)
            used = memory_bytes(server)
        tail = (await stream.head()).next_offset
        for follower in followers:
            follower.connection.close()
    assert all(follower.received == [{"n": n} for n in range(MESSAGES)] for follower in followers)
    assert {follower.offset for follower in followers} == {tail}
    print(f"{used / 1e6:.0f} MB for {FOLLOWERS} followers")
    assert used < MOST_BYTES


class Follower:
    """Its connection stays open when it has everything, so that all are there at the end."""

    connection: Connection

    def __init__(self) -> None:
        self.received: list[object] = []
        self.offset = ""
        self.has_offset = False
        self.caught_up = asyncio.Event()

    async def follow(self, url: str, stream: Stream) -> None:
        self.connection = await Connection.open(url)
        target = f"{stream.url.removeprefix(url)}?offset=-1&live=sse"
        await self.connection.send(head("GET", target))
        status, _ = await self.connection.answer_head()
        assert status == 200
        unparsed = b""
        async with contextlib.aclosing(self.connection.pieces()) as pieces:
            async for piece in pieces:
                unparsed = self._take(unparsed + piece)
                if len(self.received) >= MESSAGES and self.has_offset:
                    return
        raise AssertionError("the answer ended before everything was delivered")

    def _take(self, data: bytes) -> bytes:
        end = 0
        for event in EVENT.finditer(data):
            assert event.start() == end
            end = event.end()
            if event[1] == b"data":
                self.received += json.loads(event[2])
                self.has_offset = False
            else:
                self.offset = json.loads(event[2])["streamNextOffset"]
                self.has_offset = True
                self.caught_up.set()
        return data[end:]
