"""SSE: pieces of the stream as they come, until the planned end."""

import asyncio

from aiohttp import web

from cdn import policy
from cdn.tags import tags
from ds_server import headers, metrics
from ds_server.handoff import is_trusted
from ds_server.keys import FEEDS, FRAMES, SETTINGS
from ds_server.live.session import Closing, Session, break_off
from ds_server.names import stream_name
from ds_server.read import ReadQuery
from tiering.stream import View


async def sse(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    with request.app[FEEDS].follow(stream_name(request)) as feed:
        view, hearing = await feed.arrive(query.source)
        response = web.StreamResponse(headers=_headers(request, query, view))
        await response.prepare(request)
        session = Session(request, query, view, request.app[FRAMES], _planned_end(request))
        metrics.SSE.inc()
        try:
            with metrics.SSE_FOLLOWERS.track_inprogress():
                await session.run(feed, hearing)
        except Closing:
            break_off(request)
            return response
        except asyncio.CancelledError:
            # What lies in its buffer would keep the connection of one who is stuck open.
            break_off(request)
            raise
    await response.write_eof()
    return response


def _headers(request: web.Request, query: ReadQuery, view: View) -> dict[str, str]:
    answer = {
        "Content-Type": "text/event-stream",
        "Cache-Control": policy.cache_control(policy.Read(view, query.source, "sse")),
        **tags(view.stream.name),
    }
    if is_trusted(request):
        planned_secs = request.app[SETTINGS].server.sse_reconnect_interval_secs
        answer[headers.EDGE_SECONDS] = str(policy.shared_sse_secs(planned_secs))
    if not view.stream.content_type.is_text:
        answer[headers.STREAM_SSE_DATA_ENCODING] = "base64"
    return answer


def _planned_end(request: web.Request) -> float | None:
    life_secs = request.app[SETTINGS].server.sse_reconnect_interval_secs
    return asyncio.get_running_loop().time() + life_secs if life_secs else None
