"""The way from a server to its object storage, on which anything can happen to a request."""

import asyncio
import contextlib
import random
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from support.object_servers import ObjectServer

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to `server`, and the line on which its answer goes back."""

    request: bytes
    server: str
    back: asyncio.StreamWriter
    is_over: asyncio.Event

    async def asked(self, request: bytes | None = None) -> bytes:
        """What the server answers to the request, or to another one in its place."""
        address = urlsplit(self.server)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        with contextlib.closing(writer):
            head, _, rest = (request or self.request).partition(b"\r\n")
            writer.write(head + b"\r\nConnection: close\r\n" + rest)
            return await reader.read()

    async def break_off(self) -> None:
        """The server gets half of the request."""
        address = urlsplit(self.server)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        with contextlib.closing(writer):
            writer.write(self.request[: len(self.request) // 2])
            await writer.drain()

    async def send(self, answer: bytes) -> None:
        self.back.write(answer)
        await self.back.drain()


Fault = Callable[[Call], Awaitable[None]]


async def passes(call: Call) -> None:
    await call.send(await call.asked())


async def loses_the_answer(call: Call) -> None:
    await call.asked()


async def is_silent(call: Call) -> None:
    await call.is_over.wait()


async def breaks_off_in_the_middle(call: Call) -> None:
    """Of the answer, or already of the request."""
    if random.random() < 0.5:
        await call.break_off()
    else:
        answer = await call.asked()
        await call.send(answer[: len(answer) // 2])


class Hold:
    """Silence until the release; then everything arrives, also what nobody waits for any more."""

    def __init__(self) -> None:
        self._released = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        await self._released.wait()
        await passes(call)

    def release(self) -> None:
        self._released.set()


def answers(status: int, code: str) -> Fault:
    body = f"<Error><Code>{code}</Code><Message>So it is</Message></Error>"
    head = f"HTTP/1.1 {status} No\r\nconnection: close\r\ncontent-length: {len(body)}"
    answer = f"{head}\r\n\r\n{body}"
    return lambda call: call.send(answer.encode())


class Line:
    """The way to a server. Each fault of the plan meets one request; then `standing` all."""

    def __init__(self, server: ObjectServer, *, takes_bodies: bool = True) -> None:
        self.server = server
        self.standing: Fault = passes
        self._takes_bodies = takes_bodies
        self._plan: list[Fault] = []
        self._is_over = asyncio.Event()
        self._calls: set[asyncio.Task[Any]] = set()
        self.requests = 0

    def meets(self, *plan: Fault) -> None:
        self._plan = list(plan)
        self.requests = 0

    async def __aenter__(self) -> Self:
        self._place = _bound(("127.0.0.1", 0))
        host, port = self._place.getsockname()
        self.endpoint = f"http://{host}:{port}"
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        self._place.close()
        self._is_over.set()
        await asyncio.gather(*self._calls)

    async def accept(self) -> None:
        listening = _bound(self._place.getsockname())
        self._listener = await asyncio.start_server(self._serve, sock=listening)

    def refuse(self) -> None:
        """Nobody listens, and nobody else can take the port."""
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._remember(asyncio.current_task())
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, EOFError):
            request = await self._request(reader, writer)
            self.requests += 1
            fault = self._plan.pop(0) if self._plan else self.standing
            await fault(Call(request, self.server.endpoint, writer, self._is_over))

    def _remember(self, task: asyncio.Task[Any] | None) -> None:
        assert task is not None
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        if waits := re.search(rb"(?i)\r\nexpect: [^\r]*", head):
            writer.write(CONTINUE)
            head = head.replace(waits[0], b"")
        if not self._takes_bodies:
            await self._is_over.wait()
        length = re.search(rb"(?i)\r\ncontent-length: ([0-9]+)", head)
        return head + await reader.readexactly(int(length[1]) if length else 0)


def _bound(address: tuple[str, int]) -> socket.socket:
    """Two sockets may share an address if both say so; only those that listen get connections."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(address)
    return bound
