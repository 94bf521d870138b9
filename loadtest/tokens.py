"""AI token streaming: many answers at once, each written token by token and followed live."""

import asyncio
import functools
import time
from collections.abc import Sequence

from loadtest import wire
from loadtest.follower import Follower, message
from loadtest.generator import (
    Connection,
    Tally,
    Target,
    append_request,
    create_streams,
    describe,
    fresh_names,
)
from loadtest.measurement import WARM_UP_SECS, Outcome, Run, Window

STREAMS = 500
TOKENS_PER_SEC = 30
FOLLOWERS = 2
TOKEN_BYTES = 24
SLICES = 10
PATIENCE_SECS = 30.0


async def tokens(run: Run) -> Outcome:
    """Every token must arrive. Its time runs from when it was there to be sent."""
    tally = Tally()
    answers = await _begun(run.target, tally)
    await _generate(answers, WARM_UP_SECS)
    window, before = Window(run, tally), _appends(answers)
    await _generate(answers, run.secs)
    outcome = window.close()
    outcome.figures["append_rate"] = (_appends(answers) - before) / run.secs
    await _until_all_heard(answers)
    for answer in answers:
        answer.stop()
    return Outcome(outcome.figures, dict(tally.errors), outcome.generator_busy)


async def _begun(target: Target, tally: Tally) -> list["Answer"]:
    names = fresh_names(STREAMS)
    offsets = await create_streams(target, names)
    answers = [Answer(target, name, tally) for name in names]
    for answer, offset in zip(answers, offsets, strict=True):
        await answer.begin(offset)
    return answers


async def _generate(answers: Sequence["Answer"], secs: float) -> None:
    """Not all at the same instant: each slice of them a little later than the one before."""
    period = 1 / TOKENS_PER_SEC
    began = due = time.perf_counter()
    turn = 0
    while due < began + secs:
        for answer in answers[turn % SLICES :: SLICES]:
            answer.generate()
        turn += 1
        due = began + turn * period / SLICES
        await asyncio.sleep(max(0.0, due - time.perf_counter()))


async def _until_all_heard(answers: Sequence["Answer"]) -> None:
    end = time.perf_counter() + PATIENCE_SECS
    while any(not answer.is_heard for answer in answers):
        if time.perf_counter() > end:
            late = sum(not answer.is_heard for answer in answers)
            raise ConnectionError(f"{late} answers are not complete after {PATIENCE_SECS:.0f} s")
        await asyncio.sleep(0.05)


def _appends(answers: Sequence["Answer"]) -> int:
    return sum(answer.appends for answer in answers)


class Answer:
    """One append at a time; tokens that come meanwhile travel together in the next one."""

    def __init__(self, target: Target, stream: str, tally: Tally) -> None:
        self._target = target
        self._stream = stream
        self._tally = tally
        self._generated_at: list[float] = []
        self._sent = 0
        self._heard = 0
        self._appended: asyncio.Future[wire.Answer] | None = None
        self.appends = 0

    async def begin(self, offset: str) -> None:
        path = f"{self._target.stream(self._stream)}?offset={offset}&live=sse"
        make = functools.partial(Follower, wire.request("GET", path), self._hear, self._tally)
        self._followers = await self._target.connect_many([make] * FOLLOWERS)
        for follower in self._followers:
            await follower.begun()
        self._writer = await self._target.connect(Connection)

    @property
    def is_heard(self) -> bool:
        return self._heard == FOLLOWERS * len(self._generated_at)

    def generate(self) -> None:
        self._generated_at.append(time.perf_counter())
        if self._appended is None:
            self._append()

    def stop(self) -> None:
        for follower in self._followers:
            follower.stop()
        self._writer.close()

    def _append(self) -> None:
        numbers = range(self._sent, len(self._generated_at))
        body = b"".join([message(number, TOKEN_BYTES) for number in numbers])
        self._sent = len(self._generated_at)
        self.appends += 1
        self._appended = self._writer.ask(append_request(self._target, self._stream, body))
        self._appended.add_done_callback(self._go_on)

    def _go_on(self, appended: "asyncio.Future[wire.Answer]") -> None:
        self._appended = None
        if appended.exception():
            self._tally.fail(str(appended.exception()))
        elif not appended.result().succeeded:
            self._tally.fail(describe(appended.result()))
        elif self._sent < len(self._generated_at):
            self._append()

    def _hear(self, number: int) -> None:
        self._heard += 1
        self._tally.seconds.append(time.perf_counter() - self._generated_at[number])
