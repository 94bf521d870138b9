"""Watches how full the hot tier is, so that writers are told before Redis is out of memory."""

import asyncio
import logging
import re

from tiering.errors import Unavailable
from tiering.hot.pipe import Pipe
from tiering.service import Service

log = logging.getLogger(__name__)

_PERIOD_SECS = 0.25
_LONGEST_DELAY_SECS = 0.2
BACKLOG_BYTES = 32 * 1024 * 1024
_USED_MEMORY = re.compile(rb"^used_memory:([0-9]+)", re.MULTILINE)


class Pressure(Service):
    def __init__(self, pipe: Pipe, max_hot_bytes: int) -> None:
        super().__init__()
        self._pipe = pipe
        self._max_hot_bytes = max_hot_bytes
        # As last measured, and what was admitted since.
        self.used_bytes = 0

    async def open(self) -> None:
        await self._measure()
        await super().open()

    @property
    def is_high(self) -> bool:
        return self.used_bytes > self._max_hot_bytes // 2

    def admits_at_once(self, size: int) -> bool:
        """Whether there is room for so much without any delay; then it is counted."""
        if self.is_high:
            return False
        self.used_bytes += size
        return True

    async def admit(self, size: int) -> None:
        """Slows appends down above half of the limit, and refuses them at the limit."""
        self.used_bytes += size
        if not self.is_high:
            return
        if self.used_bytes >= self._max_hot_bytes:
            self.used_bytes -= size
            raise Unavailable("The hot tier is full.")
        excess = 2 * self.used_bytes / self._max_hot_bytes - 1
        await asyncio.sleep(excess * _LONGEST_DELAY_SECS)

    @staticmethod
    def pace_secs(unsealed_bytes: int) -> float:
        """How long the writers of one stream wait, to keep to the pace at which it is sealed."""
        excess = unsealed_bytes / BACKLOG_BYTES - 1
        return min(max(excess, 0), 5) * _LONGEST_DELAY_SECS

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_SECS)
            try:
                await self._measure()
            except Unavailable:
                log.debug("the hot tier's size is unknown while it cannot be reached")

    async def _measure(self) -> None:
        match = _USED_MEMORY.search(await self._pipe.call("INFO", "memory"))
        if match is not None:
            self.used_bytes = int(match[1])
