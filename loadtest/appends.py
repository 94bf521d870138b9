"""Appends as fast as they are answered."""

import asyncio
import functools
import itertools
from collections.abc import Iterator, Sequence

from loadtest.generator import Appender, Tally, Target, append_request, create_streams, fresh_names
from loadtest.measurement import WARM_UP_SECS, Outcome, Run, Window

BODY_BYTES = 256


async def appends(run: Run, *, connections: int, streams: int) -> Outcome:
    """Each connection appends to the streams in turn; they start at different ones."""
    tally = Tally()
    appenders = await _connected(
        run.target, connections, await _requests(run.target, streams), tally
    )
    for appender in appenders:
        appender.start()
    await asyncio.sleep(WARM_UP_SECS)
    window = Window(run, tally)
    await asyncio.sleep(run.secs)
    outcome = window.close()
    for appender in appenders:
        appender.stop()
    return outcome


async def _requests(target: Target, streams: int) -> list[bytes]:
    names = fresh_names(streams)
    await create_streams(target, names)
    return [append_request(target, name, b"x" * BODY_BYTES) for name in names]


async def _connected(
    target: Target, connections: int, requests: Sequence[bytes], tally: Tally
) -> list[Appender]:
    starts = [number * len(requests) // connections for number in range(connections)]
    turns = [_from(requests, start) for start in starts]
    return await target.connect_many([functools.partial(Appender, turn, tally) for turn in turns])


def _from(requests: Sequence[bytes], start: int) -> Iterator[bytes]:
    return itertools.cycle([*requests[start:], *requests[:start]])
