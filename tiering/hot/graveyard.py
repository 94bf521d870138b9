"""What the hot tier positively records as dead: logs whose objects nobody needs any more."""

from collections.abc import AsyncIterator

from tiering.hot.agenda import Agenda
from tiering.hot.keys import (
    ANY_DEAD,
    ANY_HORIZON,
    ANY_SHED,
    GRAVES,
    JANITOR,
    stream_keys,
    stream_name,
)
from tiering.hot.pipe import Pipe


class Graveyard(Agenda):
    """The record stands beside the stream's keys; `GRAVES` only says where to look, and when."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe, GRAVES, JANITOR)

    async def dead(self, name: str) -> dict[int, int]:
        """Log and time of death (ms) of what is left of the streams of that name."""
        flat = await self._pipe.call("ZRANGE", stream_keys(name).dead, 0, -1, "WITHSCORES")
        return {int(log): int(died) for log, died in zip(flat[::2], flat[1::2], strict=True)}

    async def declare(self, name: str, log: int, died_ms: int) -> None:
        """For logs that never were the hot tier's, or are not any more."""
        await self._pipe.call("ZADD", stream_keys(name).dead, "NX", died_ms, log)
        await self.remember(name, 0)

    async def forget(self, name: str, log: int) -> None:
        await self._pipe.call("ZREM", stream_keys(name).dead, log)

    async def names(self) -> AsyncIterator[str]:
        """Every stream that has something to be removed, at least once."""
        for pattern in (ANY_DEAD, ANY_SHED, ANY_HORIZON):
            async for key in self._pipe.scan(pattern):
                yield stream_name(key)
