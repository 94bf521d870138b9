"""Reads a stream from its start to its end, and checks every byte on the way."""

import asyncio
from collections.abc import Mapping
from typing import cast

from loadtest import wire
from loadtest.bodies import Body, announced_by
from loadtest.content import is_expected
from loadtest.generator import SHOWN_CHARACTERS, Target

OK = 200


class Reader(asyncio.Protocol):
    """Keeps nothing of what it reads. `position` is how far it is."""

    def __init__(self) -> None:
        self.position = 0
        self._head = b""
        self._body: Body | None = None
        self._answered: asyncio.Future[Mapping[str, str]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get(self, path: str) -> "asyncio.Future[Mapping[str, str]]":
        """The answer's headers, when its body has been read."""
        self._head, self._body = b"", None
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(wire.request("GET", path))
        return self._answered

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._take(data if self._body else self._take_head(data))
        except ValueError as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionError(f"the server hung up on a reader: {error}"))

    def _take_head(self, data: bytes) -> bytes:
        """What comes after it."""
        self._head += data
        head, end_of_head, rest = self._head.partition(wire.END_OF_HEAD)
        if not end_of_head:
            return b""
        status, self._headers = wire.parse_head(head)
        if status != OK:
            raise ValueError(f"a reader got {self._head.decode(errors='replace')}")
        self._body = announced_by(self._headers)
        return rest

    def _take(self, data: bytes) -> None:
        if not self._body or not self._answered or self._answered.done():
            return
        for piece in self._body.take(memoryview(data)):
            if not is_expected(piece, self.position):
                raise ValueError(f"other bytes than those appended after {self.position}")
            self.position += len(piece)
        if self._body.ended:
            self._answered.set_result(self._headers)

    def _fail(self, error: Exception) -> None:
        if self._answered and not self._answered.done():
            self._answered.set_exception(ConnectionError(str(error)[:SHOWN_CHARACTERS]))


async def replay(target: Target, stream: str, size: int) -> None:
    """As a client that has just come: from the start, answer by answer, until up to date."""
    reader = await target.connect(Reader)
    offset, up_to_date = "-1", False
    while not up_to_date:
        headers = await reader.get(f"{target.stream(stream)}?offset={offset}")
        offset, up_to_date = headers["stream-next-offset"], "stream-up-to-date" in headers
    reader.close()
    if reader.position != size:
        raise ConnectionError(f"a replay gave {reader.position} bytes of {size}")
