"""The tiers for a command that runs beside the server, or without it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ds_server.embedded import DataDirectory, EmbeddedRedis
from ds_server.embedded.locks import is_locked
from ds_server.objects import object_store
from ds_server.settings import Settings
from tiering.deployment import agree
from tiering.engine import inspect
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Tiers:
    pipe: Pipe
    store: ObjectStore
    is_durable: bool


@asynccontextmanager
async def attached(settings: Settings) -> AsyncIterator[Tiers]:
    """Both tiers, whether or not they belong together."""
    async with _redis_url(settings) as url, object_store(settings) as store:
        promise = await inspect(url)
        pipe = Pipe(Address.parse(url), settings.redis.timeout_secs)
        await pipe.open()
        try:
            await store.check()
            yield Tiers(pipe, store, promise.is_durable)
        finally:
            await pipe.close()


@asynccontextmanager
async def attached_deployment(settings: Settings) -> AsyncIterator[Tiers]:
    """Both tiers of one deployment."""
    async with attached(settings) as tiers:
        tiers.pipe.deployment = await agree(tiers.pipe, tiers.store)
        yield tiers


@asynccontextmanager
async def _redis_url(settings: Settings) -> AsyncIterator[str]:
    """The Redis in the settings, the running server's own, or one started for the while."""
    if settings.redis.url is not None:
        yield settings.redis.url
        return
    directory = DataDirectory(Path(settings.storage.data_dir))
    if directory.redis_lock.exists() and is_locked(directory.redis_lock):
        yield EmbeddedRedis(directory).url
        return
    with directory.held():
        async with EmbeddedRedis(directory) as redis:
            yield redis.url
