"""One stream to very many followers by server-sent events."""

import asyncio
import functools
import time

from loadtest import wire
from loadtest.follower import Follower, message
from loadtest.generator import (
    Connection,
    Tally,
    Target,
    append_request,
    create_streams,
    expect,
    fresh_names,
)
from loadtest.measurement import MESSAGE_BYTES, Outcome, Run, Window

WARM_UP_MESSAGES = 10
WARM_UP_SECS = 5.0
MESSAGES = 100
LONGEST_SECS = 30.0
PATIENCE_SECS = 30.0


async def fan_out(
    run: Run, *, followers: int, stalled: int = 0, size: int = MESSAGE_BYTES
) -> Outcome:
    """Each message is appended when everyone has the one before, so that nobody waits in a queue.

    A server that takes too long over it gets fewer messages: `messages` says how many. Those who
    are stalled never read what they asked for, and nobody waits for them.
    """
    tally = Tally()
    crowd = Crowd(run.target, tally, followers, size)
    await crowd.gather(stalled)
    await crowd.tell(WARM_UP_MESSAGES, WARM_UP_SECS)
    window = Window(run, tally)
    messages = await crowd.tell(MESSAGES, LONGEST_SECS)
    outcome = window.close()
    outcome.figures["messages"] = messages
    crowd.disperse()
    return outcome


class Crowd:
    """All followers of one stream, and who writes to it."""

    def __init__(self, target: Target, tally: Tally, size: int, message_bytes: int) -> None:
        self._target = target
        self._tally = tally
        self._size = size
        self._message_bytes = message_bytes
        [self._stream] = fresh_names(1)
        self._told = 0
        self._heard = 0
        self._all_heard = asyncio.Event()

    async def gather(self, stalled: int) -> None:
        [offset] = await create_streams(self._target, [self._stream])
        follow = wire.request(
            "GET", self._target.stream(self._stream) + f"?offset={offset}&live=sse"
        )
        make = functools.partial(Follower, follow, self._hear, self._tally)
        self._stalled = await self._target.connect_many([make] * stalled)
        self._followers = await self._target.connect_many([make] * self._size)
        for follower in [*self._stalled, *self._followers]:
            await follower.begun()
        for follower in self._stalled:
            follower.stall()
        self._writer = await self._target.connect(Connection)

    async def tell(self, messages: int, secs: float) -> int:
        """How many messages everyone got in that time."""
        end = time.perf_counter() + secs
        for number in range(messages):
            if time.perf_counter() > end:
                return number
            await self._tell_one()
        return messages

    def disperse(self) -> None:
        self._writer.close()
        for follower in [*self._stalled, *self._followers]:
            follower.stop()

    async def _tell_one(self) -> None:
        body = message(self._told, self._message_bytes)
        self._heard = 0
        self._all_heard.clear()
        self._sent = time.perf_counter()
        appended = self._writer.ask(append_request(self._target, self._stream, body))
        await self._until_all_heard()
        await expect(appended)
        self._told += 1

    async def _until_all_heard(self) -> None:
        try:
            await asyncio.wait_for(self._all_heard.wait(), PATIENCE_SECS)
        except TimeoutError:
            lost = f"message {self._told} reached {self._heard} of {self._size} followers"
            raise ConnectionError(lost) from None

    def _hear(self, number: int) -> None:
        self._tally.seconds.append(time.perf_counter() - self._sent)
        self._heard += 1
        if self._heard == self._size:
            self._all_heard.set()
