"""Writing for as long as a reader has trouble."""

import asyncio
from typing import Any

from clients.cutting_proxy import CuttingProxy
from clients.kinds import Kind
from support.client import Stream


async def write_until_all_is_cut(stream: Stream, kind: Kind, proxy: CuttingProxy) -> list[Any]:
    """The messages that a reader behind the proxy must have got."""
    written = []
    async with asyncio.timeout(45):
        while not proxy.is_done:
            message = kind.message(len(written))
            await stream.append(kind.body(message))
            written.append(message)
    return written
