"""Long-poll: one answer, as soon as there is one."""

import asyncio
import time

from aiohttp import web

from cdn.etag import matches
from ds_server import metrics
from ds_server.keys import FEEDS, SETTINGS
from ds_server.live.feed import Feed
from ds_server.live.member import Member
from ds_server.live.news import News
from ds_server.live.ready import cache_control, description, with_cursor, write_ready
from ds_server.names import stream_name
from ds_server.read import ReadQuery, describe, not_modified, send
from tiering.messages import body
from tiering.stream import View


class Poll(Member):
    """Waits for one piece. Where it can, it answers before its own task goes on."""

    def __init__(self, request: web.Request, query: ReadQuery, view: View) -> None:
        super().__init__(view)
        self._request = request
        self._query = query
        self.news: News | None = None
        self.answer: web.StreamResponse | None = None

    def take(self, news: News) -> bool:
        self.news = news
        self.answer = write_ready(self._request, self._query, news)
        if self.answer is not None:
            _count(news)
        return False


async def long_poll(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    with request.app[FEEDS].follow(stream_name(request)) as feed:
        view, hearing = await feed.arrive(query.source)
        if view.at_closed_end and view.is_empty:
            return _nothing(view, query)
        if not view.is_empty:
            return await _something(request, query, News(view))
        poll = Poll(request, query, view)
        with metrics.LONG_POLL_FOLLOWERS.track_inprogress():
            news = await _wait(feed, poll, hearing, _deadline(request))
    if poll.answer is not None:
        return poll.answer
    if news is None or news.view.is_empty:
        return _nothing(news.view if news else poll.view, query)
    return await _something(request, query, news)


async def _wait(feed: Feed, poll: Poll, hearing: int, until: float) -> News | None:
    while True:
        await feed.gather(poll, hearing, until)
        is_over = poll.is_late or asyncio.get_running_loop().time() >= until
        if poll.news is not None or feed.closing or is_over:
            return poll.news
        hearing = feed.hearing
        poll.view = await feed.look(poll.view.stream.at(poll.view.end))
        if not poll.view.is_empty or poll.view.at_closed_end:
            return News(poll.view)


def _deadline(request: web.Request) -> float:
    timeout_secs = request.app[SETTINGS].server.long_poll_timeout_secs
    return asyncio.get_running_loop().time() + timeout_secs


def _nothing(view: View, query: ReadQuery) -> web.Response:
    metrics.LONG_POLL_EMPTY.inc()
    answer = describe(view, cache_control(view, query))
    del answer["Content-Type"]
    return web.Response(status=204, headers=with_cursor(answer, view, query))


async def _something(request: web.Request, query: ReadQuery, news: News) -> web.StreamResponse:
    view = news.view
    answer = description(view, query)
    if matches(request.headers.get("If-None-Match"), answer["ETag"]):
        return not_modified(answer)
    _count(news)
    if news.stored is not None:
        return web.Response(body=body(view.stream.content_type, news.stored), headers=answer)
    return await send(request, view, answer)


def _count(news: News) -> None:
    metrics.LONG_POLL.inc()
    if news.heard_at is not None:
        metrics.TALLY.delivered(time.perf_counter() - news.heard_at)
