"""One who follows by server-sent events, cheap enough for thousands in one process."""

import asyncio
import re
import socket
from typing import Self, cast
from urllib.parse import urlsplit

from support.connection import head

NUMBER = re.compile(rb"<([0-9]+)>")
LONGEST_NUMBER = 16


def message(number: int, size: int) -> bytes:
    return (b"<%d>" % number).ljust(size, b".")


class Listener(asyncio.Protocol):
    """Counts the messages that come to it, which must be those that follow one another."""

    def __init__(self, target: str) -> None:
        self._request = head("GET", target)
        self._rest = b""
        self.next = 0
        self.has_begun = False
        self.is_lost = False

    @classmethod
    async def open(cls, url: str, target: str, *, received_bytes: int | None = None) -> Self:
        """With a narrow socket the kernel takes about so much on its own when nobody reads."""
        address = urlsplit(url)
        assert address.port is not None
        connection = socket.socket()
        connection.setblocking(False)
        if received_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_bytes)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (address.hostname, address.port))
        return (await loop.create_connection(lambda: cls(target), sock=connection))[1]

    def stall(self) -> None:
        self._transport.pause_reading()

    def go_on(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.has_begun:
            assert data.startswith(b"HTTP/1.1 200"), data
            self.has_begun = True
        data, end = self._rest + data, 0
        for found in NUMBER.finditer(data):
            assert int(found[1]) == self.next, (found[1], self.next)
            self.next += 1
            end = found.end()
        self._rest = data[max(end, len(data) - LONGEST_NUMBER) :]

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
