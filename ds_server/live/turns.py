"""Work for very many, a little at a time, so that nothing else has to wait for long."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# A frame that is put into a socket costs one credit, some 15 µs with its sending; waking a task,
# which then makes an answer of its own, costs ten; a connection that is lost, five. A turn may
# spend about two milliseconds, or as long as everything else has just taken, but never more than
# about six.
FRAME = 1
DEPARTURE = 5
TASK = 10
CREDITS = 100
MOST_CREDITS = 400
CREDITS_PER_SEC = 65_000


class Crowd(Protocol):
    @property
    def is_waiting(self) -> bool: ...

    def serve(self, credits: int) -> int:
        """Serves some of those who wait; what is left of the credits."""
        ...


class Turns:
    """Crowds are served in turn, and between two turns the event loop looks at everything else.

    Who comes when nobody waits is served at once, as long as the turn has credits.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._crowds: deque[Crowd] = deque()
        self._spent = 0
        self._ended_at = clock()
        self._is_planned = False

    def add(self, crowd: Crowd) -> None:
        if not self._crowds and self._spent < CREDITS:
            self._serve(crowd, CREDITS - self._spent)
        elif crowd.is_waiting:
            self._crowds.append(crowd)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        """Those who were served at once since the last turn count as served in this one."""
        self._is_planned = False
        credits = self._allowance()
        share = max(TASK, credits // max(1, len(self._crowds)))
        while self._crowds and self._spent < credits:
            self._serve(self._crowds.popleft(), min(share, credits - self._spent))
        self._spent = 0
        self._ended_at = self._clock()
        if self._crowds:
            self._plan()

    def _allowance(self) -> int:
        elsewhere = self._clock() - self._ended_at
        return min(MOST_CREDITS, max(CREDITS, int(elsewhere * CREDITS_PER_SEC)))

    def _serve(self, crowd: Crowd, credits: int) -> None:
        self._spent += credits - crowd.serve(credits)
        if crowd.is_waiting:
            self._crowds.append(crowd)
