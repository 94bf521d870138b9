"""Request bodies, read whole or refused early."""

import asyncio
from http import HTTPStatus

from aiohttp import web

from ds_server.keys import SETTINGS
from tiering.errors import TooLarge


async def read_body(request: web.Request) -> bytes:
    limits = request.app[SETTINGS].limits
    if (request.content_length or 0) > limits.max_body_bytes:
        raise _too_large(limits.max_body_bytes)
    if request.content.is_eof():
        return _within(limits.max_body_bytes, request.content.read_nowait())
    try:
        async with asyncio.timeout(limits.body_timeout_secs):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=HTTPStatus.REQUEST_TIMEOUT.phrase) from error


def _within(limit: int, body: bytes) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"A body may have at most {limit} bytes.")
