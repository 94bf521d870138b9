"""Connections that were lost."""

import logging
from collections import deque
from collections.abc import Callable

from ds_server.live.turns import DEPARTURE, Turns

log = logging.getLogger(__name__)


class Departures:
    """When thousands leave at once, what they had is cleared away a few at a time."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, clear_away: Callable[[], None]) -> None:
        self._waiting.append(clear_away)
        if len(self._waiting) == 1:
            self._turns.add(self)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def serve(self, credits: int) -> int:
        while self._waiting and credits > 0:
            self._see_off(self._waiting.popleft())
            credits -= DEPARTURE
        return credits

    def _see_off(self, clear_away: Callable[[], None]) -> None:
        """One that fails must not keep the others from leaving."""
        try:
            clear_away()
        except Exception:
            log.exception("a lost connection could not be cleared away")
