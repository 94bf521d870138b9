"""Many who want the same thing at once, one who fetches it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SingleFlight(Generic[Key, Value]):
    def __init__(self) -> None:
        self._flights: dict[Key, asyncio.Task[Value]] = {}

    async def do(self, key: Key, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Joins the flight for `key`, or starts one. It goes on when one passenger leaves."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(make())
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)

    def _landed(self, key: Key, flight: asyncio.Task[Value]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # Seen, even if every passenger has left.
