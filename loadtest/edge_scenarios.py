"""The work that is given to servers behind an edge."""

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, field

from loadtest import replay, wire
from loadtest.content import MIB
from loadtest.edge_client import Reader
from loadtest.edge_stacks import Counts, Stack
from loadtest.filling import Filling
from loadtest.follower import message
from loadtest.generator import TEXT, Connection, append_request, create_streams, expect, fresh_names

PATIENCE_SECS = 60.0
PAUSE_SECS = 0.5
MESSAGE_BYTES = 200
JOINING_SECS = 10.0
JOINERS_STAY_SECS = 5.0
HISTORY_MIB = 5
WRITES_PER_SECOND = 50


@dataclass
class Result:
    """Figures of one run; a run with errors counts for nothing."""

    scenario: str
    stack: str
    figures: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Meter:
    """What a piece of work costs, from here to `into`."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = self._now()

    def _now(self) -> tuple[float, Counts, float, float]:
        stack = self._stack
        cpu = (stack.server.cpu_seconds(), stack.edge_tree.cpu_seconds())
        return (time.monotonic(), stack.counts(), *cpu)

    def into(self, result: Result) -> None:
        began, counts, server, edge = self._before
        now, counts_now, server_now, edge_now = self._now()
        result.figures |= {
            "seconds": now - began,
            "requests": counts_now.requests - counts.requests,
            "server_cpu": server_now - server,
            "edge_cpu": edge_now - edge,
            "edge_mb": self._stack.edge_tree.memory().server,
        }
        if counts.body_bytes is not None and counts_now.body_bytes is not None:
            result.figures["origin_mb"] = (counts_now.body_bytes - counts.body_bytes) / 1e6


async def replayed(stack: Stack, readers: int, mib: int) -> Result:
    """Everyone replays the same closed stream at once, every byte checked."""
    result = Result("replay", stack.name)
    [stream] = fresh_names(1)
    await create_streams(stack.direct, [stream])
    filling = Filling(stack.direct, stream)
    await filling.up_to(mib * MIB)
    await _close(stack, stream)
    result.figures["chunks"] = await _stored(stack, stream)
    meter = Meter(stack)
    reading = (replay.replay(stack.edge, stream, filling.held) for _ in range(readers))
    for outcome in await asyncio.gather(*reading, return_exceptions=True):
        if isinstance(outcome, BaseException):
            result.errors.append(str(outcome))
    meter.into(result)
    result.figures["mb_per_s"] = readers * filling.held / 1e6 / result.figures["seconds"]
    return result


async def _close(stack: Stack, stream: str) -> None:
    connection = await stack.direct.connect(Connection)
    close = wire.request("POST", stack.direct.stream(stream), {**TEXT, "Stream-Closed": "true"})
    await expect(connection.ask(close))
    connection.close()


async def _stored(stack: Stack, stream: str) -> int:
    """How many answers the stream is read in, once all of them are objects."""
    while True:
        answers = await _walk(stack, stream)
        if stack.name == "node" or all("ds-object" in headers for headers in answers):
            return len(answers)
        await asyncio.sleep(0.2)


async def _walk(stack: Stack, stream: str) -> list[dict[str, str]]:
    connection = await stack.direct.connect(Connection)
    offset, answers = "-1", []
    while True:
        path = f"{stack.direct.stream(stream)}?offset={offset}"
        answer = await expect(
            connection.ask(wire.request("GET", path, {"DS-Edge-Secret": stack.secret}))
        )
        answers.append(dict(answer.headers))
        offset = answer.headers["stream-next-offset"]
        if "stream-up-to-date" in answer.headers:
            connection.close()
            return answers


class Crowd:
    """Readers of one stream, and who tells them something when all have heard what was before."""

    def __init__(self, stack: Stack, size: int) -> None:
        self._stack, self._size = stack, size
        [self.stream] = fresh_names(1)
        self.readers: list[Reader] = []
        self.seconds: list[float] = []
        self.turned_away = 0
        self._heard = 0
        self._all_heard = asyncio.Event()

    async def gather(self) -> None:
        [offset] = await create_streams(self._stack.direct, [self.stream])
        self.writer = await self._stack.direct.connect(Connection)
        for _ in range(self._size):
            reader = Reader(self._stack.edge, self.stream, self._hear)
            reader.offset = offset
            self.readers.append(reader)
        for first in range(0, self._size, 100):
            await asyncio.gather(*(r.connect() for r in self.readers[first : first + 100]))

    def _hear(self, number: int) -> None:
        self.seconds.append(time.perf_counter() - self._sent)
        self._heard += 1
        if self._heard == self._size:
            self._all_heard.set()

    async def next(self, reader: Reader, number: int) -> None:
        """As a client does: who is turned away comes again."""
        while reader.next <= number:
            try:
                await reader.long_poll()
            except ConnectionError:
                self.turned_away += 1
                await asyncio.sleep(PAUSE_SECS)
                await reader.connect()

    async def tell(self, number: int) -> None:
        self._heard = 0
        self._all_heard.clear()
        self._sent = time.perf_counter()
        body = message(number, MESSAGE_BYTES)
        await expect(self.writer.ask(append_request(self._stack.direct, self.stream, body)))
        await asyncio.wait_for(self._all_heard.wait(), PATIENCE_SECS)

    def judge(self, result: Result, messages: int) -> None:
        for reader in self.readers:
            if reader.wrong or reader.next != messages:
                result.errors.append(f"a reader ended at {reader.next}, {reader.wrong} wrong")
            reader.client.close()
        self.seconds.sort()
        result.figures["p50_ms"] = self.seconds[len(self.seconds) // 2] * 1000
        result.figures["p99_ms"] = self.seconds[len(self.seconds) * 99 // 100] * 1000
        result.figures["messages"] = messages
        result.figures["turned_away"] = self.turned_away


async def followed(stack: Stack, readers: int, messages: int) -> Result:
    """SSE: everyone is connected before the first message is appended."""
    result = Result("sse", stack.name)
    crowd = Crowd(stack, readers)
    await crowd.gather()
    meter = Meter(stack)
    following = [asyncio.create_task(reader.follow(messages)) for reader in crowd.readers]
    for reader in crowd.readers:
        await reader.client.begun.wait()
    for number in range(messages):
        await crowd.tell(number)
    meter.into(result)
    await _cancel(following)
    crowd.judge(result, messages)
    return result


async def polled(stack: Stack, readers: int, messages: int) -> Result:
    """Long-poll: a message is appended when everybody waits for it."""
    result = Result("long-poll", stack.name)
    crowd = Crowd(stack, readers)
    await crowd.gather()
    meter = Meter(stack)
    for number in range(messages):
        polling = [asyncio.create_task(crowd.next(reader, number)) for reader in crowd.readers]
        await asyncio.sleep(0.5)
        await crowd.tell(number)
        await asyncio.gather(*polling)
    meter.into(result)
    crowd.judge(result, messages)
    return result


async def joined(stack: Stack, readers: int) -> Result:
    """They come while the stream is being written, replay it, and follow it live."""
    result = Result("joiners", stack.name)
    [stream] = fresh_names(1)
    await create_streams(stack.direct, [stream])
    writer = Writer(stack, stream)
    await writer.history(HISTORY_MIB * MIB)
    crowd = [Reader(stack.edge, stream, _ignore) for _ in range(readers)]
    meter = Meter(stack)
    writing = asyncio.create_task(writer.write())
    end = writer.written + int(WRITES_PER_SECOND * (JOINING_SECS + JOINERS_STAY_SECS))
    pace = Pace(stack)
    joining = []
    for reader in crowd:
        joining.append(asyncio.create_task(_join(reader, end, pace)))
        await asyncio.sleep(JOINING_SECS / readers)
    result.figures |= await pace.until(readers)
    for outcome in await asyncio.gather(*joining, return_exceptions=True):
        if isinstance(outcome, BaseException):
            result.errors.append(str(outcome))
    meter.into(result)
    await _cancel([writing])
    result.errors += [f"{reader.wrong} messages out of order" for reader in crowd if reader.wrong]
    return result


def _ignore(number: int) -> None:
    pass


async def _join(reader: Reader, end: int, pace: "Pace") -> None:
    await reader.connect()
    try:
        await reader.catch_up()
    finally:
        pace.caught_up.release()
    await reader.follow(end)


class Pace:
    """How many requests reach the server in each second, until the last joiner has caught up."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.caught_up = asyncio.Semaphore(0)
        self._samples = [self._sample()]
        self._sampling = asyncio.create_task(self._run())

    def _sample(self) -> tuple[float, int]:
        return time.monotonic(), self._stack.counts().requests

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._samples.append(await asyncio.to_thread(self._sample))

    async def until(self, readers: int) -> dict[str, float]:
        for _ in range(readers):
            await self.caught_up.acquire()
        self._samples.append(self._sample())
        await _cancel([self._sampling])
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        steps = itertools.pairwise(self._samples)
        peak = max((count - known) / max(1.0, now - then) for (then, known), (now, count) in steps)
        mean = (after - before) / (ended - began)
        return {"per_second": mean, "peak": peak, "joining": ended - began}


class Writer:
    def __init__(self, stack: Stack, stream: str) -> None:
        self._stack, self._stream = stack, stream
        self.written = 0

    async def history(self, size: int) -> None:
        connection = await self._stack.direct.connect(Connection)
        while self.written * MESSAGE_BYTES < size:
            await self._append(connection, 1000)
        connection.close()

    async def write(self) -> None:
        connection = await self._stack.direct.connect(Connection)
        while True:
            await self._append(connection, 1)
            await asyncio.sleep(1 / WRITES_PER_SECOND)

    async def _append(self, connection: Connection, count: int) -> None:
        numbers = range(self.written, self.written + count)
        body = b"".join(message(number, MESSAGE_BYTES) for number in numbers)
        await expect(connection.ask(append_request(self._stack.direct, self._stream, body)))
        self.written += count


async def _cancel(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
