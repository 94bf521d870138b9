"""Very many who want the same thing at once, one who fetches it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from ds_server.live.gate import Gate
from ds_server.live.turns import Turns

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Flights(Generic[Key, Value]):
    """As `tiering.single_flight`, but the passengers leave in turns: thousands may be on board."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._flights: dict[Key, tuple[asyncio.Task[Value], Gate]] = {}

    async def do(self, key: Key, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Joins the flight for `key`, or starts one. It goes on when one passenger leaves."""
        task, gate = self._flights.get(key) or self._start(key, make)
        await gate.wait()
        return task.result()

    def _start(
        self, key: Key, make: Callable[[], Coroutine[Any, Any, Value]]
    ) -> tuple["asyncio.Task[Value]", Gate]:
        flight = self._flights[key] = asyncio.create_task(make()), Gate(self._turns)
        flight[0].add_done_callback(lambda _: self._landed(key))
        return flight

    def _landed(self, key: Key) -> None:
        task, gate = self._flights.pop(key)
        if not task.cancelled():
            task.exception()  # Seen, even if every passenger has left.
        gate.open()
