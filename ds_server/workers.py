"""The worker processes: one for each listening socket, replaced when they end."""

import asyncio
import contextlib
import logging
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections.abc import Sequence
from typing import Self

import msgspec

from ds_server.allocation import environment
from ds_server.backoff import Backoff
from ds_server.listeners import BACKLOG
from ds_server.metrics_files import forget
from ds_server.orders import READY, Orders
from ds_server.together import together
from tiering.errors import Refused

log = logging.getLogger(__name__)

STOP_SECS = 10.0


class Worker:
    """One process. Losing the channel tells it that it is orphaned."""

    def __init__(self, process: Process, hearing: StreamReader, telling: StreamWriter) -> None:
        self._process = process
        self._hearing = hearing
        self._telling = telling

    @classmethod
    async def serving(cls, listener: socket.socket, orders: Orders) -> Self:
        """A worker that has said that it serves; Refused when it does not come to that."""
        mine, its_own = socket.socketpair()
        with its_own:
            process = await _spawn(listener, its_own)
        worker = cls(process, *await asyncio.open_unix_connection(sock=mine))
        try:
            await worker._take_up(orders)
        except BaseException:
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> int:
        code = await self._process.wait()
        self._telling.close()
        forget(self.pid)
        return code

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self.ended(), STOP_SECS)
        except TimeoutError:
            log.warning("worker %d does not end; killing it", self.pid)
            self._process.kill()
            await self.ended()

    async def _take_up(self, orders: Orders) -> None:
        self._telling.write(msgspec.json.encode(orders) + b"\n")
        answer = await self._answer()
        if not answer:
            raise Refused(f"a worker ended with {await self.ended()} while starting")
        if answer != READY:
            raise Refused(answer)

    async def _answer(self) -> str:
        """Empty when the worker ended without one."""
        try:
            return (await self._hearing.readline()).decode().strip()
        except ConnectionError:
            return ""


class Seat:
    """A listening socket and the worker that serves it at the moment."""

    def __init__(self, listener: socket.socket, orders: Orders) -> None:
        self._listener = listener
        self._orders = orders
        self._backoff = Backoff()
        self._changing = asyncio.Lock()
        self._worker: Worker | None = None

    async def fill(self) -> None:
        self._backoff.began()
        self._worker = await Worker.serving(self._listener, self._orders)
        self._orders = msgspec.structs.replace(self._orders, is_first=False)

    async def keep_filled(self) -> None:
        while worker := self._worker:
            code = await worker.ended()
            async with self._changing:
                if worker is self._worker:
                    log.warning("worker %d ended with %d", worker.pid, code)
                    await self._fill_again()

    async def replace(self) -> None:
        async with self._changing:
            predecessor = self._worker
            await self.fill()
            if predecessor:
                await predecessor.stop()

    async def stop(self) -> None:
        if self._worker:
            await self._worker.stop()

    async def _fill_again(self) -> None:
        """Without end: the other workers serve on, and Redis may only be away for a while."""
        while True:
            await asyncio.sleep(self._backoff.next_delay())
            try:
                return await self.fill()
            except (OSError, Refused) as error:
                log.error("a worker does not start: %s", error)


class Crew:
    """All workers. The sockets stay open here, whoever comes and goes."""

    def __init__(self, listeners: Sequence[socket.socket], orders: Orders) -> None:
        self._listeners = listeners
        self._seats = [Seat(listener, orders) for listener in listeners]

    async def __aenter__(self) -> Self:
        for listener in self._listeners:
            listener.listen(BACKLOG)
        try:
            await together(*(seat.fill() for seat in self._seats))
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def keep_filled(self) -> None:
        await together(*(seat.keep_filled() for seat in self._seats))

    async def roll_on(self, request: asyncio.Event) -> None:
        """Replaces one worker after the other, each when its successor serves."""
        while await request.wait():
            request.clear()
            try:
                for seat in self._seats:
                    await seat.replace()
                log.info("all workers were replaced")
            except (OSError, Refused) as error:
                log.error("the workers stay as they are: %s", error)

    async def _stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        await together(*(seat.stop() for seat in self._seats))


async def _spawn(listener: socket.socket, channel: socket.socket) -> Process:
    """A process group of its own: Ctrl-C in the terminal is for the parent to handle."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ds_server.worker",
        str(listener.fileno()),
        stdin=channel.fileno(),
        pass_fds=(listener.fileno(),),
        process_group=0,
        env=environment(),
    )
