"""A sealer in a process of its own that freezes itself between putting a piece and its commit."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.crashing import is_frozen
from support.server import RunningServer, wait_until

from tiering.cold.sealer import Sealer
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.objects.directory import DirectoryStore


class PausingStore(DirectoryStore):
    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        written = await super().put_if_absent(key, body, metadata)
        if not key.startswith("index/"):
            os.kill(os.getpid(), signal.SIGSTOP)
        return written


@contextmanager
def frozen_sealer(server: RunningServer, stream: str) -> Iterator["subprocess.Popen[str]"]:
    """One that has stored a piece of the stream, and not committed it."""
    objects = server.data_dir / "objects"
    process = subprocess.Popen(
        [sys.executable, __file__, f"unix://{server.redis_socket}", str(objects), stream],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    try:
        wait_until(lambda: is_frozen(process), what="the sealer to freeze")
        yield process
    finally:
        process.kill()
        process.wait()


def thaw(process: "subprocess.Popen[str]") -> None:
    """Until it ends, as it must: it freezes again at every piece that it finds."""

    def has_ended() -> bool:
        process.send_signal(signal.SIGCONT)
        return process.poll() is not None

    wait_until(has_ended, 60, "the sealer to end")
    assert process.returncode == 0


async def main(redis_url: str, objects: str, stream: str) -> None:
    pipe = Pipe(Address.parse(redis_url), timeout_secs=60)
    await pipe.open()
    async with PausingStore(Path(objects)) as store:
        sealer = Sealer.on(pipe, store, Pressure(pipe, 2**40), is_durable=True, seal_age_secs=0)
        await sealer.seal_all(stream)
    await pipe.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
