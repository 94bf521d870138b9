"""Writes much to one stream, through several connections at once."""

import asyncio
import math
from collections.abc import Iterator

from loadtest.content import BODY
from loadtest.generator import Connection, Target, append_request, describe

CONNECTIONS = 8
SERVICE_UNAVAILABLE = 503


class Filling:
    """`held` are the bytes that were acknowledged; `refused` counts the answers "not now"."""

    def __init__(self, target: Target, stream: str) -> None:
        self._target = target
        self._request = append_request(target, stream, BODY)
        self.held = 0
        self.refused = 0

    async def up_to(self, size: int) -> None:
        """Whole bodies, until there is at least that much."""
        turns = iter(range(math.ceil((size - self.held) / len(BODY))))
        connections = await self._target.connect_many([Connection] * CONNECTIONS)
        await asyncio.gather(*(self._append_in(turns, one) for one in connections))
        for connection in connections:
            connection.close()

    async def _append_in(self, turns: Iterator[int], connection: Connection) -> None:
        for _ in turns:
            await self._append(connection)
            self.held += len(BODY)

    async def _append(self, connection: Connection) -> None:
        """Again and again while the server asks for patience."""
        while True:
            answer = await connection.ask(self._request)
            if answer.succeeded:
                return
            if answer.status != SERVICE_UNAVAILABLE:
                raise ConnectionError(f"refused: {describe(answer)}")
            self.refused += 1
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
