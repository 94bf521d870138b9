"""The tiers for a command that runs beside the server, or without it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ds_server.embedded import DataDirectory, EmbeddedRedis
from ds_server.embedded.locks import is_locked
from ds_server.settings import Settings
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe


@asynccontextmanager
async def attached_pipe(settings: Settings) -> AsyncIterator[Pipe]:
    async with _redis_url(settings) as url:
        pipe = Pipe(Address.parse(url), settings.redis.timeout_secs)
        await pipe.open()
        try:
            yield pipe
        finally:
            await pipe.close()


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
