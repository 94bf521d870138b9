"""A real `ds-server` in its own process, for tests that speak HTTP to it."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ds_server.embedded.locks import is_locked

COMMAND = Path(sys.executable).parent / "ds-server"
T = TypeVar("T")
LISTENING = re.compile(r"listening on https?://[^\s\"]+:([0-9]+)")


def wait_until(condition: Callable[[], T | None], timeout: float = 30, what: str = "") -> T:
    """The first true value of the condition; AssertionError when it stays false."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout} s for {what or condition}"
        time.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state != "Z"


class RunningServer:
    """Starts on entering, ends with everything it started on leaving.

    After `kill()` or `stop()` it can be started again on the same port and data.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        long_poll_timeout_secs: float = 0.5,
        chunk_bytes: int | None = None,
        env: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        port: int = 0,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ds-test-"))
        self.data_dir = data_dir or self.home / "data"
        self.port = port
        self._log_path = self.home / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = {
            "DS_SERVER__WORKERS": str(workers),
            "DS_SERVER__LONG_POLL_TIMEOUT_SECS": str(long_poll_timeout_secs),
            "DS_STORAGE__DATA_DIR": str(self.data_dir),
        }
        if chunk_bytes is not None:
            self.settings["DS_TIERING__CHUNK_BYTES"] = str(chunk_bytes)
        self.settings |= env or {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, *rest: object) -> None:
        if error is not None:
            print(self.log(), file=sys.stderr)
        self.close()

    @property
    def url(self) -> str:
        scheme = "https" if "DS_TLS__CERT_PATH" in self.settings else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def redis_socket(self) -> Path:
        _, _, socket = (self.data_dir / "redis.lock").read_text().strip().partition("\n")
        return Path(socket)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("DS_")}
        return inherited | {"DS_SERVER__PORT": str(self.port)} | self.settings

    def redis_pid(self) -> int:
        with self.redis() as client:
            return int(client.info("server")["process_id"])

    def redis(self) -> redis.Redis:
        once = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.redis_socket), socket_timeout=30, retry=once)

    def worker_pids(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in children if _is_worker(int(pid))]

    def log(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> None:
        """Returns when the server listens; AssertionError with its log when it ends instead."""
        already_logged = len(self.log())
        self._process = self._spawn()
        listening = wait_until(lambda: self._listening(already_logged), 60, "the server to listen")
        self.port = int(listening[1])

    def expect_refusal(self) -> tuple[int, str]:
        """Starts a server that must end by itself; its exit code and what it printed."""
        already_logged = len(self.log())
        self._process = self._spawn()
        return self._process.wait(timeout=60), self.log()[already_logged:]

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command of the program, with this server's settings."""
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def stop(self) -> int:
        """Asks the server to end, as an operator would; its exit code."""
        self._running.send_signal(signal.SIGTERM)
        return self._running.wait(timeout=30)

    def kill(self) -> None:
        """Kills only the parent process: its Redis stays, as after a real crash."""
        self._running.kill()
        self._running.wait()

    def close(self) -> None:
        try:
            self._end_server()
            self._end_orphaned_redis()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log_path.open("ab") as log:
            return subprocess.Popen(
                [COMMAND],
                cwd=self.home,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _listening(self, already_logged: int) -> re.Match[str] | None:
        ended = self._running.poll()
        log = self.log()[already_logged:]
        assert ended is None, f"the server ended with {ended}:\n{log}"
        return LISTENING.search(log)

    def _end_server(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def _end_orphaned_redis(self) -> None:
        with contextlib.suppress(OSError, redis.RedisError):
            if is_locked(self.data_dir / "lock"):
                return
            pid = self.redis_pid()
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_alive(pid), what=f"the orphaned Redis {pid} to end")


def _is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"ds_server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
