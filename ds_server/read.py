"""GET: read from an offset; with `live`, follow the stream."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from aiohttp import web
from multidict import MultiMapping

from cdn import policy
from cdn.etag import etag, matches
from cdn.tags import tags
from ds_server import headers, metrics
from ds_server.handoff import hand_off
from ds_server.keys import SETTINGS, STREAMS
from ds_server.names import stream_name
from tiering.errors import Invalid
from tiering.messages import body, body_length
from tiering.offset import NOW, START, ReadFrom, parse_read_from
from tiering.stream import View
from tiering.streams import Streams

_SMALL_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024

Live = Literal["long-poll", "sse"]


@dataclass(frozen=True, slots=True)
class ReadQuery:
    source: ReadFrom
    live: Live | None
    cursor: str | None

    @classmethod
    def parse(cls, query: MultiMapping[str]) -> "ReadQuery":
        live = _live(single(query, "live"))
        offset = single(query, "offset")
        if offset is None and live is not None:
            raise Invalid("A live read needs an offset.")
        return cls(_source(offset), live, single(query, "cursor"))


def single(query: MultiMapping[str], name: str) -> str | None:
    values = query.getall(name, [])
    if len(values) > 1:
        raise Invalid(f"The query parameter {name} is given more than once.")
    return values[0] if values else None


def _live(text: str | None) -> Live | None:
    match text:
        case None | "long-poll" | "sse":
            return text
        case _:
            raise Invalid("live is long-poll or sse.")


def _source(text: str | None) -> ReadFrom:
    if text is None:
        return START
    source = parse_read_from(text)
    if source is None:
        raise Invalid("The offset is malformed.")
    return source


async def catch_up(request: web.Request, query: ReadQuery) -> web.StreamResponse:
    view = await request.app[STREAMS].look(stream_name(request), query.source)
    tail_secs = request.app[SETTINGS].http.tail_cache_secs
    answer = describe(view, policy.cache_control(policy.Read(view, query.source, None, tail_secs)))
    if query.source is not NOW:
        answer["ETag"] = etag(view)
        if matches(request.headers.get("If-None-Match"), answer["ETag"]):
            return not_modified(answer)
    handed_off = await hand_off(request, view, answer)
    if handed_off is not None:
        metrics.HANDED_OFF.inc()
        return handed_off
    (metrics.TAIL if view.at_tail and not view.at_closed_end else metrics.CHUNK).inc()
    return await send(request, view, answer)


def describe(view: View, cache_control: str) -> dict[str, str]:
    """The headers that say what piece of which stream this is."""
    answer = {
        "Content-Type": view.stream.content_type.text,
        "Cache-Control": cache_control,
        headers.STREAM_NEXT_OFFSET: str(view.stream.at(view.end)),
        **tags(view.stream.name),
    }
    if view.at_tail:
        answer[headers.STREAM_UP_TO_DATE] = headers.TRUE
    if view.at_closed_end:
        answer[headers.STREAM_CLOSED] = headers.TRUE
    return answer


def not_modified(answer: dict[str, str]) -> web.Response:
    metrics.NOT_MODIFIED.inc()
    del answer["Content-Type"]
    return web.Response(status=304, headers=answer)


async def send(request: web.Request, view: View, answer: dict[str, str]) -> web.StreamResponse:
    """Headers and body of one view. Memory per reader is bounded whatever its length."""
    streams = request.app[STREAMS]
    if view.end - view.start <= _SMALL_BYTES:
        stored = await streams.read_whole(view)
        return web.Response(body=body(view.stream.content_type, stored), headers=answer)
    pieces = body_pieces(streams, view)
    first = await anext(pieces)
    response = web.StreamResponse(headers=answer)
    response.content_length = body_length(view.stream.content_type, view.end - view.start)
    await response.prepare(request)
    await write_slowly(response, first)
    async for piece in pieces:
        await write_slowly(response, piece)
    await response.write_eof()
    return response


async def write_slowly(response: web.StreamResponse, data: bytes) -> None:
    """Lets the client's pace decide how much of it sits in a buffer."""
    if len(data) <= PIECE_BYTES:
        await response.write(data)
        return
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        await response.write(view[start : start + PIECE_BYTES])


async def body_pieces(streams: Streams, view: View) -> AsyncIterator[bytes]:
    """The response body: for JSON the separator after the last message gives way to `]`."""
    if not view.stream.content_type.is_json:
        async for piece in streams.read(view):
            yield piece
        return
    left = view.end - view.start
    yield b"["
    async for piece in streams.read(view):
        left -= len(piece)
        yield piece if left else piece[:-1] + b"]"
