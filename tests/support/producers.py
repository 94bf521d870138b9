"""Traffic that can be checked: producers that never give up, followers that always come back."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from support.client import JSON, Stream, assert_problem, eventually, unique_name
from support.connection import Answer, Broken, Connection

PAUSE_SECS = 0.01
"""Between two appends, and before a request is sent again."""

PADDING = [0, 20, 300, 5, 90, 20_000]
"""Bytes beside the message itself; the last is too long to travel with a wake-up."""

Message = dict[str, Any]


class Producer:
    """Sends its messages one after the other, each again and again until it is acknowledged."""

    def __init__(self, url: str, path: str, name: str) -> None:
        self._url = url
        self._path = path
        self._name = name
        self._connection: Connection | None = None
        self._tail = ""
        self.acknowledged = 0
        self.seen: Counter[str] = Counter()

    def message(self, n: int) -> Message:
        return {"from": self._name, "n": n, "padding": "x" * PADDING[n % len(PADDING)]}

    async def run(self, enough: asyncio.Event) -> None:
        try:
            while not enough.is_set():
                await self.produce()
                await asyncio.sleep(PAUSE_SECS)
            await self._hear_out()
        finally:
            self._hang_up()

    async def produce(self) -> None:
        n = self.acknowledged
        body = json.dumps(self.message(n)).encode()
        is_retry = False
        while not self._acknowledges(await self._attempt(n, body), n, is_retry):
            is_retry = True
            await asyncio.sleep(PAUSE_SECS)
        self.acknowledged += 1

    async def _hear_out(self) -> None:
        """Nothing was answered that was not asked for."""
        if self._connection is not None:
            assert await self._connection.rest() == b""

    async def _attempt(self, n: int, body: bytes) -> Answer | None:
        try:
            if self._connection is None:
                self._connection = await Connection.open(self._url)
            return await self._connection.ask(
                "POST",
                self._path,
                body,
                content_type=JSON,
                producer_id=self._name,
                producer_epoch=0,
                producer_seq=n,
            )
        except ConnectionRefusedError:
            self.seen["refused connection"] += 1
        except (Broken, ConnectionError):
            self.seen["broken connection"] += 1
        self._hang_up()
        return None

    def _acknowledges(self, answer: Answer | None, n: int, is_retry: bool) -> bool:
        if answer is None:
            return False
        self.seen[str(answer.status)] += 1
        if answer.status == 503:
            assert_unavailable(answer)
            return False
        # Only something that was sent before can be known already.
        assert answer.status in ((200, 204) if is_retry else (200,)), answer
        assert answer["Producer-Epoch"] == "0"
        assert answer["Producer-Seq"] == str(n), answer
        tail = answer["Stream-Next-Offset"]
        assert tail is not None
        assert tail >= self._tail
        self._tail = tail
        return True

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Follower:
    """Goes on at the last offset it was told, however its request ended."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.offset = "-1"
        self.received: list[Message] = []
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            try:
                await self._request()
            except aiohttp.ServerTimeoutError:
                raise
            except aiohttp.ClientConnectorError:
                self.seen["refused connection"] += 1
                await asyncio.sleep(PAUSE_SECS)
            except (aiohttp.ClientError, ConnectionError):
                self.seen["broken connection"] += 1
                await asyncio.sleep(PAUSE_SECS)

    async def _request(self) -> None:
        raise NotImplementedError

    def _take(self, messages: list[Message], offset: str) -> None:
        assert offset >= self.offset
        self.received += messages
        self.offset = offset


class LongPollFollower(Follower):
    async def _request(self) -> None:
        answer = await self.stream.long_poll(self.offset)
        self.seen[str(answer.status)] += 1
        if answer.status == 503:
            assert_unavailable(answer)
            await asyncio.sleep(PAUSE_SECS)
            return
        assert answer.status in (200, 204), answer
        self._take(answer.json() if answer.status == 200 else [], answer.next_offset)


class SseFollower(Follower):
    async def _request(self) -> None:
        async with self.stream.follow(self.offset) as events:
            response = events.response
            self.seen[str(response.status)] += 1
            if response.status == 503:
                assert response.headers["Retry-After"]
                await asyncio.sleep(PAUSE_SECS)
                return
            assert response.status == 200, response
            messages: list[Message] = []
            async for event in events:
                if event.kind == "data":
                    messages += json.loads(event.data)
                else:
                    # Data without the offset behind it will come again.
                    self._take(messages, event.control["streamNextOffset"])
                    messages = []
            self.seen["planned end"] += 1


class Traffic:
    """Two producers, a long-poll and an SSE follower on each of a few streams."""

    def __init__(self, url: str, http: aiohttp.ClientSession, streams: int) -> None:
        self._http = http
        paths = [f"/v1/stream/{unique_name()}" for _ in range(streams)]
        self.streams = [Stream(http, url + path) for path in paths]
        self.producers = {
            path: [Producer(url, path, f"{n}-of-{path}") for n in range(2)] for path in paths
        }
        self.followers = [
            kind(stream) for stream in self.streams for kind in (LongPollFollower, SseFollower)
        ]
        self._enough = asyncio.Event()
        self._producing: list[asyncio.Task[None]] = []
        self._following: list[asyncio.Task[None]] = []

    async def start(self, group: asyncio.TaskGroup) -> None:
        for stream in self.streams:
            assert (await stream.create()).status == 201
        self._producing = [
            group.create_task(producer.run(self._enough)) for producer in self._all_producers()
        ]
        self._following = [group.create_task(follower.run()) for follower in self.followers]

    def end(self) -> None:
        for task in (*self._producing, *self._following):
            task.cancel()

    def seen(self) -> Counter[str]:
        """How often each kind of answer, or of its absence, was met."""
        return sum((follower.seen for follower in self.followers), self.seen_by_producers())

    def seen_by_producers(self) -> Counter[str]:
        return sum((producer.seen for producer in self._all_producers()), Counter())

    async def flows(self, appends: int = 1) -> None:
        """Every producer is acknowledged so many times more, every follower gets something new."""
        acknowledged = [producer.acknowledged + appends for producer in self._all_producers()]
        received = [len(follower.received) + 1 for follower in self.followers]
        await until(lambda: all(map(int.__le__, acknowledged, self._acknowledged())), "appends")
        await until(lambda: all(map(int.__le__, received, self._received())), "deliveries")

    async def finish(self) -> None:
        """The last messages are acknowledged and delivered; nobody sends any more."""
        self._enough.set()
        await asyncio.gather(*self._producing)
        tails = {stream.url: await self._tail(stream) for stream in self.streams}
        for follower in self.followers:
            await until(lambda one=follower: one.offset == tails[one.stream.url], "deliveries")
        for task in self._following:
            task.cancel()

    async def check(self) -> None:
        """What was acknowledged is there once and in order, and so it was delivered."""
        for stream, producers in zip(self.streams, self.producers.values(), strict=True):
            stored = await self._stored(stream)
            assert len(stored) == sum(producer.acknowledged for producer in producers)
            for producer in producers:
                sent = [producer.message(n) for n in range(producer.acknowledged)]
                assert [one for one in stored if one["from"] == sent[0]["from"]] == sent
            for follower in self.followers:
                if follower.stream is stream:
                    assert follower.received == stored

    async def _tail(self, stream: Stream) -> str:
        """Reads may still be refused when appends no longer are: they have their own connection."""
        return (await eventually(stream.head, lambda answer: answer.status != 503)).next_offset

    async def _stored(self, stream: Stream) -> list[Message]:
        answers = await stream.read_to_the_tail()
        return [message for answer in answers for message in answer.json()]

    def _all_producers(self) -> list[Producer]:
        return [producer for group in self.producers.values() for producer in group]

    def _acknowledged(self) -> list[int]:
        return [producer.acknowledged for producer in self._all_producers()]

    def _received(self) -> list[int]:
        return [len(follower.received) for follower in self.followers]


@asynccontextmanager
async def traffic(
    url: str, http: aiohttp.ClientSession, *, streams: int = 2
) -> AsyncIterator[Traffic]:
    """Runs while the body does; an answer that must not be ends both."""
    running = Traffic(url, http, streams)
    async with asyncio.TaskGroup() as group:
        await running.start(group)
        try:
            yield running
        finally:
            running.end()


def patient_session() -> aiohttp.ClientSession:
    """A request lasts as long as it likes, but may not be silent for a minute."""
    patience = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patience)


def assert_unavailable(answer: Any) -> None:
    assert_problem(answer, 503)
    assert int(answer["Retry-After"]) >= 1


async def until(condition: Callable[[], bool], what: str, timeout: float = 60) -> None:
    try:
        async with asyncio.timeout(timeout):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(PAUSE_SECS)
    except TimeoutError:
        raise AssertionError(f"waited {timeout} s for {what}") from None
