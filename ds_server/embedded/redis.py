"""One private Redis on a unix socket: started or adopted, watched, restarted, stopped."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from typing import Self
from urllib.parse import quote

from redis.exceptions import RedisError

from ds_server.allocation import environment
from ds_server.backoff import Backoff
from ds_server.embedded.conversation import (
    DURABLE,
    Identity,
    ask_identity,
    conversation,
    ended,
    make_durable,
)
from ds_server.embedded.directory import DataDirectory
from ds_server.embedded.engines import Engine, Installed, check, choose, installed, record
from ds_server.embedded.locks import is_locked, try_lock
from tiering.data_directory import noted_socket
from tiering.errors import Refused

log = logging.getLogger(__name__)

POLL_SECS = 0.02
ADOPTION_SECS = 30.0
STOP_SECS = 10.0
SHOWN_LOG_LINES = 5


class EmbeddedRedis:
    """The engine inherits the lock file's descriptor and holds it as long as it lives.

    So whoever takes the lock knows that no engine writes to the directory, and whoever
    cannot take it knows that there is one to adopt.
    """

    engine: Engine

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._child: Process | None = None
        self._pid: int | None = None
        self._backoff = Backoff()
        self.socket = self._socket_in_use() or directory.socket()
        self.place = str(directory.path)

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}"

    async def __aenter__(self) -> Self:
        try:
            await self._start_or_adopt()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()
        self._directory.leave_nothing_elsewhere()

    async def keep_alive(self) -> None:
        while True:
            await ended(self.socket)
            log.warning("the embedded Redis ended")
            await self._start_again()
            log.warning("the embedded Redis is back")

    async def _start_again(self) -> None:
        while True:
            await asyncio.sleep(self._backoff.next_delay())
            try:
                return await self._start_or_adopt()
            except (OSError, Refused) as error:
                log.error("the embedded Redis does not start: %s", error)

    async def _start_or_adopt(self) -> None:
        self._backoff.began()
        deadline = time.monotonic() + ADOPTION_SECS
        while (lock := try_lock(self._directory.redis_lock)) is None:
            if await self._adopted():
                return
            if time.monotonic() > deadline:
                raise Refused(f"a Redis still uses {self._directory.path} but does not answer")
            await asyncio.sleep(POLL_SECS)
        await self._start(lock)

    async def _adopted(self) -> bool:
        try:
            async with conversation(self.socket) as redis:
                identity = await ask_identity(redis)
                self._check(identity)
                await make_durable(redis)
        except (OSError, RedisError):
            return False
        self.engine = identity.engine
        self._note(identity.pid)
        return True

    def _check(self, identity: Identity) -> None:
        if not identity.directory.samefile(self._directory.redis_files):
            raise Refused(f"the Redis at {self.socket} belongs to {identity.directory}")
        check(self._directory, identity.engine)

    async def _start(self, lock: int) -> None:
        log_start = _size(self._directory.redis_log)
        try:
            chosen = choose(self._directory, installed())
            if not self._directory.holds_data():
                record(self._directory, chosen.engine)
            self._child = await self._spawn(chosen, lock)
            self._note(self._child.pid)
        finally:
            os.close(lock)
        await self._answers(self._child, log_start)
        record(self._directory, chosen.engine)
        self.engine = chosen.engine

    async def _spawn(self, chosen: Installed, lock: int) -> Process:
        """A session of its own: Ctrl-C in the terminal is for the server to handle."""
        with self._directory.redis_log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                chosen.binary,
                *self._arguments(),
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(lock,),
                env=environment(),
            )

    def _arguments(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._directory.redis_files),
            "logfile": str(self._directory.redis_log),
            **DURABLE,
        }
        return [part for key, value in settings.items() for part in (f"--{key}", value)]

    async def _answers(self, child: Process, log_start: int) -> None:
        while child.returncode is None:
            with contextlib.suppress(OSError, RedisError):
                async with conversation(self.socket):
                    return
            await asyncio.sleep(POLL_SECS)
        raise Refused(
            f"the embedded Redis ended with {child.returncode} while starting; "
            f"the end of {self._directory.redis_log}:\n"
            + _last_lines(self._directory.redis_log, log_start)
        )

    async def _stop(self) -> None:
        if self._pid is None or not self._runs():
            return
        os.kill(self._pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(self._gone(), STOP_SECS)
        except TimeoutError:
            log.warning("the embedded Redis does not end; killing it")
            os.kill(self._pid, signal.SIGKILL)
            await self._gone()

    async def _gone(self) -> None:
        while self._runs():  # noqa: ASYNC110 - a lock has no event to wait for
            await asyncio.sleep(POLL_SECS)
        if self._child is not None:
            await self._child.wait()

    def _runs(self) -> bool:
        return is_locked(self._directory.redis_lock)

    def _socket_in_use(self) -> Path | None:
        """Where an engine that still runs listens; the temporary directory may have moved."""
        return noted_socket(self._directory.redis_lock) if self._runs() else None

    def _note(self, pid: int) -> None:
        self._pid = pid
        self._directory.redis_lock.write_text(f"{pid}\n{self.socket}\n")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_lines(path: Path, start: int) -> str:
    lines = path.read_bytes()[start:].decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-SHOWN_LOG_LINES:])
