"""Very many streams of which nearly all are idle."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence

from loadtest import wire
from loadtest.content import LINE
from loadtest.generator import TEXT, Connection, Target, append_request, expect, fresh_names
from loadtest.measurement import Outcome, Run
from loadtest.one_by_one import APPENDS, WARM_UP, p50_ms, p50_ms_in_turns
from loadtest.watch import FRESH_SECS, Watch

CONNECTIONS = 16
LOOK_SECS = 0.5
CALM_SECS = 10.0
CALM_BYTES = 16 * 1024
PATIENCE_SECS = 300.0


async def many_streams(run: Run) -> Outcome:
    """Each is created and appended to once, and then left alone until it costs no less any more."""
    watch = await Watch.begin(run)
    names = fresh_names(run.size)
    async with watch.watching():
        began = time.perf_counter()
        await _make(run.target, names)
        made = time.perf_counter() - began
        rest = await _rest(watch)
    one, many = await _append_p50_ms(run.target, names)
    figures = {
        "streams": run.size,
        "made_rate": run.size / made,
        "one_ms": one,
        "many_ms": many,
        "many_ratio": many / one,
        **watch.figures(),
        **rest,
    }
    if rest:
        figures["idle_bytes"] = rest["idle_bytes"] / run.size
    return Outcome(figures)


async def _make(target: Target, names: Sequence[str]) -> None:
    connections = await target.connect_many([Connection] * CONNECTIONS)
    for requests in (
        (wire.request("PUT", target.stream(name), TEXT) for name in names),
        (append_request(target, name, LINE) for name in names),
    ):
        await asyncio.gather(*(_ask_in_turn(requests, one) for one in connections))
    for connection in connections:
        connection.close()


async def _ask_in_turn(requests: Iterator[bytes], connection: Connection) -> None:
    for request in requests:
        await expect(connection.ask(request))


async def _rest(watch: Watch) -> dict[str, float]:
    """What Redis uses more than at its start once that has stopped falling, and how soon."""
    began = settled = time.perf_counter()
    await asyncio.sleep(FRESH_SECS)
    used = least = await watch.used_over_start()
    if used is None or least is None:
        return {}
    while time.perf_counter() < settled + CALM_SECS:
        if settled > began + PATIENCE_SECS:
            raise ConnectionError(f"Redis is not at rest after {PATIENCE_SECS:.0f} s")
        await asyncio.sleep(LOOK_SECS)
        used = await watch.used_over_start() or 0.0
        if used < least - CALM_BYTES:
            least, settled = used, time.perf_counter()
    return {"idle_bytes": used, "lag_secs": settled - began}


async def _append_p50_ms(target: Target, names: Sequence[str]) -> tuple[float, float]:
    """To one stream, and to any of the others."""
    connection = await target.connect(Connection)
    one, *others = (append_request(target, name, LINE) for name in names)
    await p50_ms(connection, [one] * WARM_UP)
    pairs = [(one, other) for other in random.choices(others, k=APPENDS)]
    return await p50_ms_in_turns(connection, pairs)
