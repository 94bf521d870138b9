"""Clients that read and remember what they were shown."""

import asyncio
import base64
import time
from abc import abstractmethod

import aiohttp
from support.client import Answer, Event
from support.history import Sight
from support.model import parse_token
from support.writers import RETRY_SECS, Client

MOST_HELD = 100
READ_PAUSE_SECS = 0.3
BEGINNING = "-1"


def position_of(offset: str) -> int:
    return 0 if offset == BEGINNING else parse_token(offset)[1]


class Reader(Client):
    async def run(self) -> None:
        while True:
            await self.read()

    @abstractmethod
    async def read(self) -> None: ...

    def show(self, began: float, offset: str, end: str, data: bytes, *, is_tail: bool) -> None:
        start, stop = position_of(offset), position_of(end)
        now = time.monotonic()
        self.history.sights.append(Sight(self.name, began, now, start, stop, data, is_tail))
        self.done += 1

    def stored(self, body: bytes) -> bytes:
        if self.history.separator != b",":
            return body
        assert body[:1] + body[-1:] == b"[]", body
        return body[1:-1] + b"," * (len(body) > 2)


class Browser(Reader):
    """Reads from any offset it was ever given."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._held = [BEGINNING]

    async def read(self) -> None:
        offset, began = self.chance.choice(self._held), time.monotonic()
        answer = await self.ask(self.stream.read(offset))
        if answer is not None and answer.status != 503:
            assert answer.status == 200, (self.name, offset, answer)
            self._take(began, offset, answer)
        await asyncio.sleep(self.chance.uniform(0, READ_PAUSE_SECS))

    def _take(self, began: float, offset: str, answer: Answer) -> None:
        is_tail = answer["Stream-Up-To-Date"] is not None
        self.show(began, offset, answer.next_offset, self.stored(answer.body), is_tail=is_tail)
        if len(self._held) == MOST_HELD:
            self._held.pop(self.chance.randrange(1, MOST_HELD))
        self._held.append(answer.next_offset)


class Follower(Reader):
    """Goes on at the last offset it was told, however its request ended."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.offset = BEGINNING

    @property
    def position(self) -> int:
        return position_of(self.offset)

    def take(self, began: float, end: str, data: bytes, *, is_tail: bool) -> None:
        if data:
            self.show(began, self.offset, end, data, is_tail=is_tail)
        self.offset = end


class LongPoller(Follower):
    async def read(self) -> None:
        began = time.monotonic()
        answer = await self.ask(self.stream.long_poll(self.offset))
        if answer is None or answer.status == 503:
            await asyncio.sleep(RETRY_SECS)
            return
        assert answer.status in (200, 204), (self.name, self.offset, answer)
        data = self.stored(answer.body) if answer.status == 200 else b""
        is_tail = answer["Stream-Up-To-Date"] is not None
        self.take(began, answer.next_offset, data, is_tail=is_tail)


class Listener(Follower):
    """By server-sent events. When they were made is not known, so they prove nothing of tails."""

    async def read(self) -> None:
        try:
            await self._listen()
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            self.seen[type(error).__name__] += 1
        await asyncio.sleep(RETRY_SECS)

    async def _listen(self) -> None:
        began, waiting = time.monotonic(), b""
        async with self.stream.follow(self.offset) as events:
            status = events.response.status
            self.seen[f"SSE {status}"] += 1
            assert status in (200, 503), (self.name, events.response)
            if status == 503:
                return
            async for event in events:
                if event.kind == "data":
                    waiting += self._data(event)
                else:
                    end = event.control["streamNextOffset"]
                    self.take(began, end, waiting, is_tail=False)
                    waiting = b""

    def _data(self, event: Event) -> bytes:
        if self.history.separator == b",":
            return self.stored(event.data.encode())
        return base64.b64decode(event.data)
