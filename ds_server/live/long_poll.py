"""Long-poll: one answer, as soon as there is one."""

import asyncio
import time

from aiohttp import web

from cdn import policy
from cdn.cursor import cursor
from cdn.etag import etag, matches
from ds_server import headers, metrics
from ds_server.keys import FEEDS, SETTINGS, STREAMS
from ds_server.live.feed import Closing, Follower, News
from ds_server.names import stream_name
from ds_server.read import ReadQuery, describe, not_modified, send
from tiering.messages import body
from tiering.stream import View


async def long_poll(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    name = stream_name(request)
    with request.app[FEEDS].follow(name) as feed:
        await feed.heard()
        times_heard = feed.times_heard
        view = await request.app[STREAMS].look(name, query.source)
        if view.at_closed_end and view.is_empty:
            return _nothing(view, query)
        if not view.is_empty:
            return await _something(request, query, News(view))
        news = await _wait(request, Follower(feed, view, times_heard))
    if news is None or news.view.is_empty:
        return _nothing(news.view if news else view, query)
    return await _something(request, query, news)


async def _wait(request: web.Request, follower: Follower) -> News | None:
    try:
        with metrics.LONG_POLL_FOLLOWERS.track_inprogress():
            timeout_secs = request.app[SETTINGS].server.long_poll_timeout_secs
            return await follower.news(asyncio.get_running_loop().time() + timeout_secs)
    except Closing:
        return None


def _nothing(view: View, query: ReadQuery) -> web.Response:
    metrics.LONG_POLL_EMPTY.inc()
    answer = describe(view, policy.NO_STORE)
    del answer["Content-Type"]
    return web.Response(status=204, headers=_with_cursor(answer, view, query))


async def _something(request: web.Request, query: ReadQuery, news: News) -> web.StreamResponse:
    view = news.view
    answer = describe(view, policy.long_poll(view, query.source))
    answer["ETag"] = etag(view)
    _with_cursor(answer, view, query)
    if matches(request.headers.get("If-None-Match"), answer["ETag"]):
        return not_modified(answer)
    metrics.LONG_POLL.inc()
    if news.heard_at is not None:
        metrics.TALLY.delivered(time.perf_counter() - news.heard_at)
    if news.stored is not None:
        return web.Response(body=body(view.stream.content_type, news.stored), headers=answer)
    return await send(request, view, answer)


def _with_cursor(answer: dict[str, str], view: View, query: ReadQuery) -> dict[str, str]:
    if not view.at_closed_end:
        answer[headers.STREAM_CURSOR] = str(cursor(time.time(), view.stream.name, query.cursor))
    return answer
