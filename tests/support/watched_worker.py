"""A worker of whose event loop every round is measured, in processor time.

As a program it serves with the settings of its environment on the Redis that its argument names,
says its port, and answers every line with the rounds since the last one. The loop never sleeps:
each round schedules the next, so that none is missed.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import uvloop

from ds_server import layers, worker
from ds_server.listeners import BACKLOG
from ds_server.orders import Orders

# Shorter rounds only say that nothing was to be done.
SHORT_SECS = 0.00005


@dataclass(frozen=True, slots=True)
class Rounds:
    """Processor seconds of each round in which something was done, the longest first."""

    seconds: Sequence[float]

    @property
    def longest(self) -> float:
        return self.seconds[0] if self.seconds else 0.0

    @property
    def total(self) -> float:
        return sum(self.seconds)

    @property
    def nearly_longest(self) -> float:
        """No more than a twentieth of all the work was done in longer ones."""
        spared = self.total / 20
        for one in self.seconds:
            spared -= one
            if spared < 0:
                return one
        return 0.0

    def __str__(self) -> str:
        longest = ", ".join(f"{one * 1000:.1f}" for one in self.seconds[:5])
        return f"{len(self.seconds)} rounds, {self.total:.2f} s in all, the longest {longest} ms"


class WatchedWorker:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = int(self._heard())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    @contextlib.contextmanager
    def started(cls, redis_url: str, env: Mapping[str, str]) -> Iterator[Self]:
        with subprocess.Popen(
            [sys.executable, __file__, redis_url],
            env=os.environ | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield cls(process)
            finally:
                process.terminate()

    def rounds(self) -> Rounds:
        """Since they were asked for last."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Rounds(json.loads(self._heard()))

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def _heard(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class _Watch:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rounds: list[float] = []
        self._began = time.thread_time()

    def round(self) -> None:
        now = time.thread_time()
        if now - self._began > SHORT_SECS:
            self._rounds.append(now - self._began)
        self._began = now
        self._loop.call_soon(self.round)

    def tell(self) -> None:
        if not sys.stdin.readline():
            self._loop.remove_reader(sys.stdin)
            return
        print(json.dumps(sorted(self._rounds, reverse=True)), flush=True)
        self._rounds.clear()


async def _serve(redis_url: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    mine, parent = socket.socketpair()
    watch = _Watch()
    watch.round()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, watch.tell)
    loop.add_reader(mine, _say, loop, mine, listener.getsockname()[1])
    await worker.serve(Orders(layers.load().settings, redis_url), listener, parent)


def _say(loop: asyncio.AbstractEventLoop, ready: socket.socket, port: int) -> None:
    loop.remove_reader(ready)
    print(port, flush=True)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
