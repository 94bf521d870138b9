"""A wire between the server and its Redis that can be cut at any byte, or held."""

import asyncio
from asyncio import StreamReader, StreamWriter
from typing import Self

PIECE_BYTES = 64 * 1024
PATIENCE_SECS = 30.0


class Cut:
    """Ends a connection `after` so many bytes, counted from the first one of `command`."""

    def __init__(self, command: bytes, after: int) -> None:
        self.command = command
        self.after = after
        self.done = asyncio.Event()

    async def happened(self) -> None:
        async with asyncio.timeout(PATIENCE_SECS):
            await self.done.wait()


class Link:
    """One connection of the server, and the one to Redis behind it."""

    def __init__(self, proxy: "RedisProxy", server: StreamWriter, redis: StreamWriter) -> None:
        self._proxy = proxy
        self._server = server
        self._redis = redis
        self._reply_cut: Cut | None = None
        self._left = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self.subscribes = False

    def cut_replies(self, after: int) -> Cut:
        """Whatever they reply to."""
        return self._cut_replies(Cut(b"", after))

    async def pass_commands(self, commands: StreamReader) -> None:
        while data := await commands.read(PIECE_BYTES):
            self.subscribes |= b"SUBSCRIBE" in data
            if cut := self._proxy.take_command_cut(data):
                whole = data.index(cut.command) + cut.after
                await self._pass(self._redis, data[:whole])
                self.end(cut)
                return
            if cut := self._proxy.take_reply_cut(data):
                self._cut_replies(cut)
            if self._proxy.holds(data):
                self._proxy.held.set()
            await self._pass(self._redis, data)

    async def pass_replies(self, replies: StreamReader) -> None:
        while data := await replies.read(PIECE_BYTES):
            if self._proxy.held.is_set():
                await self._proxy.released.wait()
            await self.flows.wait()
            cut = self._reply_cut
            if cut is None:
                await self._pass(self._server, data)
                continue
            await self._pass(self._server, data[: self._left])
            self._left -= len(data)
            if self._left <= 0:
                self.end(cut)
                return

    def _cut_replies(self, cut: Cut) -> Cut:
        self._reply_cut, self._left = cut, cut.after
        return cut

    def end(self, cut: Cut | None = None) -> None:
        self._proxy.forget(self)
        self._server.close()
        self._redis.close()
        if cut is not None:
            cut.done.set()

    @staticmethod
    async def _pass(writer: StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()


class RedisProxy:
    """Stands before a Redis on a unix socket; the server comes to `url`."""

    def __init__(self, redis_socket: str) -> None:
        self._redis_socket = redis_socket
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._command_cut: Cut | None = None
        self._reply_cut: Cut | None = None
        self._held_command: bytes | None = None
        self.held = asyncio.Event()
        self.released = asyncio.Event()
        self.refuses = False
        """Nobody new comes through; who is connected stays so."""

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
        return f"redis://{host}:{port}"

    def cut_command(self, command: bytes, after: int) -> Cut:
        """Redis gets only the first bytes of the next command that contains these."""
        self._command_cut = Cut(command, after)
        return self._command_cut

    def cut_reply(self, command: bytes, after: int) -> Cut:
        """Redis gets the next command that contains these, the server only part of the reply."""
        self._reply_cut = Cut(command, after)
        return self._reply_cut

    def links(self) -> list[Link]:
        return list(self._links)

    def subscriptions(self) -> list[Link]:
        return [link for link in self._links if link.subscribes]

    def forget(self, link: Link) -> None:
        self._links.discard(link)

    def hold(self, command: bytes) -> None:
        """`held` is set when the command has gone to Redis; no reply passes until `released`."""
        self._held_command = command

    def take_command_cut(self, data: bytes) -> Cut | None:
        cut = self._command_cut
        if cut is None or cut.command not in data:
            return None
        self._command_cut = None
        return cut

    def take_reply_cut(self, data: bytes) -> Cut | None:
        cut = self._reply_cut
        if cut is None or cut.command not in data:
            return None
        self._reply_cut = None
        return cut

    def holds(self, data: bytes) -> bool:
        return self._held_command is not None and self._held_command in data

    async def _welcome(self, from_server: StreamReader, to_server: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._relay(from_server, to_server)
        except (OSError, asyncio.CancelledError):
            pass  # A callback of asyncio.start_server that is cancelled would be reported.
        finally:
            self._tasks.discard(task)
            to_server.close()

    async def _relay(self, from_server: StreamReader, to_server: StreamWriter) -> None:
        if self.refuses:
            return
        from_redis, to_redis = await asyncio.open_unix_connection(self._redis_socket)
        link = Link(self, to_server, to_redis)
        self._links.add(link)
        passing = [
            asyncio.create_task(link.pass_commands(from_server)),
            asyncio.create_task(link.pass_replies(from_redis)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            link.end()
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
