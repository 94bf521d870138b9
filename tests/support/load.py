"""Many clients on a few streams of one server, whose histories are checked in the end."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from support.checker import violations
from support.client import BYTES, JSON, Answer, Stream, eventually, unique_name
from support.history import History
from support.producers import patient_session, until
from support.readers import Browser, Follower, Listener, LongPoller, Reader
from support.writers import Client, Manner, Producer, Trespasser, Writer

BUSY = Manner(0.4, (0, 20, 300, 2_000, 90, 9_000, 20_000))
"""The longest unit does not travel with a wake-up."""

CALM = Manner(2.0, (0, 20, 300))
"""Never completes a chunk: what it appends is sealed for its age."""

RARE = Manner(1.0, (0, 20, 300))

HEALING_SECS = 120.0
MOST_SHOWN = 20


@dataclass
class Party:
    """Everybody who uses one stream."""

    stream: Stream
    history: History
    writers: list[Writer]
    readers: list[Reader]

    @classmethod
    def busy(cls, stream: Stream, chance: random.Random) -> "Party":
        return cls.of(stream, chance, [Writer, Writer, Producer, Producer], BUSY)

    @classmethod
    def calm(cls, stream: Stream, chance: random.Random) -> "Party":
        return cls.of(stream, chance, [Producer], CALM)

    @classmethod
    def of(
        cls, stream: Stream, chance: random.Random, kinds: list[type[Writer]], manner: Manner
    ) -> "Party":
        history = History(b"," if stream.content_type == JSON else b"\n")
        writers = [kind(stream, history, f"w{n}", chance, manner) for n, kind in enumerate(kinds)]
        writers.append(Trespasser(stream, history, "t", chance, RARE))
        readers = [
            kind(stream, history, kind.__name__, chance)
            for kind in (Browser, Browser, LongPoller, Listener)
        ]
        return cls(stream, history, writers, readers)

    @property
    def followers(self) -> list[Follower]:
        return [one for one in self.readers if isinstance(one, Follower)]

    async def reached_by_followers(self) -> None:
        tail = (await patiently(self.stream)).position
        await until(lambda: all(one.position == tail for one in self.followers), "deliveries")

    async def settle(self) -> None:
        """What is stored in the end is the agreed order."""
        reader = Browser(self.stream, self.history, "the last reader", random.Random())
        answers = await self.stream.read_to_the_tail()
        self.history.content = b"".join(reader.stored(answer.body) for answer in answers)


class Load:
    def __init__(self, url: str, http: aiohttp.ClientSession, chance: random.Random) -> None:
        def stream(content_type: str) -> Stream:
            return Stream(http, f"{url}/v1/stream/{unique_name()}", content_type)

        self._busy = [Party.busy(stream(kind), chance) for kind in (JSON, BYTES)]
        self.parties = [*self._busy, Party.calm(stream(JSON), chance)]
        self._enough = asyncio.Event()
        self._writing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    async def start(self, group: asyncio.TaskGroup) -> None:
        for party in self.parties:
            assert (await party.stream.create()).status == 201
            self._writing += [group.create_task(one.run(self._enough)) for one in party.writers]
            self._reading += [group.create_task(one.run()) for one in party.readers]

    def end(self) -> None:
        for task in (*self._writing, *self._reading):
            task.cancel()

    @property
    def writers(self) -> list[Client]:
        return [one for party in self.parties for one in party.writers]

    @property
    def readers(self) -> list[Client]:
        return [one for party in self.parties for one in party.readers]

    async def appends_go_on(self) -> None:
        await _progress(self.writers, "appends")

    def refused_appends(self) -> int:
        """How many were answered with 503."""
        return sum(writer.seen["503"] for writer in self.writers)

    async def appends_are_refused(self) -> None:
        already = self.refused_appends()
        await until(lambda: self.refused_appends() > already, "a 503", HEALING_SECS)

    async def flows(self) -> None:
        """Everybody succeeds once more."""
        await self.appends_go_on()
        await _progress(self.readers, "reads")

    async def has_a_past(self, size: int) -> None:
        """The busy streams are so long that most of what is read of them was sealed before."""
        followers = [one for party in self._busy for one in party.followers]
        await until(lambda: all(one.position >= size for one in followers), "a past", HEALING_SECS)

    async def finish(self) -> None:
        """The last appends are answered and delivered; nobody writes any more."""
        self._enough.set()
        await asyncio.gather(*self._writing)
        for party in self.parties:
            await party.reached_by_followers()
        for task in self._reading:
            task.cancel()

    async def check(self) -> None:
        for party in self.parties:
            await party.settle()
        found = [one for party in self.parties for one in violations(party.history)]
        assert not found, "\n".join(found[:MOST_SHOWN])

    def seen(self) -> dict[str, Counter[str]]:
        """What each kind of client was answered, and how often."""
        seen: dict[str, Counter[str]] = {}
        for client in (*self.writers, *self.readers):
            seen[kind] = seen.get(kind := type(client).__name__, Counter()) + client.seen
        return seen


@asynccontextmanager
async def load(url: str, chance: random.Random) -> AsyncIterator[Load]:
    """Runs while the body does; an answer that must not be ends both."""
    async with patient_session() as http, asyncio.TaskGroup() as group:
        running = Load(url, http, chance)
        await running.start(group)
        try:
            yield running
        finally:
            running.end()


async def patiently(stream: Stream) -> Answer:
    return await eventually(stream.head, lambda answer: answer.status != 503)


async def _progress(clients: list[Client], what: str) -> None:
    wanted = [client.done + 1 for client in clients]

    def made() -> bool:
        return all(one.done >= goal for one, goal in zip(clients, wanted, strict=True))

    await until(made, what, HEALING_SECS)
