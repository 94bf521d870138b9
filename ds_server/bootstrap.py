"""Bootstrap: the snapshot and everything after it, in one answer."""

from collections.abc import AsyncIterator

from aiohttp import web

from cdn import policy
from ds_server import headers, metrics
from ds_server.keys import SNAPSHOTS, STREAMS, TRANSCRIPT
from ds_server.manners import has_begun
from ds_server.multipart import Multipart, Parts
from ds_server.names import stream_name
from ds_server.read import PIECE_BYTES, write_slowly
from ds_server.streams import IN_A_BUCKET
from tiering.errors import Gone, Invalid, Unavailable
from tiering.objects.store import ObjectMissing
from tiering.offset import NOW
from tiering.stream import DEFAULT_CONTENT_TYPE, Stream

_MOST_LOOKS = 5


async def bootstrap(request: web.Request) -> web.StreamResponse:
    """What has given way to a newer snapshot before anything was sent is looked up anew."""
    if "live" in request.query:
        raise Invalid("Bootstrap is one answer; follow the stream from its Stream-Next-Offset.")
    stream = await _look(request)
    metrics.BOOTSTRAPS.inc()
    for _ in range(_MOST_LOOKS):
        try:
            return await _answer(request, stream)
        except (Gone, ObjectMissing):
            if has_begun(request):
                raise
            before, stream = stream.snapshot, await _look(request)
            if stream.snapshot == before:
                raise
    raise Unavailable("Snapshots are published too fast for a bootstrap.")


async def _look(request: web.Request) -> Stream:
    return (await request.app[STREAMS].look(stream_name(request), NOW)).stream


async def _answer(request: web.Request, stream: Stream) -> web.StreamResponse:
    """All of it is of the one moment that the headers tell of."""
    multipart = Multipart()
    response = web.StreamResponse(headers=_describe(stream, multipart))
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    pieces = _pieces(request, stream, multipart)
    beginning = await _beginning(pieces)
    await response.prepare(request)
    await write_slowly(response, beginning)
    async for piece in pieces:
        await write_slowly(response, piece)
    await response.write_eof()
    return response


async def _beginning(pieces: AsyncIterator[bytes]) -> bytes:
    """Held back until it is worth a write: what fails before it has an answer of its own."""
    held, size = [], 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            break
    return b"".join(held)


def _describe(stream: Stream, multipart: Multipart) -> dict[str, str]:
    snapshot = stream.snapshot
    answer = {
        "Content-Type": multipart.content_type,
        "Cache-Control": policy.NO_STORE,
        headers.STREAM_SNAPSHOT_OFFSET: str(stream.at(snapshot.position)) if snapshot else "-1",
        headers.STREAM_NEXT_OFFSET: str(stream.end),
        headers.STREAM_UP_TO_DATE: headers.TRUE,
    }
    if stream.closed:
        answer[headers.STREAM_CLOSED] = headers.TRUE
    return answer


async def _pieces(
    request: web.Request, stream: Stream, multipart: Multipart
) -> AsyncIterator[bytes]:
    """The body."""
    async for piece in _snapshot(request, stream, multipart):
        yield piece
    async for piece in _messages(request, stream, multipart):
        yield piece
    yield multipart.end


async def _snapshot(
    request: web.Request, stream: Stream, multipart: Multipart
) -> AsyncIterator[bytes]:
    """An empty part where there is none: the first one is always it."""
    snapshot = stream.snapshot
    if snapshot is None:
        yield multipart.first(DEFAULT_CONTENT_TYPE)
        return
    yield multipart.first(snapshot.content_type)
    async for piece in request.app[SNAPSHOTS].read(snapshot):
        yield piece


async def _messages(
    request: web.Request, stream: Stream, multipart: Multipart
) -> AsyncIterator[bytes]:
    transcript, content_type = request.app[TRANSCRIPT], stream.content_type
    head = multipart.head(content_type.text)
    async for run in transcript.runs(stream, stream.earliest, stream.tail):
        parts = Parts(head, run.start, run.ends, is_json=content_type.is_json)
        async for data in transcript.read(run):
            for block in parts.add(data):
                yield block


def add_routes(app: web.Application) -> None:
    app.router.add_get(f"{IN_A_BUCKET}/bootstrap", bootstrap)
