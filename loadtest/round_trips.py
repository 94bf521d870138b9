"""From an append to the long-poll that waits for it."""

import asyncio
import itertools
import time
from collections.abc import Iterator

from loadtest import wire
from loadtest.generator import (
    Connection,
    Tally,
    Target,
    append_request,
    create_streams,
    expect,
    fresh_names,
)
from loadtest.measurement import MESSAGE_BYTES, WARM_UP_SECS, Outcome, Run, Window

PAIRS = 8
POLL_SETTLES_SECS = 0.002


async def round_trips(run: Run) -> Outcome:
    """Append on one connection; how long until a long-poll that waits on another has it.

    Pairs of connections take turns, so that servers with several processes show all the ways.
    """
    pairs = [await Pair.connected(run.target, name) for name in fresh_names(PAIRS)]
    tally = Tally()
    turns = itertools.cycle(pairs)
    await _take_turns(turns, tally, WARM_UP_SECS)
    window = Window(run, tally)
    await _take_turns(turns, tally, run.secs)
    outcome = window.close()
    del outcome.figures["rate"]  # it only says how long the pauses are
    for pair in pairs:
        pair.close()
    return outcome


class Pair:
    """A writer and a reader of one stream."""

    def __init__(
        self, target: Target, stream: str, offset: str, writer: Connection, reader: Connection
    ) -> None:
        self._path = target.stream(stream)
        self._writer = writer
        self._reader = reader
        self._body = b"x" * MESSAGE_BYTES
        self._append = append_request(target, stream, self._body)
        self._offset = offset

    @classmethod
    async def connected(cls, target: Target, stream: str) -> "Pair":
        [offset] = await create_streams(target, [stream])
        return cls(target, stream, offset, *await target.connect_many([Connection, Connection]))

    def close(self) -> None:
        self._writer.close()
        self._reader.close()

    async def round_trip(self) -> float:
        query = f"{self._path}?offset={self._offset}&live=long-poll"
        polled = self._reader.ask(wire.request("GET", query))
        await asyncio.sleep(POLL_SETTLES_SECS)
        began = time.perf_counter()
        appended = self._writer.ask(self._append)
        answer = await expect(polled)
        took = time.perf_counter() - began
        await expect(appended)
        if answer.body != self._body:
            raise ConnectionError(
                f"a long-poll got {len(answer.body)} bytes, and not those appended"
            )
        self._offset = answer.headers["stream-next-offset"]
        return took


async def _take_turns(turns: Iterator[Pair], tally: Tally, secs: float) -> None:
    end = time.perf_counter() + secs
    while time.perf_counter() < end:
        tally.seconds.append(await next(turns).round_trip())
