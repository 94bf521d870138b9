"""Log ids, and which run of Redis vouches for what a log has told."""

import logging
from typing import Literal

from tiering.hot.keys import LOG_COUNTER, stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.scripts import DURABLE

logger = logging.getLogger(__name__)

LOG_EPOCH_MS = 1_728_432_000_000


class Logs:
    """`is_durable`: Redis has every append on disk before it answers. Otherwise another run of
    Redis may have forgotten offsets that the one before it told, and its logs must not go on."""

    def __init__(self, pipe: Pipe, *, is_durable: bool) -> None:
        self._pipe = pipe
        self._is_durable = is_durable

    @property
    def run(self) -> str:
        return DURABLE if self._is_durable else self._pipe.run_id

    async def mint(self) -> int:
        reply = await self._pipe.run("mint", (LOG_COUNTER,), LOG_EPOCH_MS)
        return int(reply[1])

    async def relog(self, name: str, log: int, border: Literal["tail", "sealed"]) -> bool:
        """What the log told beyond the border is void: from there a new one goes on."""
        keys, new = stream_keys(name), await self.mint()
        reply = await self._pipe.run("relog", (keys.meta, keys.blocks), log, new, border, self.run)
        done: bool = reply[0] == b"ok"
        if done:
            logger.warning("%s goes on in log %d instead of %d from its %s", name, new, log, border)
        return done
