"""One connection to Redis that heals itself."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis.asyncio.connection import parse_url

from tiering.errors import Unavailable

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECS = 0.02
_LONGEST_PAUSE_SECS = 1.0
_INCOMPLETE = object()
LARGE_BYTES = 64 * 1024

Reply = Any
Argument = str | bytes | memoryview | int


@dataclass(frozen=True, slots=True)
class Address:
    """Where Redis is and how to greet it."""

    host: str
    port: int
    socket_path: str | None
    tls: bool
    username: str | None
    password: str | None
    database: int

    @classmethod
    def parse(cls, url: str) -> "Address":
        known = parse_url(url)
        return cls(
            host=known.get("host", "localhost"),
            port=known.get("port", 6379),
            socket_path=known.get("path"),
            tls=url.startswith("rediss://"),
            username=known.get("username"),
            password=known.get("password"),
            database=known.get("db", 0),
        )

    def greeting(self) -> list[tuple[Argument, ...]]:
        commands: list[tuple[Argument, ...]] = []
        if self.password is not None:
            user = (self.username,) if self.username else ()
            commands.append(("AUTH", *user, self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands


def pack(command: tuple[Argument, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed


def pack_in_pieces(command: tuple[Argument, ...]) -> list[bytes | memoryview]:
    """The same without a copy of its large arguments."""
    pieces: list[bytes | memoryview] = []
    small = b"*%d\r\n" % len(command)
    for argument in command:
        data = argument if isinstance(argument, bytes | memoryview) else str(argument).encode()
        small += b"$%d\r\n" % len(data)
        if len(data) < LARGE_BYTES:
            small += bytes(data) + b"\r\n"
        else:
            pieces += [small, data]
            small = b"\r\n"
    return [*pieces, small]


class _Wire(asyncio.Protocol):
    def __init__(
        self, on_reply: Callable[[Reply], None], on_lost: Callable[["_Wire"], None]
    ) -> None:
        self._on_reply = on_reply
        self._on_lost = on_lost
        self._reader = hiredis.Reader(notEnoughData=_INCOMPLETE)
        self.transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                self._on_reply(reply)
        except hiredis.ProtocolError:
            log.exception("Redis sent something that is not its protocol")
            if self.transport is not None:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._on_lost(self)


class Connection:
    """Keeps one socket to Redis open; subclasses say what to do with replies."""

    def __init__(self, address: Address, timeout_secs: float) -> None:
        self._address = address
        self._timeout_secs = timeout_secs
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_up(self) -> bool:
        return self._transport is not None

    async def open(self) -> None:
        """Connects once, then keeps the connection up until `close`."""
        await self._connect()
        self._tasks = [asyncio.create_task(self._keep_up()), asyncio.create_task(self._watch())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._drop()

    async def _keep_up(self) -> None:
        while True:
            await self._lost.wait()
            log.warning("lost the connection to Redis; reconnecting")
            await self._reconnect()
            log.info("the connection to Redis is back")

    async def _reconnect(self) -> None:
        pause = _FIRST_PAUSE_SECS
        while True:
            try:
                return await self._connect()
            except (OSError, Unavailable) as error:
                log.debug("Redis cannot be reached: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECS)

    async def _connect(self) -> None:
        self._lost.clear()
        wire = await self._dial()
        if wire.is_lost:
            raise Unavailable("Redis hung up.")
        self._transport = wire.transport
        try:
            await self._on_connected(self._address.greeting())
        except BaseException:
            self._drop()
            raise

    async def _dial(self) -> _Wire:
        loop = asyncio.get_running_loop()
        address = self._address

        def make() -> _Wire:
            return _Wire(self._on_reply, self._on_wire_lost)

        dial: Awaitable[tuple[asyncio.Transport, _Wire]]
        if address.socket_path is not None:
            dial = loop.create_unix_connection(make, address.socket_path)
        else:
            context = ssl.create_default_context() if address.tls else None
            dial = loop.create_connection(make, address.host, address.port, ssl=context)
        try:
            _, wire = await asyncio.wait_for(dial, 5)
        except TimeoutError as error:
            raise Unavailable("Redis does not answer.") from error
        return wire

    def _on_wire_lost(self, wire: _Wire) -> None:
        if wire.transport is not self._transport:
            return
        self._transport = None
        self._lost.set()
        self._on_disconnected()

    async def _watch(self) -> None:
        """A Redis that has stopped answering looks like a connection that is up."""
        while True:
            await asyncio.sleep(min(1.0, self._timeout_secs / 4))
            if self._is_silent():
                log.warning("Redis has not answered for %g s", self._timeout_secs)
                self._drop()

    def _is_silent(self) -> bool:
        try:
            return self.is_up and self._silence_secs() > self._timeout_secs
        except Unavailable:
            return False

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _write(self, *commands: tuple[Argument, ...]) -> None:
        if self._transport is None or self._transport.is_closing():
            raise Unavailable("The hot tier cannot be reached.")
        self._transport.write(b"".join(pack(command) for command in commands))

    async def _on_connected(self, greeting: list[tuple[Argument, ...]]) -> None:
        raise NotImplementedError

    def _on_reply(self, reply: Reply) -> None:
        raise NotImplementedError

    def _on_disconnected(self) -> None:
        raise NotImplementedError

    def _silence_secs(self) -> float:
        """For how long an answer has been due."""
        raise NotImplementedError
