"""How often and how long to try before a store counts as unavailable."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tiering.errors import Unavailable

T = TypeVar("T")


class Transient(Unavailable):
    """Another attempt may succeed at once."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`read_secs` is silence; `attempt_secs` a whole attempt, waiting for a connection included.

    Of a stream, only the beginning is an attempt.
    """

    attempts: int = 4
    connect_secs: float = 3.0
    read_secs: float = 15.0
    attempt_secs: float = 60.0
    first_pause_secs: float = 0.1
    longest_pause_secs: float = 2.0

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for pause in self._pauses():
            try:
                return await self._once(attempt)
            except Transient:
                await asyncio.sleep(pause)
        return await self._once(attempt)

    async def _once(self, attempt: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self.attempt_secs):
                return await attempt()
        except TimeoutError as error:
            raise Transient("Object storage takes too long.") from error

    def _pauses(self) -> Iterator[float]:
        for attempt in range(self.attempts - 1):
            longest = min(self.longest_pause_secs, self.first_pause_secs * 2**attempt)
            yield random.uniform(longest / 2, longest)


PATIENT = Patience()
