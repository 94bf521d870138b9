"""A hot tier in this process, on a Redis of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support.client import JSON, unique_name

from tiering.hot.connection import Address
from tiering.hot.keys import stream_keys
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.terms import Append
from tiering.hot.tier import HotTier
from tiering.messages import NOTHING, encode
from tiering.stream import Configuration, ContentType, Lifetime

FOREVER = Lifetime()
PLENTY = 1 << 40


@dataclass
class Hot:
    tier: HotTier
    pipe: Pipe

    async def stream(self, content_type: str = JSON, lifetime: Lifetime = FOREVER) -> str:
        name = unique_name()
        wanted = Configuration(ContentType(content_type), lifetime, closed=False)
        await self.tier.create(name, wanted, NOTHING, await self.tier.mint())
        return name

    async def content(self, name: str) -> dict[str, Any]:
        """All that Redis holds of a stream, but for its log and for times."""
        keys = stream_keys(name)
        flat = await self.pipe.call("HGETALL", keys.meta)
        meta = dict(zip(flat[::2], flat[1::2], strict=True))
        log = int(meta.pop(b"log"))
        for time in (b"created", b"written", b"deadline"):
            meta.pop(time)
        records = await self.pipe.call("XRANGE", keys.records, "-", "+")
        return {
            "meta": meta,
            "records": [(entry, fields[2:]) for entry, fields in records],
            "cuts": await self.pipe.call("ZRANGE", keys.cuts, 0, -1),
            "block": await self.pipe.call("GET", keys.block(log, 0)),
        }


def plain(body: bytes, content_type: str = JSON, **rest: Any) -> Append:
    kind = ContentType(content_type)
    return Append(encode(kind, body), kind.media, **rest)


@asynccontextmanager
async def hot(url: str, *, grid: int = 4 << 20, most: int = 0) -> AsyncIterator[Hot]:
    pipe = Pipe(Address.parse(url), timeout_secs=30)
    await pipe.open()
    try:
        logs = Logs(pipe, is_durable=True)
        pressure = Pressure(pipe, PLENTY)
        tier = HotTier(pipe, pipe, pressure, logs, grid=grid, max_stream_bytes=most)
        yield Hot(tier, pipe)
    finally:
        await pipe.close()
