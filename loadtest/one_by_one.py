"""How long single small appends take on a connection that has nothing else to do."""

import statistics
import time
from collections.abc import Iterable

from loadtest.generator import Connection, expect

WARM_UP = 100
APPENDS = 500


async def p50_ms(connection: Connection, requests: Iterable[bytes]) -> float:
    return _p50_ms([await _seconds_of(connection, request) for request in requests])


async def p50_ms_in_turns(
    connection: Connection, pairs: Iterable[tuple[bytes, bytes]]
) -> tuple[float, float]:
    """Of the first of each pair and of the second: both see the same machine."""
    first, second = [], []
    for one, other in pairs:
        first.append(await _seconds_of(connection, one))
        second.append(await _seconds_of(connection, other))
    return _p50_ms(first), _p50_ms(second)


async def _seconds_of(connection: Connection, request: bytes) -> float:
    began = time.perf_counter()
    await expect(connection.ask(request))
    return time.perf_counter() - began


def _p50_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000
