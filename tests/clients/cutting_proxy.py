"""A TCP proxy that cuts connections in the middle of whatever goes through them."""

import asyncio
from collections import Counter
from random import Random
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

PIECE_BYTES = 4096
SHORTEST_REQUEST_BYTES = 150
FEW_ANSWERS_BYTES = 2500

Cut = Literal["request stops half-way", "answer is lost", "answer breaks off"]
CUTS: tuple[Cut, ...] = ("request stops half-way", "answer is lost", "answer breaks off")


class CuttingProxy:
    """Cuts every connection, until each kind of cut was made often enough; then none any more."""

    def __init__(self, target: str, seed: str, of_each_kind: int) -> None:
        self._target = urlsplit(target)
        self._random = Random(seed)
        self._left = Counter(dict.fromkeys(CUTS, of_each_kind))
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def url(self) -> str:
        """The target's address, by way of this proxy."""
        assert self._listener is not None
        port = self._listener.sockets[0].getsockname()[1]
        return urlunsplit(self._target._replace(netloc=f"127.0.0.1:{port}"))

    @property
    def is_done(self) -> bool:
        return not self._wanted()

    def _wanted(self) -> list[Cut]:
        return [cut for cut in CUTS if self._left[cut] > 0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(
            self._target.hostname, self._target.port
        )
        request_limit, answer_limit, cut = self._plan()
        ways = (
            asyncio.create_task(self._pass_on(reader, to_server, request_limit)),
            asyncio.create_task(self._pass_on(from_server, writer, answer_limit)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
            to_server.transport.abort()
        if cut is not None and True in ends:
            self._left[cut] -= 1

    def _plan(self) -> tuple[int | None, int | None, Cut | None]:
        """After how many bytes of the request or of the answer which cut is made."""
        if self.is_done:
            return None, None, None
        match cut := self._random.choice(self._wanted()):
            case "request stops half-way":
                return self._random.randint(1, SHORTEST_REQUEST_BYTES), None, cut
            case "answer is lost":
                return None, 0, cut
            case _:
                return None, self._random.randint(1, FEW_ANSWERS_BYTES), cut

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None
    ) -> bool:
        """True when the limit was reached; False when the connection ended before."""
        left = limit
        while piece := await reader.read(PIECE_BYTES):
            is_cut = left is not None and left <= len(piece) and not self.is_done
            writer.write(piece[:left] if is_cut else piece)
            await writer.drain()
            if is_cut:
                return True
            left = None if left is None else left - len(piece)
        return False
