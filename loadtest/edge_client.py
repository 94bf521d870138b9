"""A reader through an edge: any number of requests, bodies of any length, one numbered message
after the other."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import cast

from loadtest import wire
from loadtest.bodies import Body, announced_by
from loadtest.follower import MESSAGE
from loadtest.generator import SHOWN_CHARACTERS, Target

OFFSET = re.compile(rb'"streamNextOffset":"([^"]+)"')
CURSOR = re.compile(rb'"streamCursor":"([^"]+)"')
KEPT_BYTES = 512
NO_CONTENT = 204

Answer = tuple[int, Mapping[str, str]]


class Client(asyncio.Protocol):
    """One connection. What comes in a body is handed on and not kept."""

    def __init__(self, take: Callable[[memoryview], None]) -> None:
        self._take = take
        self._head = b""
        self._body: Body | None = None
        self._ended: asyncio.Future[Answer] | None = None
        self.begun = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get(self, path: str) -> "asyncio.Future[Answer]":
        """Status and headers, when the body has been read."""
        self._head, self._body = b"", None
        self._ended = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():
            self._ended.set_exception(ConnectionError("the edge hung up in a pause"))
        self._transport.write(wire.request("GET", path))
        return self._ended

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._content(memoryview(data if self._body else self._after_head(data)))
        except ValueError as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionError(f"the edge hung up: {error}"))

    def _after_head(self, data: bytes) -> bytes:
        self._head += data
        head, end_of_head, rest = self._head.partition(wire.END_OF_HEAD)
        if not end_of_head:
            return b""
        self._answer = wire.parse_head(head)
        if self._answer[0] not in (200, NO_CONTENT):
            raise ValueError(f"a reader got {self._head.decode(errors='replace')}")
        self.begun.set()
        self._body = announced_by(self._answer[1])
        return rest

    def _content(self, data: memoryview) -> None:
        if not self._body or not self._ended or self._ended.done():
            return
        for piece in self._body.take(data):
            self._take(piece)
        if self._body.ended:
            self._ended.set_result(self._answer)

    def _fail(self, error: Exception) -> None:
        self.begun.set()
        if self._ended and not self._ended.done():
            self._ended.set_exception(ConnectionError(str(error)[:SHOWN_CHARACTERS]))


class Reader:
    """Wants every message, once, in order, by whatever requests it takes."""

    def __init__(self, target: Target, stream: str, hear: Callable[[int], None]) -> None:
        self._target = target
        self._path = target.stream(stream)
        self._hear = hear
        self._rest = b""
        self.next = 0
        self._enough, self._is_following = -1, False
        self.wrong = 0
        self.requests = 0
        self.offset, self.cursor = "-1", ""

    async def connect(self) -> None:
        self.client = await self._target.connect(lambda: Client(self._take))

    async def catch_up(self) -> None:
        is_behind = True
        while is_behind:
            _, headers = await self._ask("")
            self.offset = headers["stream-next-offset"]
            is_behind = "stream-up-to-date" not in headers
        self._rest = b""

    async def long_poll(self) -> None:
        _, headers = await self._ask("&live=long-poll")
        self.offset = headers["stream-next-offset"]
        self.cursor = headers.get("stream-cursor", "")

    async def follow(self, enough: int) -> None:
        """Where an answer ends or breaks, the next one begins at the last known offset."""
        self._enough, self._is_following = enough, True
        while self.next < enough:
            known = self.next
            try:
                await self._ask("&live=sse")
            except ConnectionError:
                if self.next >= enough:
                    return
                if self.next == known:
                    await asyncio.sleep(0.2)
                await self.connect()
            self._rest = b""

    def _ask(self, live: str) -> "asyncio.Future[Answer]":
        self.requests += 1
        cursor = f"&cursor={self.cursor}" if self.cursor and live else ""
        return self.client.get(f"{self._path}?offset={self.offset}{live}{cursor}")

    def _take(self, piece: memoryview) -> None:
        self._rest += piece
        end = 0
        for found in MESSAGE.finditer(self._rest):
            end = found.end()
            self._number(int(found[1]))
        if self._is_following:
            end = self._take_control(end)
        self._rest = self._rest[max(end, len(self._rest) - KEPT_BYTES) :]

    def _take_control(self, end: int) -> int:
        for place in OFFSET.finditer(self._rest):
            end, self.offset = max(end, place.end()), place[1].decode()
        for place in CURSOR.finditer(self._rest):
            end, self.cursor = max(end, place.end()), place[1].decode()
        return end

    def _number(self, number: int) -> None:
        if number != self.next:
            self.wrong += 1
        self.next = number + 1
        self._hear(number)
        if self.next == self._enough:
            self.client.close()
