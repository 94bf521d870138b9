"""Moves what is due from the hot tier into object storage. Safe whoever else does the same."""

import asyncio
import contextlib
import logging
import os
import time

from tiering.cold import index as indexes
from tiering.cold.index import Index
from tiering.cold.keys import Piece, manifest_key
from tiering.cold.manifest import tombstone
from tiering.errors import Corrupt, StreamError
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk, Survey
from tiering.hot.tier import Attention
from tiering.messages import body
from tiering.objects.store import ObjectStore

log = logging.getLogger(__name__)

_POLL_SECS = 0.2
_FLUSH_SECS = 0.01
_AT_ONCE = 32
_LARGE_AT_ONCE = 2
_SMALL_BYTES = 256 * 1024
_LEASE_MS = 30_000
_SWEEP_MS = 60_000
_PAUSE_AFTER_FAILURE_MS = 1_000


def _now_ms() -> int:
    return int(time.time() * 1000)


class Sealer:
    def __init__(
        self, desk: SealingDesk, store: ObjectStore, pressure: Pressure, seal_age_secs: float
    ) -> None:
        self._desk = desk
        self._store = store
        self._pressure = pressure
        self._age_ms = int(seal_age_secs * 1000)
        self._holder = os.urandom(8).hex()
        self._noticed: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._sweep())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def attend(self, name: str, attention: Attention) -> None:
        """Called for every append that a sealer must know of."""
        due = _now_ms() + (0 if attention is Attention.NOW else self._age_ms)
        self._noticed[name] = min(due, self._noticed.get(name, due))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _POLL_SECS)
                await asyncio.sleep(_FLUSH_SECS)
            self._wake.clear()
            try:
                await self._schedule_noticed()
                await self._seal_due()
            except StreamError as error:
                log.warning("sealing pauses: %s", error)
                await asyncio.sleep(_POLL_SECS)
            except Exception:
                log.exception("sealing failed")
                await asyncio.sleep(_POLL_SECS)

    async def _sweep(self) -> None:
        """Finds streams whose schedule was lost with the worker that had noticed them."""
        while True:
            try:
                if await self._desk.sweeps(_SWEEP_MS):
                    await self._schedule_forgotten()
            except StreamError as error:
                log.warning("the sweep pauses: %s", error)
            await asyncio.sleep(_SWEEP_MS / 1000)

    async def _schedule_forgotten(self) -> None:
        async for name in self._desk.names():
            survey = await self._desk.survey(name)
            if survey is not None and not survey.is_settled:
                await self._desk.schedule({name: _now_ms() + self._age_ms})

    async def _schedule_noticed(self) -> None:
        noticed, self._noticed = self._noticed, {}
        if not noticed:
            return
        try:
            await self._desk.schedule(noticed)
        except StreamError:
            self._noticed = noticed | self._noticed
            raise

    async def _seal_due(self) -> None:
        """Under pressure everything is due, the longest waiting first."""
        until = None if self._pressure.is_high else _now_ms()
        due = await self._desk.due(until, _AT_ONCE)
        if due:
            work = (self._attend_to(name, score) for name, score in due)
            if any(await asyncio.gather(*work)):
                self._wake.set()

    async def _attend_to(self, name: str, score: str) -> bool:
        """False when another sealer has the stream."""
        if not await self._desk.lease(name, self._holder, _LEASE_MS):
            return False
        try:
            following = await self._seal_stream(name)
        except StreamError as error:
            log.warning("%s cannot be sealed now: %s", name, error)
            following = _now_ms() + _PAUSE_AFTER_FAILURE_MS
        finally:
            await self._desk.release(name)
        await self._desk.settle(name, score, following)
        return True

    async def _seal_stream(self, name: str) -> int | None:
        """Seals what is due of a stream; returns when it is due next."""
        while survey := await self._desk.survey(name):
            end = self._due_end(survey)
            if end is None:
                return await self._close_books(survey)
            await self._seal_piece(survey, end)
        return None

    def _due_end(self, survey: Survey) -> int | None:
        if survey.cut is not None:
            return survey.cut
        if survey.tail > survey.sealed and self._is_pressing(survey):
            return survey.tail
        return None

    def _is_pressing(self, survey: Survey) -> bool:
        if survey.manifest.closed or self._pressure.is_high or survey.oldest_ms is None:
            return True
        return survey.now_ms - survey.oldest_ms >= self._age_ms

    async def _close_books(self, survey: Survey) -> int | None:
        """Brings the manifest up to date, unless there will soon be more to say."""
        if survey.oldest_ms is not None and survey.tail > survey.sealed:
            return survey.oldest_ms + self._age_ms
        await self.write_manifest(survey)
        return None

    async def seal_all(self, name: str) -> None:
        """Everything there is, due or not."""
        while survey := await self._desk.survey(name):
            if survey.tail == survey.sealed:
                await self.write_manifest(survey)
                return
            await self._seal_piece(survey, survey.cut or survey.tail)

    async def _seal_piece(self, survey: Survey, end: int) -> None:
        """Index, body, commit: a crash anywhere leaves an object that will be found equal."""
        is_large = end - survey.sealed > _SMALL_BYTES
        async with self._large if is_large else contextlib.nullcontext():
            await self._seal_range(survey, end)

    async def _seal_range(self, survey: Survey, end: int) -> None:
        stored, records = await asyncio.gather(
            self._desk.stored(survey, end), self._desk.records(survey, end)
        )
        if len(stored) != end - survey.sealed or not records:
            return  # Another sealer was faster.
        piece = self._piece(survey, end)
        content = body(survey.content_type, stored)
        index = await asyncio.to_thread(
            indexes.build,
            piece.start,
            piece.end,
            content,
            records,
            survey.producers,
            survey.seq,
        )
        await self._put(piece.index_key, index.encode())
        await self._put(piece.key, content, _metadata(piece, survey))
        await self._commit(piece, index, survey)

    def _piece(self, survey: Survey, end: int) -> Piece:
        """A chunk when it is complete and nothing of it was stored before, else a part."""
        manifest = survey.manifest
        is_complete = end == survey.cut or (manifest.closed and end == survey.tail)
        kind = "chunk" if is_complete and survey.begins_chunk else "part"
        return Piece(kind, manifest.name, survey.log, survey.sealed, end)  # type: ignore[arg-type]

    async def _put(self, key: str, content: bytes, metadata: dict[str, str] | None = None) -> None:
        if await self._store.put_if_absent(key, content, metadata or {}):
            return
        if await self._store.get(key) != content:
            raise Corrupt(f"{key} differs from what is stored: Redis has gone back in time.")

    async def _commit(self, piece: Piece, index: Index, survey: Survey) -> None:
        outcome = await self._desk.seal(piece, index, survey.producers)
        if outcome == "gone":
            await self._store.delete([piece.key, piece.index_key])

    async def write_manifest(self, survey: Survey) -> None:
        """Written, then compared with what is true by now: a late writer mends its own mistake."""
        name = survey.manifest.name
        key = manifest_key(name, survey.log)
        current: Survey | None = survey
        while current is not None and current.log == survey.log:
            mark = current.manifest.mark
            if current.noted_manifest == mark:
                return
            await self._store.put(key, current.manifest.encode())
            await self._desk.manifest(current.manifest, mark)
            current = await self._desk.survey(name)
        await self._store.put(key, tombstone(survey.manifest).encode())


def _metadata(piece: Piece, survey: Survey) -> dict[str, str]:
    return {
        "stream-content-type": survey.manifest.content_type,
        "stream-next-offset": f"{piece.log:016d}_{piece.end:016d}",
    }
