"""A Redis that answers the greeting and hangs up at once is one that cannot be reached."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop
from support.client import eventually
from support.external_redis import ExternalRedis

from tiering.errors import Unavailable
from tiering.hot.connection import Address
from tiering.hot.keys import DEPLOYMENT
from tiering.hot.pipe import Pipe

pytestmark = pytest.mark.timeout(60)

LAST_REPLY = b"$5\r\nthing\r\n"


class HangingUp:
    """Before a Redis; the first so many connections end with the last reply to the greeting."""

    def __init__(self, redis: ExternalRedis, hang_ups: int) -> None:
        self._redis = redis
        self._left = hang_ups
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    async def _pass(self, asked: asyncio.StreamReader, told: asyncio.StreamWriter) -> None:
        answering, asking = await asyncio.open_unix_connection(self._redis.socket)
        forward = asyncio.create_task(_copy(asked, asking))
        if self._left:
            self._left -= 1
            told.write(await answering.readuntil(LAST_REPLY))
        else:
            await _copy(answering, told)
        told.close()
        asking.close()
        await forward


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
    finally:
        target.close()


async def look_through(redis: ExternalRedis) -> None:
    proxy = HangingUp(redis, hang_ups=1)
    async with proxy.open():
        pipe = Pipe(Address.parse(f"redis://127.0.0.1:{proxy.port}"), timeout_secs=10)
        try:
            with pytest.raises(Unavailable, match="hung up"):
                await pipe.open()
            with pytest.raises(Unavailable):
                pipe.execute("PING")
            await pipe.open()
            assert await pipe.call("ECHO", "mine") == b"mine"
        finally:
            await pipe.close()


async def heal_through(redis: ExternalRedis) -> None:
    """Whoever asks in between is refused, and nobody gets another's reply."""
    proxy = HangingUp(redis, hang_ups=0)
    async with proxy.open():
        pipe = Pipe(Address.parse(f"redis://127.0.0.1:{proxy.port}"), timeout_secs=10)
        await pipe.open()
        proxy._left = 3
        pipe._drop()

        async def echoed() -> bytes | None:
            try:
                reply = await pipe.call("ECHO", "mine")
            except Unavailable:
                return None
            assert reply == b"mine"
            return bytes(reply)

        try:
            while proxy._left:
                await asyncio.gather(*(echoed() for _ in range(3)))
                await asyncio.sleep(0)
            assert await eventually(echoed, lambda reply: reply is not None) == b"mine"
        finally:
            await pipe.close()


@pytest.mark.parametrize("work", [look_through, heal_through])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_hangs_up_after_the_greeting_is_not_taken_for_reached(
    redis: ExternalRedis, work: object, loop: object
) -> None:
    with redis.client() as client:
        client.set(DEPLOYMENT, "thing")
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        runner.run(work(redis))  # type: ignore[operator]
