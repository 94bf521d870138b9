"""Nothing is sealed that a crash of Redis could still take back."""

import asyncio

from tiering.errors import Mistake, Unavailable
from tiering.hot.keys import FENCE
from tiering.hot.pipe import Pipe

_AGE_SECS = 2.0
_LONGEST_WAIT_MS = 2_000


class Fence:
    """Waits until all that Redis has told so far is on its disk."""

    def __init__(self, pipe: Pipe, *, is_durable: bool) -> None:
        self._pipe = pipe
        self._is_durable = is_durable
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        """One wait serves all who came before it began."""
        if self._is_durable:
            return
        if self._next is None:
            self._next = asyncio.create_task(self._take_turn())
        await asyncio.shield(self._next)

    async def _take_turn(self) -> None:
        async with self._turn:
            self._next = None
            await self._wait()

    async def _wait(self) -> None:
        """The append-only file is written in order: what precedes the mark is there with it."""
        await self._pipe.call("SET", FENCE, "1")
        try:
            reply = await self._pipe.call("WAITAOF", 1, 0, _LONGEST_WAIT_MS)
        except Mistake:
            # An older Redis, or one without such a file: age is all there is to go by.
            await asyncio.sleep(_AGE_SECS)
            return
        if reply[0] < 1:
            raise Unavailable("Redis has not written to its disk in time.")
