"""One follower by server-sent events."""

import asyncio
import socket
import time

from aiohttp import HttpVersion11, web

from cdn.cursor import cursor
from ds_server import metrics
from ds_server.live.feed import Feed
from ds_server.live.frames import LONGEST_BYTES, Frames, chunk
from ds_server.live.member import Member
from ds_server.live.news import News
from ds_server.live.pouring import Pouring
from ds_server.read import ReadQuery
from tiering.stream import View

MOST_BYTES = 8 * 1024 * 1024
# What may lie in our memory for one follower; aiohttp's transports pause at the same mark.
BUDGET_BYTES = 64 * 1024
_STALLED_SECS = 60.0


class Closing(Exception):
    """The worker is shutting down, or the follower has stopped reading."""


class Session(Member):
    """At the end of the stream it takes what the feed brings. A follower who does not keep up
    is served from storage, at his own pace, and then joins the others again."""

    def __init__(
        self,
        request: web.Request,
        query: ReadQuery,
        view: View,
        frames: Frames,
        ends_at: float | None,
    ) -> None:
        super().__init__(view)
        assert request.transport is not None
        self._request = request
        self._transport = request.transport
        self._theirs = query.cursor
        self._frames = frames
        self._ends_at = ends_at
        self._is_chunked = request.version >= HttpVersion11
        self._sent = 0
        self._held = b""
        _bound_kernel_memory(self._transport)

    async def run(self, feed: Feed, hearing: int) -> None:
        await self._send()
        while not self._has_all:
            await feed.gather(self, hearing, self._ends_at)
            if feed.closing:
                raise Closing
            if self._is_over or self._has_all:
                return
            await self._keep_pace()
            hearing = feed.hearing
            await self._catch_up(feed)

    @property
    def _is_over(self) -> bool:
        """Also when there was always something to look up, and never a wait to end."""
        if self._ends_at is None:
            return self.is_late
        return self.is_late or asyncio.get_running_loop().time() >= self._ends_at

    @property
    def _has_all(self) -> bool:
        return self.view.at_closed_end or self._sent >= MOST_BYTES

    def take(self, news: News) -> bool:
        transport = self._transport
        if transport.is_closing() or transport.get_write_buffer_size() > BUDGET_BYTES:
            return False
        frame = news.frame(self._held, self._theirs)
        transport.write(frame.chunk if self._is_chunked else frame.events)
        self._held = frame.held
        self._sent += len(frame.chunk)
        self.view = news.view
        if news.heard_at is not None:
            metrics.TALLY.delivered(time.perf_counter() - news.heard_at)
        return not self._has_all

    async def _catch_up(self, feed: Feed) -> None:
        seen = await feed.look(self.view.stream.at(self.view.end))
        is_news = not seen.is_empty or seen.at_closed_end
        self.view = seen
        if is_news:
            await self._send()

    async def _send(self) -> None:
        """The view, read from storage. Nothing is said of a place that is not the end."""
        view = self.view
        if view.is_empty and not view.at_tail:
            return
        if view.end - view.start > LONGEST_BYTES:
            await self._pour(view)
        else:
            await self._send_frame(view)

    async def _send_frame(self, view: View) -> None:
        frame = await self._frames.frame(view, self._held, self._cursor_for(view))
        self._held = frame.held
        await self._write(frame.chunk if self._is_chunked else frame.events)

    async def _pour(self, view: View) -> None:
        pouring = Pouring(self._frames.streams, view, self._held, self._cursor_for(view))
        async for events in pouring.events():
            if events:
                await self._write(chunk(events) if self._is_chunked else events)
        self._held = pouring.held

    def _cursor_for(self, view: View) -> int:
        return cursor(time.time(), view.stream.name, self._theirs)

    async def _write(self, data: bytes) -> None:
        self._sent += len(data)
        pieces = memoryview(data)
        for start in range(0, len(data), BUDGET_BYTES):
            self._transport.write(pieces[start : start + BUDGET_BYTES])
            await self._keep_pace()

    async def _keep_pace(self) -> None:
        """Who takes nothing for long is sent away, and may come back."""
        if self._transport.is_closing():
            raise ConnectionResetError("the follower has left")
        try:
            async with asyncio.timeout(_STALLED_SECS):
                await self._request.writer.drain()
        except TimeoutError:
            raise Closing from None


def _bound_kernel_memory(transport: asyncio.Transport) -> None:
    """Otherwise the kernel keeps megabytes for each follower who has stopped reading."""
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, BUDGET_BYTES)


def break_off(request: web.Request) -> None:
    """Ends the body without its end, so that no cache takes it for whole."""
    transport = request.transport
    if transport is None:
        return
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()
