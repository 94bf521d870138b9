"""A sealer in a process of its own that freezes itself between putting a piece and its commit."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tiering.cold.sealer import Sealer
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk
from tiering.objects.directory import DirectoryStore


class PausingStore(DirectoryStore):
    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        written = await super().put_if_absent(key, body, metadata)
        if not key.startswith("index/"):
            os.kill(os.getpid(), signal.SIGSTOP)
        return written


async def main(redis_url: str, objects: str, stream: str) -> None:
    pipe = Pipe(Address.parse(redis_url), timeout_secs=60)
    await pipe.open()
    async with PausingStore(Path(objects)) as store:
        sealer = Sealer(SealingDesk(pipe), store, Pressure(pipe, 2**40), 0)
        await sealer.seal_all(stream)
    await pipe.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
