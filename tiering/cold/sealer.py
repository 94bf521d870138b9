"""Moves what is due from the hot tier into object storage. Safe whoever else does the same."""

import asyncio
import contextlib
import logging
import os
import time

from tiering.cold import index as indexes
from tiering.cold.index import Index
from tiering.cold.keys import Piece, piece_metadata
from tiering.cold.manifest_writer import ManifestWriter
from tiering.cold.witness import BackInTime, Witness
from tiering.errors import Corrupt, StreamError
from tiering.hot.fence import Fence
from tiering.hot.graveyard import Graveyard
from tiering.hot.just_appended import JustAppended
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk, Survey
from tiering.hot.terms import Attention
from tiering.messages import body
from tiering.objects.store import ObjectStore
from tiering.service import Service

log = logging.getLogger(__name__)

_POLL_SECS = 0.2
_FLUSH_SECS = 0.01
_AT_ONCE = 32
_LARGE_AT_ONCE = 2
_SMALL_BYTES = 256 * 1024
_LEASE_MS = 30_000
_PAUSE_AFTER_FAILURE_MS = 1_000
_PAUSE_FOR_PARENT_MS = 50
_CLOCK_WENT_BACK_MS = 60_000


def _now_ms() -> int:
    return int(time.time() * 1000)


class Sealer(Service):
    def __init__(
        self,
        desk: SealingDesk,
        store: ObjectStore,
        pressure: Pressure,
        logs: Logs,
        fence: Fence,
        graves: Graveyard,
        *,
        seal_age_secs: float,
    ) -> None:
        super().__init__()
        self._desk = desk
        self._store = store
        self._pressure = pressure
        self._fence = fence
        self._witness = Witness(desk, store, logs)
        self._manifests = ManifestWriter(desk, store, self._witness, fence, graves)
        self._age_ms = int(seal_age_secs * 1000)
        self._holder = os.urandom(8).hex()
        self._noticed: dict[str, int] = {}
        self._resting: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @classmethod
    def on(
        cls,
        pipe: Pipe,
        store: ObjectStore,
        pressure: Pressure,
        *,
        is_durable: bool,
        seal_age_secs: float,
        just_appended: JustAppended | None = None,
    ) -> "Sealer":
        """With everything it needs of Redis on one connection."""
        return cls(
            SealingDesk(pipe, just_appended),
            store,
            pressure,
            Logs(pipe, is_durable=is_durable),
            Fence(pipe, is_durable=is_durable),
            Graveyard(pipe),
            seal_age_secs=seal_age_secs,
        )

    async def remind(self, survey: Survey) -> None:
        """A schedule may be lost with the worker that had noticed the stream."""
        if not survey.is_settled:
            await self._desk.schedule({survey.name: _now_ms() + self._age_ms})

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
        now = _now_ms()
        due = await self._desk.due("-inf", "+inf" if self._pressure.is_high else now, _AT_ONCE)
        # Nobody schedules so far ahead: these are of a time before the clock went back.
        beyond = now + self._age_ms + _CLOCK_WENT_BACK_MS
        due = due or await self._desk.due(beyond, "+inf", _AT_ONCE)
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        ready = [(name, score) for name, score in due if name not in self._resting]
        if ready:
            work = (self._attend_to(name, score) for name, score in ready)
            if any(await asyncio.gather(*work)):
                self._wake.set()

    async def _attend_to(self, name: str, score: str) -> bool:
        """False when another sealer has the stream."""
        if not await self._desk.lease(name, self._holder, _LEASE_MS):
            return False
        try:
            following = await self._seal_stream(name)
        except BackInTime as error:
            log.error("%s: %s", name, error)
            following = _now_ms()
        except StreamError as error:
            log.warning("%s cannot be sealed now: %s", name, error)
            following = self._resting[name] = _now_ms() + _PAUSE_AFTER_FAILURE_MS
        finally:
            await self._desk.release(name)
        await self._desk.settle(name, score, following)
        return True

    async def _seal_stream(self, name: str) -> int | None:
        """Seals what is due of a stream; returns when it is due next."""
        while survey := await self._desk.survey(name):
            if not await self._parent_is_stored(survey):
                return _now_ms() + _PAUSE_FOR_PARENT_MS
            end = self._due_end(survey)
            if end is None:
                return await self._close_books(survey)
            await self._seal_piece(survey, end)
        return None

    async def _parent_is_stored(self, survey: Survey) -> bool:
        """What a bucket has of a fork must be of use without Redis."""
        parent = survey.manifest.parent
        if parent is None or survey.has_manifest:
            return True
        source = await self._desk.survey(parent.name)
        if source is None or source.sealed >= parent.border:
            return True
        await self._desk.schedule({parent.name: _now_ms()})
        return False

    def _due_end(self, survey: Survey) -> int | None:
        if survey.cut is not None:
            return survey.cut
        if survey.tail > survey.sealed and self._is_pressing(survey):
            return survey.tail
        return None

    def _is_pressing(self, survey: Survey) -> bool:
        if survey.manifest.closed or self._pressure.is_high or survey.oldest_ms is None:
            return True
        if survey.is_wanted:
            return True
        return not 0 <= survey.now_ms - survey.oldest_ms < self._age_ms

    async def _close_books(self, survey: Survey) -> int | None:
        """Brings the manifest up to date, unless there will soon be more to say. A snapshot does
        not wait for that: a busy stream has always more to say."""
        oldest_ms = survey.oldest_ms if survey.tail > survey.sealed else None
        if oldest_ms is None or not survey.has_noted_retention:
            await self._manifests.write(survey)
        if oldest_ms is None:
            return None
        waited = survey.now_ms - oldest_ms  # By the clock of Redis, not by ours.
        return _now_ms() + self._age_ms - waited

    async def seal_all(self, name: str) -> None:
        """Everything there is, due or not."""
        first = await self._desk.survey(name)
        if first is not None and (parent := first.manifest.parent) is not None:
            await self.seal_all(parent.name)
        while survey := await self._desk.survey(name):
            try:
                if survey.tail == survey.sealed:
                    await self._manifests.write(survey)
                    return
                await self._seal_piece(survey, survey.cut or survey.tail)
            except BackInTime as error:
                log.error("%s: %s", name, error)

    async def _seal_piece(self, survey: Survey, end: int) -> None:
        """Index, body, commit: a crash anywhere leaves an object that will be found equal. No
        piece is without a manifest that tells what it is a piece of."""
        if not survey.has_manifest or not survey.has_noted_closure:
            await self._manifests.write(survey)
            return
        is_large = end - survey.sealed > _SMALL_BYTES
        turn = self._large if is_large else contextlib.nullcontext()
        async with self._witness.new_log_if_back_in_time(survey), turn:
            await self._seal_range(survey, end)

    async def _seal_range(self, survey: Survey, end: int) -> None:
        stored, records = await asyncio.gather(
            self._desk.stored(survey, end), self._desk.records(survey, end)
        )
        if await self._has_moved(survey):
            return
        if len(stored) != end - survey.sealed or not records:
            raise Corrupt(f"Redis does not hold all of what {survey.name} has.")
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
        await self._fence.passed()
        await self._put(piece.index_key, index.encode())
        manifest = survey.manifest
        metadata = piece_metadata(piece, manifest.content_type, ends=manifest.ends)
        await self._put(piece.key, content, metadata)
        await self._commit(piece, index, survey)

    async def _has_moved(self, survey: Survey) -> bool:
        """Then what was read may lack what another sealer has dropped, or what Redis has lost."""
        frontier = await self._desk.frontier(survey.name)
        if frontier is None:
            return True
        log, sealed, tail = frontier
        return (log, sealed) != (survey.log, survey.sealed) or tail < survey.tail

    def _piece(self, survey: Survey, end: int) -> Piece:
        """A chunk when it is complete and nothing of it was stored before, else a part. Of a
        stream that was deleted nothing is stored where edges read."""
        manifest = survey.manifest
        is_complete = end == survey.cut or (manifest.closed and end == survey.tail)
        is_chunk = is_complete and survey.begins_chunk and not manifest.deleted
        kind = "chunk" if is_chunk else "part"
        return Piece(kind, manifest.name, survey.log, survey.sealed, end)  # type: ignore[arg-type]

    async def _put(self, key: str, content: bytes, metadata: dict[str, str] | None = None) -> None:
        if await self._store.put_if_absent(key, content, metadata or {}):
            return
        if await self._store.get(key) != content:
            raise BackInTime(f"{key} holds something else: Redis has gone back in time.")

    async def _commit(self, piece: Piece, index: Index, survey: Survey) -> None:
        outcome = await self._desk.seal(piece, index, survey.producers)
        is_lost = outcome == "gone" and not await self._is_of_the_past(piece)
        if is_lost or outcome == "hidden":
            await self._store.delete([piece.key, piece.index_key])

    async def _is_of_the_past(self, piece: Piece) -> bool:
        """The stream goes on in another log, and another sealer may have committed the piece."""
        survey = await self._desk.survey(piece.name)
        return survey is not None and piece.log in survey.logs
