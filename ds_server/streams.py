"""The routes of a stream."""

from aiohttp import web

from cdn import policy
from ds_server import headers, metrics
from ds_server.append import append
from ds_server.body import expect
from ds_server.create import create
from ds_server.keys import RECALLS, STREAMS
from ds_server.live.long_poll import long_poll
from ds_server.live.sse import sse
from ds_server.manners import has_begun
from ds_server.names import BUCKETS_ROOT, ROOT, stream_name
from ds_server.read import ReadQuery, catch_up
from tiering.errors import Unavailable
from tiering.hot.tail import Dropped
from tiering.offset import NOW
from tiering.stream import Stream

IN_A_BUCKET = f"{BUCKETS_ROOT}{{bucket:[^/]*}}/{{stream:[^/]*}}"

_MOST_LOOKS = 5


async def read(request: web.Request) -> web.StreamResponse:
    """Bytes that have moved since they were looked up are looked up again."""
    query = ReadQuery.parse(request.query)
    for _ in range(_MOST_LOOKS):
        try:
            return await _read(request, query)
        except Dropped:
            if has_begun(request):
                raise
    raise Unavailable("The stream changes too fast to be read.")


async def _read(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    match query.live:
        case "long-poll":
            return await long_poll(request, query)
        case "sse":
            return await sse(request, query)
        case None:
            return await catch_up(request, query)


async def head(request: web.Request) -> web.Response:
    view = await request.app[STREAMS].look(stream_name(request), NOW, renew=False)
    metrics.HEAD.inc()
    return web.Response(headers=_metadata(view.stream))


def _metadata(stream: Stream) -> dict[str, str]:
    answer = {
        "Content-Type": stream.content_type.text,
        "Cache-Control": policy.NO_STORE,
        headers.STREAM_NEXT_OFFSET: str(stream.end),
    }
    if stream.closed:
        answer[headers.STREAM_CLOSED] = headers.TRUE
    if stream.snapshot is not None:
        answer[headers.STREAM_SNAPSHOT_OFFSET] = str(stream.at(stream.snapshot.position))
    if stream.lifetime.ttl_secs is not None:
        answer[headers.STREAM_TTL] = str(stream.lifetime.ttl_secs)
    if stream.lifetime.expires_text:
        answer[headers.STREAM_EXPIRES_AT] = stream.lifetime.expires_text
    return answer


async def delete(request: web.Request) -> web.Response:
    name = stream_name(request)
    await request.app[STREAMS].delete(name)
    await request.app[RECALLS].soon(name)
    return web.Response(status=204, headers={"Cache-Control": policy.NO_STORE})


def add_routes(app: web.Application) -> None:
    """One set of handlers for both surfaces."""
    for path in (f"{ROOT}{{name:(?s:.*)}}", IN_A_BUCKET):
        app.router.add_route("PUT", path, create, expect_handler=expect)
        app.router.add_route("POST", path, append, expect_handler=expect)
        app.router.add_get(path, read, allow_head=False)
        app.router.add_head(path, head)
        app.router.add_delete(path, delete)
