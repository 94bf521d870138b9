"""A server of our own with data that nobody needs afterwards, for what one command measures."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp

from loadtest.ports import free_port
from loadtest.processes import Tree, working_in

COMMAND = Path(sys.executable).parent / "ds-server"
START_SECS = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scratch:
    home: Path
    settings: Mapping[str, str]

    @property
    def data(self) -> Path:
        return self.home / "data"

    def command(self, *arguments: str) -> str:
        """What another command of the program prints."""
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=self.home,
            env=self._environment(),
            check=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout.decode()

    @property
    def processes(self) -> Tree:
        """The server's, while it serves."""
        return Tree(min(working_in(self.home)))

    @contextmanager
    def serving(self) -> Iterator[str]:
        port = free_port()
        environment = self._environment() | {"DS_SERVER__PORT": str(port)}
        server = subprocess.Popen(
            [COMMAND], cwd=self.home, env=environment, stdout=subprocess.DEVNULL
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()

    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("DS_")}
        return {**own, "DS_STORAGE__DATA_DIR": str(self.data), **self.settings}


@contextmanager
def scratch(settings: Mapping[str, str], parent: Path | None = None) -> Iterator[Scratch]:
    home = Path(tempfile.mkdtemp(prefix="ds-load-", dir=parent))
    try:
        yield Scratch(home, settings)
    finally:
        shutil.rmtree(home)


async def listening(http: aiohttp.ClientSession) -> None:
    deadline = time.monotonic() + START_SECS
    while time.monotonic() < deadline:
        try:
            async with http.get("/healthz"):
                return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.05)
    raise TimeoutError("the server does not listen")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.monotonic()
    result = work()
    return time.monotonic() - begin, result
