"""Request bodies, read whole or refused early."""

import asyncio
from http import HTTPStatus

from aiohttp import HttpVersion11, web

from ds_server.keys import SETTINGS
from tiering.errors import TooLarge


async def read_body(request: web.Request) -> bytes:
    limits = request.app[SETTINGS].limits
    if (request.content_length or 0) > limits.max_body_bytes:
        raise _too_large(limits.max_body_bytes)
    # Stored as it came: a reader could not be told how to decode it.
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType
    await _ask_for_it(request)
    if request.content.is_eof():
        return _within(limits.max_body_bytes, request.content.read_nowait())
    try:
        async with asyncio.timeout(limits.body_timeout_secs):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=HTTPStatus.REQUEST_TIMEOUT.phrase) from error


async def expect(request: web.Request) -> None:
    """Not yet told to continue: what can be refused by its head is refused before its body."""
    if request.headers["Expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed


async def _ask_for_it(request: web.Request) -> None:
    if "Expect" in request.headers and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def _within(limit: int, body: bytes) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"A body may have at most {limit} bytes.")
