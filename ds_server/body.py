"""Request bodies, read whole or refused early."""

import asyncio
from http import HTTPStatus

from aiohttp import HttpVersion11, StreamReader, web

from ds_server.keys import SETTINGS
from tiering.errors import TooLarge


async def read_body(request: web.Request) -> bytes:
    limits = request.app[SETTINGS].limits
    if (request.content_length or 0) > limits.max_body_bytes:
        raise _too_large(limits.max_body_bytes)
    refuse_encoded(request)
    await ask_for_it(request)
    if request.content.is_eof():
        return _within(limits.max_body_bytes, request.content.read_nowait())
    try:
        async with asyncio.timeout(limits.body_timeout_secs):
            return await _joined(request.content, limits.max_body_bytes)
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=HTTPStatus.REQUEST_TIMEOUT.phrase) from error


async def expect(request: web.Request) -> None:
    """Not yet told to continue: what can be refused by its head is refused before its body."""
    if request.headers["Expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed


def refuse_encoded(request: web.Request) -> None:
    """Stored as it came: a reader could not be told how to decode it."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType


async def ask_for_it(request: web.Request) -> None:
    if "Expect" in request.headers and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


async def _joined(content: StreamReader, limit: int) -> bytes:
    """The framework's own way to read a body copies it twice more."""
    content.set_read_chunk_size(limit)
    pieces, size = [], 0
    while piece := await content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
    return b"".join(pieces)


def _within(limit: int, body: bytes) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"A body may have at most {limit} bytes.")
