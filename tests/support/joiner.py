"""A reader as the protocol means it: catches up, then follows, and resumes where it was."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

import aiohttp
from support.client import Stream


@dataclass
class Joiner:
    """Keeps every message of a JSON stream that it got, in the order in which it came."""

    stream: Stream
    messages: list[int] = field(default_factory=list)
    offset: str = "-1"
    cursor: str | None = None
    connections: int = 0

    async def catch_up(self) -> None:
        is_behind = True
        while is_behind:
            answer = await self.stream.read(self.offset)
            assert answer.status == 200, answer
            self.messages += answer.json()
            self.offset = answer.next_offset
            is_behind = answer["Stream-Up-To-Date"] is None

    async def follow(self, enough: int) -> None:
        """Until that many messages are there, however often the answer ends or breaks."""
        while len(self.messages) < enough:
            self.connections += 1
            with contextlib.suppress(aiohttp.ClientPayloadError):
                await self._follow(enough)

    async def _follow(self, enough: int) -> None:
        async with self.stream.follow(self.offset, self.cursor) as events:
            if events.response.status == 503:
                await asyncio.sleep(float(events.response.headers["Retry-After"]) / 10)
                return
            assert events.response.status == 200
            data: list[int] = []
            async for event in events:
                if event.kind == "data":
                    data = json.loads(event.data)
                    continue
                # What a control event has not confirmed is read again.
                self.messages += data
                data = []
                self.offset = event.control["streamNextOffset"]
                self.cursor = event.control.get("streamCursor")
                if len(self.messages) >= enough:
                    return

    async def join(self, enough: int) -> None:
        await self.catch_up()
        await self.follow(enough)
