"""Clients that append and remember what became of it."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass

import aiohttp
from support.client import Answer, Stream
from support.history import NEVER, Append, History, Outcome, Sequence
from support.producers import assert_unavailable

PATIENCE_SECS = 40.0
"""Longer than the server's own patience with what it stands on."""

RETRY_SECS = 0.05


@dataclass(frozen=True, slots=True)
class Manner:
    """How a writer writes: the pause after each append, the bytes beside a unit's name."""

    longest_pause_secs: float
    paddings: tuple[int, ...]


class Client:
    """Someone who uses one stream; `done` counts what succeeded."""

    def __init__(self, stream: Stream, history: History, name: str, chance: random.Random) -> None:
        self.stream = stream
        self.history = history
        self.name = name
        self.chance = chance
        self.done = 0
        self.seen: Counter[str] = Counter()

    async def ask(self, request: Awaitable[Answer]) -> Answer | None:
        """None when no whole answer came."""
        try:
            async with asyncio.timeout(PATIENCE_SECS):
                answer = await request
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            self.seen[type(error).__name__] += 1
            return None
        self.seen[str(answer.status)] += 1
        if answer.status == 503:
            assert_unavailable(answer)
        return answer


class Writer(Client):
    """Appends without a producer, and never says anything twice."""

    def __init__(
        self,
        stream: Stream,
        history: History,
        name: str,
        chance: random.Random,
        manner: Manner,
    ) -> None:
        super().__init__(stream, history, name, chance)
        self._manner = manner
        self._said = 0

    async def run(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await self.write()
            await asyncio.sleep(self.chance.uniform(0, self._manner.longest_pause_secs))

    async def write(self) -> None:
        units, began = self.new_units(), time.monotonic()
        answer = await self.ask(self.stream.append(self.body(units)))
        assert answer is None or answer.status in (204, 503), (self.name, answer)
        self.record(units, began, answer)

    def new_units(self) -> tuple[bytes, ...]:
        count = self.chance.choice([1, 1, 1, 2, 5])
        return tuple(self._new_unit() for _ in range(count))

    def _new_unit(self) -> bytes:
        self._said += 1
        text = f"{self.name}-{self._said}-".encode() + b"x" * self.chance.choice(
            self._manner.paddings
        )
        return b'"%s",' % text if self.history.separator == b"," else text + b"\n"

    def body(self, units: tuple[bytes, ...]) -> bytes:
        row = b"".join(units)
        return b"[" + row[:-1] + b"]" if self.history.separator == b"," else row

    def record(
        self,
        units: tuple[bytes, ...],
        began: float,
        answer: Answer | None,
        sequence: Sequence | None = None,
    ) -> None:
        outcome, ended, tail = Outcome.UNKNOWN, NEVER, None
        if answer is not None and answer.status != 503:
            ended = time.monotonic()
            outcome = Outcome.ACKNOWLEDGED if answer.status < 300 else Outcome.REFUSED
            tail = answer.position if outcome is Outcome.ACKNOWLEDGED else None
            self.done += 1
        self.history.appends.append(Append(units, began, ended, outcome, sequence, tail))


class Producer(Writer):
    """Sends again until it is acknowledged; now and then it begins a new epoch."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        self.epoch = 0
        self.seq = 0

    async def write(self) -> None:
        units, began = self.new_units(), time.monotonic()
        sequence = Sequence(self.name, self.epoch, self.seq)
        answer = await self._send(units, sequence)
        while answer is None or answer.status == 503:
            await asyncio.sleep(RETRY_SECS)
            answer = await self._send(units, sequence)
        assert answer.status in (200, 204), (self.name, answer)
        self.record(units, began, answer, sequence)
        self._advance()

    async def _send(self, units: tuple[bytes, ...], sequence: Sequence) -> Answer | None:
        producer, epoch, seq = sequence.producer, sequence.epoch, sequence.seq
        return await self.ask(self.stream.produce(self.body(units), producer, epoch, seq))

    def _advance(self) -> None:
        if self.chance.random() < 0.02:
            self.epoch, self.seq = self.epoch + 1, 0
        else:
            self.seq += 1


class Trespasser(Producer):
    """Says one thing in its second epoch, and from then on only what must be refused."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)
        self.epoch = 1

    async def write(self) -> None:
        if not self.seq:
            await super().write()
        else:
            await self._trespass()

    async def _trespass(self) -> None:
        units, began = self.new_units(), time.monotonic()
        answer = await self.ask(self._forbidden(self.body(units)))
        assert answer is None or answer.status in (403, 409, 503), (self.name, answer)
        self.record(units, began, answer)

    def _forbidden(self, body: bytes) -> Awaitable[Answer]:
        """From an epoch that is over, after a gap, or of another type."""
        match self.chance.randrange(3):
            case 0:
                return self.stream.produce(body, self.name, self.epoch - 1, 0)
            case 1:
                return self.stream.produce(body, self.name, self.epoch, self.seq + 1)
            case _:
                return self.stream.append(body, content_type="image/png")
