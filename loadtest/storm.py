"""Very many who come to follow a stream and leave again: how fast, and what is left of them."""

import asyncio
import functools
import time
from collections.abc import Iterator

from loadtest import wire
from loadtest.follower import Follower
from loadtest.generator import Tally, Target, create_streams, fresh_names
from loadtest.measurement import Outcome, Run, Window

STREAMS = 100
AT_ONCE = 100
LOOKS = 50
LOOK_SECS = 0.2


async def storm(run: Run) -> Outcome:
    """`left` are the descriptors that the server has more than before, once all are gone."""
    names = fresh_names(STREAMS)
    offsets = await create_streams(run.target, names)
    paths = [
        f"{run.target.stream(name)}?offset={offset}&live=sse"
        for name, offset in zip(names, offsets, strict=True)
    ]
    tally, visits = Tally(), iter(range(run.size))
    before = run.server.open_files() if run.server else 0
    window = Window(run, tally)
    await asyncio.gather(*(_visit(run.target, paths, visits, tally) for _ in range(AT_ONCE)))
    outcome = window.close()
    outcome.figures |= {"visits": run.size, "left": await _left(run, before)}
    return outcome


async def _visit(target: Target, paths: list[str], visits: Iterator[int], tally: Tally) -> None:
    for number in visits:
        request = wire.request("GET", paths[number % len(paths)])
        began = time.perf_counter()
        follower = await target.connect(functools.partial(Follower, request, _ignore, tally))
        await follower.begun()
        tally.seconds.append(time.perf_counter() - began)
        follower.stop()


def _ignore(number: int) -> None:
    """Nothing is appended."""


async def _left(run: Run, before: int) -> int:
    """After a while: connections are closed one by one."""
    left = 0
    for _ in range(LOOKS if run.server else 0):
        assert run.server is not None
        left = max(0, run.server.open_files() - before)
        if not left:
            break
        await asyncio.sleep(LOOK_SECS)
    return left
