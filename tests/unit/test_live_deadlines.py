"""Live requests on a channel that is lost and heard again all the time: there is always something
to look up, so nobody ever waits, and no timer ends the wait."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import HttpVersion11

from ds_server.live.feed import Feed
from ds_server.live.frames import Frames
from ds_server.live.long_poll import Poll, _wait
from ds_server.live.session import Session
from ds_server.live.turns import Turns
from tiering.offset import ReadFrom
from tiering.stream import ContentType, Lifetime, Stream, View

TEXT = ContentType("text/plain")
STREAM = Stream("s", 7, (), TEXT, Lifetime(), None, False, 0, 0, 0, 0, 1024, 0)
END = View(STREAM, 0, 0)
SHORT_SECS = 0.1


class Restless:
    """The streams behind a feed, and the channel that it hears: another one with every look."""

    def __init__(self) -> None:
        self.looks = 0
        self.turns = Turns()
        self.feed = Feed(self, "s", self.turns)  # type: ignore[arg-type]
        self.feed.hear(None)

    async def look(self, name: str, source: ReadFrom) -> View:
        self.looks += 1
        self.feed.hear(None)
        await asyncio.sleep(0)
        return END

    async def read_whole(self, view: View) -> bytes:
        return b""


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        pass


@pytest.fixture
async def restless() -> Restless:
    return Restless()


def soon() -> float:
    return asyncio.get_running_loop().time() + SHORT_SECS


async def test_a_long_poll_ends_at_its_deadline(restless: Restless) -> None:
    nothing: Any = None
    poll, until = Poll(nothing, nothing, END), soon()
    async with asyncio.timeout(10):
        assert await _wait(restless.feed, poll, 0, until) is None
    assert until <= asyncio.get_running_loop().time()
    assert restless.looks > 1


def session(restless: Restless, ends_at: float | None) -> Session:
    transport = Transport()
    request: Any = SimpleNamespace(transport=transport, version=HttpVersion11, writer=transport)
    query: Any = SimpleNamespace(cursor=None)
    frames = Frames(restless, restless.turns)  # type: ignore[arg-type]
    return Session(request, query, END, frames, ends_at)


async def test_an_sse_session_ends_when_it_should(restless: Restless) -> None:
    until = soon()
    async with asyncio.timeout(10):
        await session(restless, until).run(restless.feed, 0)
    assert until <= asyncio.get_running_loop().time()
    assert restless.looks > 1


async def test_an_sse_session_without_an_end_goes_on(restless: Restless) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT_SECS):
            await session(restless, None).run(restless.feed, 0)
