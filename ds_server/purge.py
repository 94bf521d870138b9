"""The caches in front, as far as they can be told to forget a stream."""

import logging
import time
from collections.abc import Iterator
from typing import Literal

import aiohttp

from cdn.purge import Cdn, Configured, Varnish
from cdn.tags import tag
from ds_server import metrics
from ds_server.settings import Settings

log = logging.getLogger(__name__)

_ATTEMPT_SECS = 5.0
_FIRST_REST_SECS = 0.5
_LONGEST_REST_SECS = 30.0


def is_cached(settings: Settings) -> bool:
    """Whether somebody in front of the server may have what it served."""
    return settings.edge.secret is not None or any(_cdns(settings))


def caches(settings: Settings) -> "list[Purger]":
    return [Purger(cdn) for cdn in _cdns(settings)]


def _cdns(settings: Settings) -> Iterator[Cdn]:
    for url in settings.edge.varnish:
        yield Varnish(url, settings.edge.secret or "")
    purge = settings.purge
    if purge.url is not None:
        yield Configured(purge.method, purge.url, purge.headers, purge.body)


class Purger:
    """Asks one cache. While that is out of reach, it is left alone for longer and longer: however
    many streams wait for it, they cost one attempt."""

    def __init__(self, cdn: Cdn) -> None:
        self._cdn = cdn
        self._session: aiohttp.ClientSession | None = None
        self._rest_secs = 0.0
        self._rests_until = 0.0

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ATTEMPT_SECS))

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def forget(self, name: str) -> bool:
        if time.monotonic() < self._rests_until:
            return False
        outcome = await self._ask(tag(name))
        self._rest(outcome == "away")
        (metrics.PURGED if outcome == "done" else metrics.PURGE_FAILED).inc()
        return outcome == "done"

    async def _ask(self, tag: str) -> Literal["done", "refused", "away"]:
        assert self._session is not None
        call = self._cdn.purge(tag)
        try:
            async with self._session.request(
                call.method, call.url, headers=call.headers, data=call.body or None
            ) as answer:
                if answer.status < 300:
                    return "done"
                log.warning("a purge of %s was answered with %d", tag, answer.status)
                return "away" if answer.status >= 500 else "refused"
        except (aiohttp.ClientError, TimeoutError) as error:
            log.warning("a purge of %s did not succeed: %r", tag, error)
            return "away"

    def _rest(self, is_away: bool) -> None:
        """Several attempts that fail together are one."""
        if is_away and time.monotonic() < self._rests_until:
            return
        longer = max(_FIRST_REST_SECS, 2 * self._rest_secs)
        self._rest_secs = min(_LONGEST_REST_SECS, longer) if is_away else 0.0
        self._rests_until = time.monotonic() + self._rest_secs
