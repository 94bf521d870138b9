"""The most that a server uses while it is watched."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from loadtest import wire
from loadtest.content import MIB
from loadtest.generator import Connection, Target, expect
from loadtest.measurement import Run

PERIOD_SECS = 0.2
# A gauge lags behind by the period in which the server measures itself.
FRESH_SECS = 1.0


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that a server tells of itself, in the form of Prometheus."""

    target: Target
    path: str
    name: str

    @classmethod
    def of(cls, run: Run) -> "Gauge | None":
        """Of the memory that the server's Redis uses, if it has one and tells."""
        path, _, name = (run.store_gauge or "").partition("#")
        return cls(run.target, path, name) if name else None

    async def read(self) -> float:
        connection = await self.target.connect(Connection)
        answer = await expect(connection.ask(wire.request("GET", self.path)))
        connection.close()
        lines = (line.split() for line in answer.body.decode().splitlines())
        return next(float(line[1]) for line in lines if line and line[0] == self.name)


class Watch:
    def __init__(self, run: Run, gauge: Gauge | None, used_at_start: float) -> None:
        self._run = run
        self._gauge = gauge
        self._used_at_start = used_at_start
        self._server_mb = 0.0
        self._store_mb = 0.0
        self._used = used_at_start

    @classmethod
    async def begin(cls, run: Run) -> "Watch":
        """Of a server that has just been started."""
        await asyncio.sleep(FRESH_SECS)
        gauge = Gauge.of(run)
        return cls(run, gauge, await gauge.read() if gauge else 0.0)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await self._look()

    async def used_over_start(self) -> float | None:
        """Bytes, of this moment."""
        return await self._gauge.read() - self._used_at_start if self._gauge else None

    def figures(self) -> dict[str, float]:
        found = {}
        if self._server_mb:
            found["server_mb"] = self._server_mb
        if self._store_mb:
            found["store_mb"] = self._store_mb
        if self._gauge:
            found["used_over_mib"] = (self._used - self._used_at_start) / MIB
        return found

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(PERIOD_SECS)

    async def _look(self) -> None:
        if self._gauge:
            self._used = max(self._used, await self._gauge.read())
        if self._run.server:
            memory = await asyncio.to_thread(self._run.server.memory)
            self._server_mb = max(self._server_mb, memory.server)
            self._store_mb = max(self._store_mb, memory.store)
