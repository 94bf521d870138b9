"""Many tasks that wait for the same thing."""

import asyncio
from collections import OrderedDict

from ds_server.live.turns import TASK, Turns


class Gate:
    """Once it is opened, those who wait are let through a few at a time, however many they are."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def wait(self) -> None:
        future = self._loop.create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def open(self) -> None:
        if self._waiting:
            self._turns.add(self)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def serve(self, credits: int) -> int:
        while self._waiting and credits > 0:
            future, _ = self._waiting.popitem(last=False)
            if not future.done():
                future.set_result(None)
                credits -= TASK
        return credits
