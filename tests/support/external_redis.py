"""A Redis that somebody else runs, as durable as the server's own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

import redis
from support.server import wait_until

from ds_server.embedded.engines import installed

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")
IN_MEMORY = ("--appendonly", "no")


class ExternalRedis:
    """On a unix socket, because no other test can take that away; its data survives `stop`."""

    def __init__(
        self, promise: Sequence[str] = DURABLE, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self._promise = promise
        self._environment = os.environ | (environment or {})
        self._home = Path(tempfile.mkdtemp(prefix="ds-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = str(self._home / "redis.sock")
        self.files = self._home / "appendonlydir"
        self.url = f"unix://{self.socket}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        place = ["--port", "0", "--unixsocket", self.socket, "--dir", str(self._home)]
        self._process = subprocess.Popen(
            [next(installed()).binary, "--save", "", *place, *self._promise],
            stdout=subprocess.DEVNULL,
            env=self._environment,
        )
        with self.client() as client:
            wait_until(lambda: _answers(client), what="the Redis to answer")

    def flush(self) -> None:
        """Everything it held is gone, on its disk too."""
        with self.client() as client:
            client.flushall()

    def client(self) -> "closing[redis.Redis]":
        return closing(redis.Redis(unix_socket_path=self.socket))

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout=30)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
