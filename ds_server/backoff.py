"""How long to wait before starting something again that keeps ending."""

import time

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
HEALTHY_AFTER = 10.0


class Backoff:
    """No wait after a healthy life; after short ones, longer each time."""

    def __init__(self) -> None:
        self._short_lives = 0
        self._began = time.monotonic()

    def began(self) -> None:
        self._began = time.monotonic()

    def next_delay(self) -> float:
        if time.monotonic() - self._began >= HEALTHY_AFTER:
            self._short_lives = 0
        delay = FIRST_DELAY * 2 ** (self._short_lives - 1) if self._short_lives else 0.0
        self._short_lives += 1
        return min(delay, LONGEST_DELAY)
