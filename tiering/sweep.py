"""Goes over all streams now and then, for what nobody else has noticed."""

import asyncio
import logging

from tiering.buckets import Buckets
from tiering.cold.sealer import Sealer
from tiering.errors import StreamError, Unavailable
from tiering.hot.sealing import SealingDesk, Survey
from tiering.hot.terms import Hidden
from tiering.janitor import Janitor
from tiering.recalls import Recalls
from tiering.service import Service
from tiering.streams import Streams

log = logging.getLogger(__name__)


class Sweep(Service):
    """Of all workers one sweeps at a time."""

    def __init__(
        self,
        desk: SealingDesk,
        streams: Streams,
        sealer: Sealer,
        janitor: Janitor,
        buckets: Buckets,
        recalls: Recalls,
        period_secs: float,
    ) -> None:
        super().__init__()
        self._desk = desk
        self._streams = streams
        self._sealer = sealer
        self._janitor = janitor
        self._buckets = buckets
        self._recalls = recalls
        self._period_secs = period_secs

    async def _run(self) -> None:
        while True:
            try:
                if await self._desk.sweeps(int(self._period_secs * 1000)):
                    await self.once()
            except StreamError as error:
                log.warning("the sweep pauses: %s", error)
            except Exception:
                log.exception("the sweep failed")
            await asyncio.sleep(self._period_secs)

    async def once(self) -> None:
        async for name in self._desk.names():
            await self._look_after(name)
        await self._buckets.sweep()
        await self._janitor.look_around()
        await self._recalls.look_around()

    async def _look_after(self, name: str) -> None:
        """What is wrong with one stream must not keep the others from being looked after."""
        try:
            survey = await self._desk.survey(name)
            if survey is not None:
                await self._do_what_is_due(survey)
        except Hidden:
            log.info("%s has expired, and forks of it live on", name)
        except Unavailable:
            raise
        except StreamError as error:
            log.warning("%s cannot be looked after: %s", name, error)

    async def _do_what_is_due(self, survey: Survey) -> None:
        await self._streams.check_ties(survey)
        await self._recalls.check(survey)
        if survey.has_expired:
            await self._streams.remove_expired(survey.name)
        else:
            await self._sealer.remind(survey)
