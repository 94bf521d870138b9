"""Object storage remembers how far a stream has been, also when Redis does not."""

import contextlib
import logging
from collections.abc import AsyncIterator

from tiering.cold import manifest as manifests
from tiering.cold.keys import manifest_key
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.hot.logs import Logs
from tiering.hot.sealing import SealingDesk, Survey
from tiering.objects.store import ObjectStore

log = logging.getLogger(__name__)

_MOST_REMEMBERED = 100_000


class BackInTime(Corrupt):
    """Object storage holds something else in the place of what the hot tier has."""


class Witness:
    """Asked once for each stream and run of Redis: only a restart can bring back an older state.

    Names of objects alone do not show it: pieces of the new history may begin where those of
    the forgotten one began, and end elsewhere.
    """

    def __init__(self, desk: SealingDesk, store: ObjectStore, logs: Logs) -> None:
        self._desk = desk
        self._store = store
        self._logs = logs
        self._run = ""
        self._asked: set[str] = set()

    @contextlib.asynccontextmanager
    async def new_log_if_back_in_time(self, survey: Survey) -> AsyncIterator[None]:
        try:
            await self._assert_not_behind(survey)
            yield
        except BackInTime:
            await self._logs.relog(survey.name, survey.log, "sealed")
            raise

    async def _assert_not_behind(self, survey: Survey) -> None:
        self._forget_other_runs()
        key = manifest_key(survey.name, survey.log)
        if not survey.has_manifest or key in self._asked:
            return
        stored = await self._stored(key)
        if stored is not None and await self._is_ahead(stored):
            raise BackInTime(
                f"{key} knows the log up to {stored.tail}, Redis does not:"
                " Redis has gone back in time."
            )
        self._asked.add(key)

    def _forget_other_runs(self) -> None:
        if self._run != self._desk.run_id or len(self._asked) > _MOST_REMEMBERED:
            self._run = self._desk.run_id
            self._asked.clear()

    async def _stored(self, key: str) -> Manifest | None:
        try:
            return manifests.decode(await self._store.get(key), key)
        except Corrupt as error:
            log.error("the manifest will be written anew: %s", error)
            return None

    async def _is_ahead(self, stored: Manifest) -> bool:
        """Of what is true now: another sealer may have written it a moment ago."""
        now = await self._desk.survey(stored.name)
        if now is None or now.log != stored.log:
            return False
        return stored.tail > now.tail or stored.sealed > now.sealed
