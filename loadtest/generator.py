"""The load: keep-alive connections on raw asyncio protocols, each awaiting one answer at a time.

An append costs the generator about as much processor time as it costs wrk (11 µs, nearly all of
it in the kernel), so the figures are those of the servers.
"""

import asyncio
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast
from urllib.parse import urlsplit

from loadtest import wire
from loadtest.wire import Answer

P = TypeVar("P", bound=asyncio.Protocol)

CONNECTING_AT_ONCE = 50
CREATING_AT_ONCE = 16
SHOWN_CHARACTERS = 200
TEXT = {"Content-Type": "text/plain"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server's streams live. Load never leaves the machine."""

    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
            raise ValueError(f"load goes to http://127.0.0.1 only, not to {url}")
        return cls(parts.port or 80, parts.path.rstrip("/"))

    def stream(self, name: str) -> str:
        return f"{self.path}/{name}"

    async def connect(self, protocol: Callable[[], P]) -> P:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(protocol, "127.0.0.1", self.port))[1]

    async def connect_many(self, protocols: Sequence[Callable[[], P]]) -> list[P]:
        connected: list[P] = []
        for group in _groups(protocols, CONNECTING_AT_ONCE):
            connected += await asyncio.gather(*map(self.connect, group))
        return connected


@dataclass(slots=True)
class Tally:
    """What was seen so far: seconds that things took, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def fail(self, what: str) -> None:
        self.errors[what[:SHOWN_CHARACTERS]] += 1


class Connection(asyncio.Protocol):
    """A connection for one request after the other; for set-up and for round trips."""

    def __init__(self) -> None:
        self._received = b""
        self._answered: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, request: bytes) -> "asyncio.Future[Answer]":
        """Sent before this returns; awaited when the caller likes."""
        if self._transport.is_closing():
            raise ConnectionError("the server hung up in a pause")
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answered

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = wire.whole_answer(self._received)
        if answer and self._answered and not self._answered.done():
            self._received = b""
            self._answered.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered and not self._answered.done():
            self._answered.set_exception(ConnectionError(f"the server hung up: {error}"))

    def close(self) -> None:
        self._transport.close()


class Appender(asyncio.Protocol):
    """A connection that appends again as soon as it is answered."""

    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        self._requests = requests
        self._tally = tally
        self._record = tally.seconds.append
        self._received = b""
        self._stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def start(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))

    def stop(self) -> None:
        self._stopped = True
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._is_answered_by(data):
            return
        now = time.perf_counter()
        self._record(now - self._sent)
        self._sent = now
        self._transport.write(next(self._requests))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._stopped:
            self._tally.fail(f"the server hung up: {error}")

    def _is_answered_by(self, data: bytes) -> bool:
        if not self._received and wire.is_bare_success(data):
            return True
        self._received += data
        answer = wire.whole_answer(self._received)
        if not answer:
            return False
        self._received = b""
        if not answer.succeeded:
            self._tally.fail(describe(answer))
        return True


def describe(answer: Answer) -> str:
    return f"{answer.status} {answer.body.decode(errors='replace')}".strip()


async def expect(asked: "asyncio.Future[Answer]") -> Answer:
    """The answer; an error unless it is a success."""
    answer = await asked
    if not answer.succeeded:
        raise ConnectionError(f"refused: {describe(answer)}")
    return answer


def fresh_names(count: int) -> list[str]:
    """Names of streams that no earlier run has used."""
    run = secrets.token_hex(4)
    return [f"bench-{run}-{number}" for number in range(count)]


async def create_streams(target: Target, names: Sequence[str]) -> list[str]:
    """Their first offsets. To wait for data one must know where it will be."""
    connections = await target.connect_many([Connection] * min(len(names), CREATING_AT_ONCE))
    offsets: dict[str, str] = {}
    waiting = iter(names)

    async def create_some(connection: Connection) -> None:
        for name in waiting:
            put = wire.request("PUT", target.stream(name), TEXT)
            answer = await expect(connection.ask(put))
            offsets[name] = answer.headers["stream-next-offset"]
        connection.close()

    await asyncio.gather(*map(create_some, connections))
    return [offsets[name] for name in names]


def append_request(target: Target, stream: str, body: bytes) -> bytes:
    return wire.request("POST", target.stream(stream), TEXT, body)


def _groups(items: Sequence[Callable[[], P]], size: int) -> Iterator[Sequence[Callable[[], P]]]:
    remaining = iter(items)
    while group := list(itertools.islice(remaining, size)):
        yield group
