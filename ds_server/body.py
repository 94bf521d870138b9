"""Request bodies, read whole or refused early."""

import asyncio
from http import HTTPStatus

from aiohttp import web

from ds_server.keys import SETTINGS
from tiering.errors import TooLarge


async def read_body(request: web.Request) -> bytes:
    limits = request.app[SETTINGS].limits
    if request.content_length is not None and request.content_length > limits.max_body_bytes:
        raise TooLarge(f"A body may have at most {limits.max_body_bytes} bytes.")
    if request.content.is_eof():
        return await request.read()
    try:
        async with asyncio.timeout(limits.body_timeout_secs):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=HTTPStatus.REQUEST_TIMEOUT.phrase) from error
