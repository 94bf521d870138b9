"""Keeps the manifest of a stream true, also when others write it at the same time."""

from tiering.cold.keys import manifest_key
from tiering.cold.manifest import UNKNOWN, tombstone
from tiering.cold.witness import Witness
from tiering.hot.fence import Fence
from tiering.hot.graveyard import Graveyard
from tiering.hot.sealing import SealingDesk, Survey
from tiering.objects.store import ObjectStore


class ManifestWriter:
    def __init__(
        self,
        desk: SealingDesk,
        store: ObjectStore,
        witness: Witness,
        fence: Fence,
        graves: Graveyard,
    ) -> None:
        self._desk = desk
        self._store = store
        self._witness = witness
        self._fence = fence
        self._graves = graves

    async def write(self, survey: Survey) -> None:
        """Written, then compared with what is true by now: a late writer mends its own mistake."""
        if survey.noted_manifest == survey.manifest.mark:
            return
        async with self._witness.new_log_if_back_in_time(survey):
            await self._fence.passed()
        if not survey.noted_manifest and not await self._announce(survey):
            return
        written, current = survey, await self._write(survey)
        while current is not None and current.log == survey.log:
            if current.manifest.says_the_same(written.manifest):
                return
            written, current = current, await self._write(current)
        if current is None or survey.log not in current.logs:
            await self._bury(survey)

    async def _announce(self, survey: Survey) -> bool:
        """Whoever deletes the stream must know beforehand that there may be something. One that
        is gone gets nothing: nobody would remove it."""
        return await self._desk.manifest(survey.manifest, UNKNOWN)

    async def _write(self, survey: Survey) -> Survey | None:
        manifest = survey.manifest
        await self._store.put(manifest_key(manifest.name, manifest.log), manifest.encode())
        await self._desk.manifest(manifest, manifest.mark)
        return await self._desk.survey(manifest.name)

    async def _bury(self, survey: Survey) -> None:
        """The stream went while its manifest was being written."""
        name, dead = survey.name, tombstone(survey.manifest)
        await self._store.put(manifest_key(name, survey.log), dead.encode())
        await self._graves.declare(name, survey.log, survey.now_ms)
