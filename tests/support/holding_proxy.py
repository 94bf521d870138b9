"""A wire to a server on which a request can be held in its midst."""

import asyncio
from asyncio import StreamReader, StreamWriter
from typing import Self
from urllib.parse import urlsplit

PIECE_BYTES = 64 * 1024


class HoldingProxy:
    """Of the first request of a method, only so many bytes come through; then `held` is set."""

    def __init__(self, url: str, method: bytes, after: int) -> None:
        self._server = urlsplit(url)
        self._method = method
        self._after = after
        self._tasks: set[asyncio.Task[None]] = set()
        self.held = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._welcome, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        host, port = self._listener.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def _welcome(self, client: StreamReader, to_client: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._relay(client, to_client)
        except (OSError, asyncio.CancelledError):
            pass  # A callback of asyncio.start_server that is cancelled would be reported.
        finally:
            self._tasks.discard(task)
            to_client.close()

    async def _relay(self, client: StreamReader, to_client: StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(self._server.hostname, self._server.port)
        answers = asyncio.create_task(_pass_all(server, to_client))
        try:
            await self._pass_requests(client, to_server)
        finally:
            to_server.close()
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)

    async def _pass_requests(self, client: StreamReader, to_server: StreamWriter) -> None:
        """Ends with the client: who is killed hangs up."""
        left: int | None = None
        while data := await client.read(PIECE_BYTES):
            if data.startswith(self._method + b" ") and not self.held.is_set():
                left = self._after
            if left is not None:
                data, left = data[:left], max(0, left - len(data))
            to_server.write(data)
            await to_server.drain()
            if left == 0:
                self.held.set()


async def _pass_all(source: StreamReader, target: StreamWriter) -> None:
    while data := await source.read(PIECE_BYTES):
        target.write(data)
        await target.drain()
    target.close()
