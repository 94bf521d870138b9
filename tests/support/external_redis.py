"""A Redis that somebody else runs, as durable as the server's own."""

import shutil
import signal
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import redis
from support.server import wait_until

from ds_server.embedded.engines import installed

DURABLE = ["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]


class ExternalRedis:
    """On a unix socket, because no other test can take that away; its data survives `stop`."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="ds-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = str(self._home / "redis.sock")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        place = ["--unixsocket", self.socket, "--dir", str(self._home)]
        self._process = subprocess.Popen(
            [next(installed()).binary, *DURABLE, *place], stdout=subprocess.DEVNULL
        )
        with closing(redis.Redis(unix_socket_path=self.socket)) as client:
            wait_until(lambda: _answers(client), what="the Redis to answer")

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
