"""SSE: pieces of the stream as they come, until the planned end."""

import asyncio
import time

from aiohttp import HttpVersion11, web

from cdn import policy
from cdn.cursor import cursor
from ds_server import headers, metrics
from ds_server.keys import FEEDS, SETTINGS, STREAMS
from ds_server.live.feed import Closing, Follower, News
from ds_server.live.frames import Frame, Frames
from ds_server.names import stream_name
from ds_server.read import ReadQuery, write_slowly
from tiering.stream import View

_MOST_BYTES = 8 * 1024 * 1024
_SMALL_BYTES = 64 * 1024


async def sse(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    name = stream_name(request)
    with request.app[FEEDS].follow(name) as feed:
        await feed.heard()
        times_heard = feed.times_heard
        view = await request.app[STREAMS].look(name, query.source)
        response = web.StreamResponse(headers=_headers(view))
        await response.prepare(request)
        follower = Follower(feed, view, times_heard)
        session = _Session(request, response, query, feed.frames)
        metrics.SSE.inc()
        try:
            with metrics.SSE_FOLLOWERS.track_inprogress():
                await session.run(News(view), follower)
        except Closing:
            _break_off(request)
            return response
    await response.write_eof()
    return response


def _headers(view: View) -> dict[str, str]:
    answer = {"Content-Type": "text/event-stream", "Cache-Control": policy.SSE}
    if not view.stream.content_type.is_text:
        answer[headers.STREAM_SSE_DATA_ENCODING] = "base64"
    return answer


def _break_off(request: web.Request) -> None:
    """Ends the body without its end, so that no cache takes it for whole."""
    transport = request.transport
    if transport is None:
        return
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()


class _Session:
    def __init__(
        self,
        request: web.Request,
        response: web.StreamResponse,
        query: ReadQuery,
        frames: Frames,
    ) -> None:
        self._request = request
        self._response = response
        self._query = query
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        life_secs = request.app[SETTINGS].server.sse_reconnect_interval_secs
        self._ends_at = self._loop.time() + life_secs if life_secs else None
        self._sent = 0
        self._held = b""

    async def run(self, news: News, follower: Follower) -> None:
        await self._send(news)
        while not news.view.at_closed_end and self._sent < _MOST_BYTES:
            following = await follower.news(self._ends_at)
            if following is None:
                return
            news = following
            await self._send(news)

    async def _send(self, news: News) -> None:
        now = cursor(time.time(), news.view.stream.name, self._query.cursor)
        frame = await self._frames.frame(news.view, news.stored, self._held, now)
        self._held = frame.held
        self._sent += len(frame.wire)
        await self._write(frame)
        if news.heard_at is not None:
            metrics.TALLY.delivered(time.perf_counter() - news.heard_at)

    async def _write(self, frame: Frame) -> None:
        """The same bytes for every follower; one who is slow waits for himself."""
        transport = self._request.transport
        is_chunked = self._request.version >= HttpVersion11
        if len(frame.chunked) > _SMALL_BYTES or transport is None or not is_chunked:
            await write_slowly(self._response, frame.wire)
            return
        transport.write(frame.chunked)
        if transport.get_write_buffer_size() > _SMALL_BYTES:
            await self._request.writer.drain()
