"""Removes objects that nobody needs any more, after a time of grace."""

import asyncio
import logging
import os

from tiering.cold import manifest as manifests
from tiering.cold.keys import body_prefixes, index_prefixes, manifest_key, snapshots_of
from tiering.errors import Corrupt, StreamError
from tiering.hot.graveyard import Graveyard
from tiering.hot.retention import RetentionDesk
from tiering.hot.sealing import SealingDesk
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.retention import Retention
from tiering.service import Service

log = logging.getLogger(__name__)

_POLL_SECS = 1.0
_TURN_MS = 5_000
_AT_ONCE = 16


class Janitor(Service):
    """Touches only what the hot tier records as dead. Every step can be repeated, so it does not
    matter where the last janitor stopped, or whether two are at work."""

    def __init__(
        self,
        graves: Graveyard,
        desk: SealingDesk,
        retention: RetentionDesk,
        store: ObjectStore,
        grace_secs: float,
    ) -> None:
        super().__init__()
        self._graves = graves
        self._desk = desk
        self._store = store
        self._grace_ms = int(grace_secs * 1000)
        self._retention = Retention(retention, store, self._grace_ms)
        self._holder = os.urandom(8).hex()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECS)
            try:
                while await self._has_turn() and await self.work():
                    pass
            except StreamError as error:
                log.warning("cleaning up pauses: %s", error)
            except Exception:
                log.exception("cleaning up failed")

    async def _has_turn(self) -> bool:
        return await self._graves.takes_turn(self._holder, _TURN_MS)

    async def work(self) -> bool:
        """Visits some graves whose time has come; False when there were none."""
        now = await self._graves.now_ms()
        due = await self._graves.due(now, _AT_ONCE)
        await asyncio.gather(*(self._visit(name, now) for name in due))
        return bool(due)

    async def look_around(self) -> None:
        """Finds records whose hint was lost with the worker that should have left it."""
        async for name in self._graves.names():
            await self._graves.remember(name, 0)

    async def _visit(self, name: str, now: int) -> None:
        try:
            dues = (await self._clean(name, now), await self._retention.clean(name, now))
            following = min((due for due in dues if due is not None), default=None)
        except StreamError as error:
            log.warning("the remains of %s cannot be removed now: %s", name, error)
            following = now + 1000
        if following is None:
            await self._graves.settle(name)
        else:
            await self._graves.remember(name, following)

    async def _clean(self, name: str, now: int) -> int | None:
        """Returns when to come again. The newest log's tombstone speaks for the older ones too,
        so it goes last."""
        dead = await self._graves.dead(name)
        await self._assert_dead(name, dead)
        for number in sorted(dead, reverse=True):
            await self._put_tombstone(name, number)
        for number, died in sorted(dead.items()):
            if now < died + self._grace_ms:
                return died + self._grace_ms
            await self._remove(name, number)
            await self._graves.forget(name, number)
        return None

    async def _assert_dead(self, name: str, dead: dict[int, int]) -> None:
        survey = await self._desk.survey(name)
        if survey is not None and not survey.logs.isdisjoint(dead):
            raise Corrupt(f"{name} is recorded as dead and alive at once.")

    async def _put_tombstone(self, name: str, number: int) -> None:
        key = manifest_key(name, number)
        try:
            manifest = manifests.decode(await self._store.get(key), key)
        except ObjectMissing:
            return
        except Corrupt as error:
            log.warning("removing a dead log whose manifest is damaged: %s", error)
            return
        if not manifest.deleted:
            await self._store.put(key, manifests.tombstone(manifest).encode())

    async def _remove(self, name: str, number: int) -> None:
        """Bodies before their indexes, the manifest last: what is left always tells what it is."""
        bodies = (*body_prefixes(name, number), snapshots_of(name, number))
        for prefixes in (bodies, index_prefixes(name, number)):
            for prefix in prefixes:
                keys = [info.key async for info in self._store.list(prefix)]
                await self._store.delete(keys)
        await self._store.delete([manifest_key(name, number)])
        log.debug("removed what was left of log %d of %s", number, name)
