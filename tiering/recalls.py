"""Takes back what edges and caches have of a stream: bodies first, then what caches remember."""

import asyncio
import logging
import os
from collections.abc import Coroutine, Sequence
from enum import IntEnum
from typing import Any, Protocol

from tiering.cold.demotion import Demotion
from tiering.cold.keys import chunks_of
from tiering.errors import StreamError
from tiering.exposure import is_exposed
from tiering.hot.recalls import Recall, RecallDesk
from tiering.hot.sealing import SealingDesk, Survey
from tiering.objects.store import ObjectStore
from tiering.service import Service

log = logging.getLogger(__name__)

PATIENCE_SECS = 2.0
# Our edges give up on a bucket that does not begin to answer in 10 s.
NO_FETCH_LASTS_MS = 15_000
EVER_MS = 2**53
_POLL_SECS = 1.0
_TURN_MS = 5_000
_AT_ONCE = 16
_ATTEMPT_LASTS_MS = 10_000
_SHORTEST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000


class Cache(Protocol):
    async def forget(self, name: str) -> bool:
        """Asked once; False when it may still have something of the stream."""


class Asked(IntEnum):
    """When a cache has been asked with success to forget what is recalled."""

    NEVER = 0
    WHEN_BODIES_WERE_GONE = 1
    WHEN_NO_FETCH_WAS_UNDER_WAY = 2


class Recalls(Service):
    """What is recorded is done by whoever comes by, until it has succeeded. Every step can be
    repeated. Which caches have been asked is known to this process alone: another one asks them
    once more."""

    def __init__(
        self,
        desk: RecallDesk,
        pieces: SealingDesk,
        store: ObjectStore,
        caches: Sequence[Cache],
        *,
        is_read_by_edges: bool,
    ) -> None:
        super().__init__()
        self._desk = desk
        self._pieces = pieces
        self._store = store
        self._caches = caches
        self._is_read_by_edges = is_read_by_edges
        self._holder = os.urandom(8).hex()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[tuple[str, str, Cache], Asked] = {}
        self.pending = 0
        """Streams of which something is recalled."""

    async def soon(self, name: str) -> None:
        """Nobody waits long for a cache: what is not done by then goes on by itself."""
        if self._caches or self._is_read_by_edges:
            await asyncio.wait({self._start(self.recall(name))}, timeout=PATIENCE_SECS)

    async def open(self) -> None:
        self.pending = await self._desk.count()
        await super().open()

    async def close(self) -> None:
        """What still waits for its time is done now, as far as it can be, and left on record."""
        await super().close()
        if self._caches:
            self._start(self._hurry())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE_SECS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECS)
            try:
                self.pending = await self._desk.count()
                while await self._desk.takes_turn(self._holder, _TURN_MS) and await self.work():
                    pass
            except StreamError as error:
                log.warning("recalling pauses: %s", error)
            except Exception:
                log.exception("recalling failed")

    async def _hurry(self) -> None:
        try:
            await self.work(NO_FETCH_LASTS_MS)
        except StreamError as error:
            log.warning("what is recalled is left to others: %s", error)

    async def work(self, ahead_ms: int = 0) -> bool:
        """Does what is due until then; False when there was nothing."""
        due = await self._desk.due(await self._desk.now_ms() + ahead_ms)
        await asyncio.gather(*(self._recall_in_turn(name) for name in due))
        return bool(due)

    async def check(self, survey: Survey) -> None:
        """Takes back what was deleted when no edges were known, or was recovered as it was."""
        if not self._is_read_by_edges or not is_exposed(survey):
            return
        pieces = await self._pieces.all_pieces(survey.name)
        if any(piece.kind == "chunk" for piece in pieces) and not await self._desk.of(survey.name):
            await self._desk.note(survey.name, survey.logs, survey.now_ms)

    async def look_around(self) -> None:
        """Finds records whose hint was lost with the worker that should have left it."""
        async for name in self._desk.names():
            await self._desk.remind(name)

    async def _recall_in_turn(self, name: str) -> None:
        async with self._slots:
            await self.recall(name)

    async def recall(self, name: str) -> None:
        """What can be done now; the rest is on record."""
        try:
            await self._desk.remember(name, await self._desk.now_ms() + _ATTEMPT_LASTS_MS)
            following = await self._take_back(name)
            if following is None:
                await self._desk.settle(name)
            else:
                await self._desk.remember(name, following)
        except StreamError as error:
            log.warning("%s is recalled later: %s", name, error)
        except Exception:
            log.exception("%s cannot be recalled", name)

    async def _take_back(self, name: str) -> int | None:
        """Returns when to come again.

        A cache may fetch an object again until there is none, so a purge follows when the bodies
        are gone; and the last one when no fetch that began before can still be under way.
        """
        recalls = await self._desk.of(name)
        if self._is_read_by_edges and any(one.has_bodies for one in recalls):
            # The bodies wait for no cache, and no cache for a slow bucket.
            await asyncio.gather(self._withdraw(name, recalls), self._ask(name, self._caches))
            recalls = await self._desk.of(name)
        now = await self._desk.now_ms()
        unsure = [cache for cache in self._caches if self._wants(name, cache, recalls, now)]
        is_done = await self._ask(name, unsure, recalls, now)
        settled = [one for one in recalls if self._is_settled(name, one)]
        if settled:
            await self._forget(name, settled)
        left = [one for one in recalls if one not in settled]
        return self._following(left, now, is_done) if left else None

    async def _withdraw(self, name: str, recalls: Sequence[Recall]) -> None:
        """Afterwards the bucket has nothing of it where edges may read."""
        waiting = [one for one in recalls if one.has_bodies]
        try:
            if await self._remove(name, {one.log for one in waiting if one.log is not None}):
                await self._desk.withdrawn(name, waiting, await self._desk.now_ms())
        except StreamError as error:
            log.warning("%s is deleted, but its bodies are still in the bucket: %s", name, error)

    async def _remove(self, name: str, logs: set[int]) -> bool:
        """What forks still need moves to where only they read."""
        survey = await self._pieces.survey(name)
        alive = survey.logs if survey is not None else frozenset()
        for number in logs - alive:
            keys = [found.key async for found in self._store.list(chunks_of(name, number))]
            await self._store.delete(keys)
        if survey is None or logs.isdisjoint(alive):
            return True
        return await Demotion(self._pieces, self._store).run(name)

    async def _ask(
        self, name: str, caches: Sequence[Cache], recalls: Sequence[Recall] = (), now: int = 0
    ) -> bool:
        outcomes = await asyncio.gather(*(cache.forget(name) for cache in caches))
        for cache, has_forgotten in zip(caches, outcomes, strict=True):
            for one in recalls if has_forgotten else ():
                self._asked[name, one.subject, cache] = self._moment(one, now)
        return all(outcomes)

    def _wants(self, name: str, cache: Cache, recalls: Sequence[Recall], now: int) -> bool:
        known = (self._asked.get((name, one.subject, cache), Asked.NEVER) for one in recalls)
        return any(was < self._moment(one, now) for was, one in zip(known, recalls, strict=True))

    def _moment(self, recall: Recall, now: int) -> Asked:
        """A clock that went back makes nobody wait."""
        if self._is_exposed(recall):
            return Asked.NEVER
        if recall.log is None or not 0 <= now - _since(recall) < NO_FETCH_LASTS_MS:
            return Asked.WHEN_NO_FETCH_WAS_UNDER_WAY
        return Asked.WHEN_BODIES_WERE_GONE

    def _is_exposed(self, recall: Recall) -> bool:
        return recall.has_bodies and self._is_read_by_edges

    def _is_settled(self, name: str, recall: Recall) -> bool:
        asked = (self._asked.get((name, recall.subject, one), Asked.NEVER) for one in self._caches)
        last = Asked.WHEN_NO_FETCH_WAS_UNDER_WAY
        return not self._is_exposed(recall) and all(when == last for when in asked)

    async def _forget(self, name: str, settled: Sequence[Recall]) -> None:
        await self._desk.forget(name, settled)
        for one in settled:
            for cache in self._caches:
                self._asked.pop((name, one.subject, cache), None)

    def _following(self, left: Sequence[Recall], now: int, is_done: bool) -> int:
        """Pauses grow with the time that it has been in vain."""
        if is_done and not any(self._is_exposed(one) for one in left):
            return min(_since(one) for one in left) + NO_FETCH_LASTS_MS
        age = now - min(one.noted_ms for one in left)
        return now + min(max(age, _SHORTEST_PAUSE_MS), _LONGEST_PAUSE_MS)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _since(recall: Recall) -> int:
    return recall.gone_ms if recall.gone_ms is not None else recall.noted_ms
