"""One HTTP connection on a bare socket: what is sent when, and every byte that comes back."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

ANSWER_SECS = 60.0


class Broken(ConnectionError):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __getitem__(self, header: str) -> str | None:
        return self.headers.get(header.lower())

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """Strictly in turn: a question, then its answer. An answer too many spoils the next one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str, tls: ssl.SSLContext | None = None) -> Self:
        address = urlsplit(url)
        return cls(*await asyncio.open_connection(address.hostname, address.port, ssl=tls))

    def narrow(self, size: int) -> None:
        """The kernel takes about so much on its own when nobody reads."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    async def ask(
        self, method: str, target: str, body: bytes = b"", **headers: str | int
    ) -> Answer:
        """Header names are given as keywords: `stream_closed="true"`."""
        if body or method in ("PUT", "POST"):
            headers.setdefault("content_length", len(body))
        await self.send(head(method, target, **headers) + body)
        return await self.answer()

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise Broken from error

    async def answer(self) -> Answer:
        async with asyncio.timeout(ANSWER_SECS):
            return await self._answer()

    async def _answer(self) -> Answer:
        status, headers = await self.answer_head()
        if status in (204, 304) or 100 <= status < 200:
            return Answer(status, headers, b"")
        if "content-length" in headers:
            return Answer(status, headers, await self._exactly(int(headers["content-length"])))
        return Answer(status, headers, b"".join([piece async for piece in self.pieces()]))

    async def answer_head(self) -> tuple[int, Mapping[str, str]]:
        lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines
        pairs = (line.split(": ", 1) for line in lines[1:] if line)
        return int(status), {name.lower(): value for name, value in pairs}

    async def pieces(self) -> AsyncIterator[bytes]:
        """The parts of a chunked body; Broken when it ends without its end."""
        while size := int(await self._until(b"\r\n"), 16):
            yield (await self._exactly(size + 2))[:-2]
        await self._until(b"\r\n")

    async def rest(self) -> bytes:
        """What comes until the server closes, after this side has nothing more to say."""
        with contextlib.suppress(ConnectionError):
            self._writer.write_eof()
        return await self.until_closed()

    async def until_closed(self) -> bytes:
        """What comes without being asked for until the server closes."""
        try:
            async with asyncio.timeout(ANSWER_SECS):
                return await self._reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()

    def break_off(self) -> None:
        """What is not sent yet never will be."""
        self._writer.transport.abort()

    async def _until(self, end: bytes) -> bytes:
        try:
            return await self._reader.readuntil(end)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise Broken from error

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise Broken from error


def head(method: str, target: str, **headers: str | int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
