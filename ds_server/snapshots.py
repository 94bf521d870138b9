"""Snapshots: published, found, read."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from aiohttp import web

from cdn import policy
from cdn.etag import matches, snapshot_etag
from cdn.tags import tags
from ds_server import headers, metrics, problem, ranges
from ds_server.body import ask_for_it, expect, refuse_encoded
from ds_server.create import parse_content_type
from ds_server.keys import RECALLS, SETTINGS, SNAPSHOTS
from ds_server.names import stream_name, stream_path
from ds_server.read import not_modified, write_slowly
from ds_server.streams import IN_A_BUCKET
from tiering.errors import Conflict, Invalid, TooLarge
from tiering.offset import Offset, parse_read_from
from tiering.snapshot import Snapshot
from tiering.stream import DEFAULT_CONTENT_TYPE, Stream


async def publish(request: web.Request) -> web.Response:
    name, offset = stream_name(request), _offset(request)
    if offset is None:
        raise Invalid("A snapshot's offset is a Stream-Next-Offset of its stream.")
    text = headers.single(request.headers, headers.CONTENT_TYPE) or DEFAULT_CONTENT_TYPE
    parse_content_type(text)
    refuse_encoded(request)
    limit = request.app[SETTINGS].limits.max_snapshot_bytes
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    snapshots = request.app[SNAPSHOTS]
    view = await snapshots.place(name, offset)
    await ask_for_it(request)
    await snapshots.publish(view, text, _pieces(request, limit))
    metrics.SNAPSHOTS_PUBLISHED.inc()
    await request.app[RECALLS].soon(name)
    return web.Response(status=204, headers={"Cache-Control": policy.NO_STORE})


async def _pieces(request: web.Request, limit: int) -> AsyncIterator[bytes]:
    """Each must come in time; the whole may take as long as it takes."""
    silence_secs, size = request.app[SETTINGS].limits.body_timeout_secs, 0
    while True:
        try:
            async with asyncio.timeout(silence_secs):
                piece = await request.content.readany()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(reason=HTTPStatus.REQUEST_TIMEOUT.phrase) from error
        if not piece:
            return
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        yield piece


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"A snapshot may have at most {limit} bytes.")


async def latest(request: web.Request) -> web.Response:
    stream, snapshot = await request.app[SNAPSHOTS].latest(stream_name(request))
    place = f"{stream_path(request)}/snapshot/{stream.at(snapshot.position)}"
    answer = {"Location": place, "Cache-Control": policy.NO_STORE}
    return web.Response(status=307, headers=answer | _offset_of(stream, snapshot))


async def read(request: web.Request) -> web.StreamResponse:
    stream, snapshot = await request.app[SNAPSHOTS].at(stream_name(request), _offset(request))
    answer = _describe(stream, snapshot)
    if matches(request.headers.get("If-None-Match"), answer["ETag"]):
        return not_modified(answer)
    try:
        span = _wanted(request, snapshot, answer["ETag"])
    except ranges.Unsatisfiable:
        size = {"Content-Range": f"bytes */{snapshot.size}"}
        detail = f"The snapshot has {snapshot.size} bytes."
        return problem.problem(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, detail, size)
    metrics.SNAPSHOTS_READ.inc()
    return await _send(request, snapshot, span, answer)


def _wanted(request: web.Request, snapshot: Snapshot, etag: str) -> tuple[int, int] | None:
    """Only GET has ranges (RFC 9110, section 14.2)."""
    if request.method != "GET":
        return None
    return ranges.wanted(request.headers, snapshot.size, etag)


async def _send(
    request: web.Request, snapshot: Snapshot, span: tuple[int, int] | None, answer: dict[str, str]
) -> web.StreamResponse:
    start, end = span or (0, snapshot.size)
    status = 200 if span is None else 206
    if span is not None:
        answer["Content-Range"] = f"bytes {start}-{end - 1}/{snapshot.size}"
    response = web.StreamResponse(status=status, headers=answer)
    response.content_length = end - start
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    pieces = request.app[SNAPSHOTS].read(snapshot, start, end)
    first = await anext(pieces, b"")
    await response.prepare(request)
    await write_slowly(response, first)
    async for piece in pieces:
        await write_slowly(response, piece)
    await response.write_eof()
    return response


def _describe(stream: Stream, snapshot: Snapshot) -> dict[str, str]:
    answer = {
        "Content-Type": snapshot.content_type,
        "Cache-Control": policy.snapshot(stream),
        "ETag": snapshot_etag(stream, snapshot),
        "Accept-Ranges": "bytes",
        headers.STREAM_NEXT_OFFSET: str(stream.at(snapshot.position)),
        **_offset_of(stream, snapshot),
        **tags(stream.name),
    }
    if stream.tail == snapshot.position:
        answer[headers.STREAM_UP_TO_DATE] = headers.TRUE
        if stream.closed:
            answer[headers.STREAM_CLOSED] = headers.TRUE
    return answer


def _offset_of(stream: Stream, snapshot: Snapshot) -> dict[str, str]:
    return {headers.STREAM_SNAPSHOT_OFFSET: str(stream.at(snapshot.position))}


async def delete(request: web.Request) -> web.Response:
    """The one there is cannot go, and there is no other."""
    await request.app[SNAPSHOTS].at(stream_name(request), _offset(request))
    raise Conflict("The latest snapshot cannot be deleted: bootstrap would be incomplete.")


def _offset(request: web.Request) -> Offset | None:
    place = parse_read_from(request.match_info["offset"])
    return place if isinstance(place, Offset) else None


def add_routes(app: web.Application) -> None:
    folder = f"{IN_A_BUCKET}/snapshot"
    app.router.add_get(folder, latest)
    path = f"{folder}/{{offset}}"
    app.router.add_route("PUT", path, publish, expect_handler=expect)
    app.router.add_get(path, read)
    app.router.add_delete(path, delete)
