"""One stream as its clients see it: a verb for every request, an answer read to its end."""

import asyncio
import contextlib
import io
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from multidict import CIMultiDictProxy, istr
from support.model import parse_token, token
from yarl import URL

JSON = "application/json"
BYTES = "application/octet-stream"
TEXT = "text/plain"

LINE_END = re.compile(rb"\r\n|\r|\n")
"""Where the SSE standard ends a line; a parser that knew only LF would not see an injection."""

LIVE_FOLLOWERS = re.compile(r"^ds_live_followers\{.*\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    def __getitem__(self, header: str) -> str | None:
        return self.headers.get(header)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def next_offset(self) -> str:
        return self.headers["Stream-Next-Offset"]

    @property
    def position(self) -> int:
        return parse_token(self.next_offset)[1]

    @property
    def log(self) -> int:
        return parse_token(self.next_offset)[0]


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: str
    lines: list[str]

    @property
    def control(self) -> dict[str, Any]:
        assert self.kind == "control"
        return json.loads(self.data)


@dataclass
class EventStream:
    """An SSE answer, parsed by the rules of the standard as it arrives."""

    response: aiohttp.ClientResponse
    raw: bytes = b""
    _lines: list[str] = field(default_factory=list)
    _unparsed: bytes = b""
    _events: list[Event] = field(default_factory=list)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            piece = await self.response.content.readany()
            if not piece:
                raise StopAsyncIteration
            self._take(piece)
        return self._events.pop(0)

    async def until(self, enough: Callable[[Event], bool]) -> list[Event]:
        """The events up to and with the first for which `enough` holds."""
        events = []
        async for event in self:
            events.append(event)
            if enough(event):
                return events
        raise AssertionError(f"the answer ended after {events}")

    async def until_caught_up(self) -> list[Event]:
        return await self.until(says_up_to_date)

    async def rest(self) -> list[Event]:
        return [event async for event in self]

    def _take(self, piece: bytes) -> None:
        self.raw += piece
        self._unparsed += piece
        complete = len(self._unparsed) - (1 if self._unparsed.endswith(b"\r") else 0)
        start = 0
        for end in LINE_END.finditer(self._unparsed, 0, complete):
            self._line(self._unparsed[start : end.start()].decode())
            start = end.end()
        self._unparsed = self._unparsed[start:]

    def _line(self, line: str) -> None:
        if line:
            self._lines.append(line)
        elif self._lines:
            self._events.append(event_of(self._lines))
            self._lines = []


def event_of(lines: list[str]) -> Event:
    kind, data = "message", []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
    return Event(kind, "\n".join(data), lines)


def says_up_to_date(event: Event) -> bool:
    return event.kind == "control" and bool(
        event.control.get("upToDate") or event.control.get("streamClosed")
    )


@dataclass
class Stream:
    """Keyword arguments of every verb are headers: `stream_closed="true"`."""

    http: aiohttp.ClientSession
    url: str
    content_type: str = JSON

    async def create(
        self, body: bytes | None = None, *, closed: bool = False, **headers: str
    ) -> Answer:
        headers.setdefault("content_type", self.content_type)
        if closed:
            headers["stream_closed"] = "true"
        return await self.ask("PUT", body, **headers)

    async def append(self, body: Any, **headers: str) -> Answer:
        headers.setdefault("content_type", self.content_type)
        return await self.ask("POST", body, **headers)

    async def produce(
        self, body: bytes | None, producer: str, epoch: int | str, seq: int | str, **headers: str
    ) -> Answer:
        return await self.append(
            body,
            producer_id=producer,
            producer_epoch=str(epoch),
            producer_seq=str(seq),
            **headers,
        )

    async def close(self, body: bytes | None = None, **headers: str) -> Answer:
        if body is not None:
            headers.setdefault("content_type", self.content_type)
        return await self.ask("POST", body, stream_closed="true", **headers)

    async def read(self, offset: str | None = None, *, query: str = "", **headers: str) -> Answer:
        """`query` goes onto the wire as it is, for what must not be encoded once more."""
        return await self.ask("GET", None, query=query or self._offset(offset), **headers)

    async def read_at(self, position: int, **headers: str) -> Answer:
        """Read from a position of the stream's own log."""
        return await self.read(await self.token(position), **headers)

    async def read_to_the_tail(self, offset: str | None = None) -> list[Answer]:
        answers = [await self.read(offset)]
        while answers[-1]["Stream-Up-To-Date"] is None:
            answers.append(await self.read(answers[-1].next_offset))
        return answers

    async def long_poll(self, offset: str, cursor: str | None = None, **headers: str) -> Answer:
        query = f"{self._offset(offset)}&live=long-poll"
        if cursor is not None:
            query += f"&cursor={cursor}"
        return await self.read(query=query, **headers)

    @contextlib.asynccontextmanager
    async def follow(self, offset: str, cursor: str | None = None) -> AsyncIterator[EventStream]:
        query = f"{self._offset(offset)}&live=sse"
        if cursor is not None:
            query += f"&cursor={cursor}"
        async with self.http.get(self._target(query)) as response:
            yield EventStream(response)

    async def head(self) -> Answer:
        return await self.ask("HEAD")

    async def delete(self) -> Answer:
        return await self.ask("DELETE")

    async def token(self, position: int) -> str:
        return token((await self.head()).log, position)

    async def ask(
        self, method: str, body: Any = None, *, query: str = "", **headers: str
    ) -> Answer:
        async with self.http.request(
            method,
            self._target(query),
            data=io.BytesIO(body) if isinstance(body, bytes) else body,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            skip_auto_headers=[istr("Content-Type")],
            allow_redirects=False,
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    def _target(self, query: str) -> URL:
        return URL(f"{self.url}?{query}" if query else self.url, encoded=True)

    @staticmethod
    def _offset(offset: str | None) -> str:
        return "" if offset is None else f"offset={offset}"


NewStream = Callable[..., Stream]
"""What the fixtures give: a stream of a name never used before, not yet created."""


def unbounded_session() -> aiohttp.ClientSession:
    """As many connections as a test asks for, so that all workers are spoken to."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


def unique_name(prefix: str = "s") -> str:
    return f"{prefix}-{uuid.uuid4().hex}"


def assert_problem(answer: Answer, status: int) -> None:
    """The refusal has the form of RFC 9457, says something, and no cache keeps it."""
    assert answer.status == status, answer.body
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]


async def eventually(
    question: Callable[[], Any], holds: Callable[[Any], bool], timeout: float = 20
) -> Any:
    """Asks again and again until the answer is as wanted; returns it."""
    async with asyncio.timeout(timeout):
        while True:
            if holds(answer := await question()):
                return answer
            await asyncio.sleep(0.02)


async def live_followers(stream: Stream) -> int:
    """How many readers the server of this stream lets wait now, on all its workers."""
    async with stream.http.get(URL(stream.url).with_path("/metrics")) as response:
        metrics = await response.text()
    return sum(int(float(n)) for n in LIVE_FOLLOWERS.findall(metrics))
