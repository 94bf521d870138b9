"""What the server says to its private Redis."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError

from ds_server.embedded.engines import Engine

ANSWER_SECS = 5.0
LOADING_POLL_SECS = 0.05

DURABLE: Mapping[str, str] = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "save": "",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "lazyfree-lazy-user-del": "yes",
}


@dataclass(frozen=True, slots=True)
class Identity:
    engine: Engine
    pid: int
    directory: Path


@asynccontextmanager
async def conversation(socket: Path) -> AsyncIterator[Redis]:
    """A connection to a Redis that has loaded its data."""
    redis = Redis(
        unix_socket_path=str(socket),
        decode_responses=True,
        socket_timeout=ANSWER_SECS,
        socket_connect_timeout=ANSWER_SECS,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        await _loaded(redis)
        yield redis
    finally:
        await redis.aclose()


async def ask_identity(redis: Redis) -> Identity:
    info = await redis.info("server")
    settings = await redis.config_get("dir")
    return Identity(_engine(info), int(info["process_id"]), Path(str(settings["dir"])))


async def make_durable(redis: Redis) -> None:
    for key, value in DURABLE.items():
        await redis.config_set(key, value)


async def ended(socket: Path) -> None:
    """A silent connection lasts exactly as long as the process behind it."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_unix_connection(socket)
        try:
            await reader.read()
        finally:
            writer.close()


async def _loaded(redis: Redis) -> None:
    while True:
        try:
            await redis.ping()
            return
        except BusyLoadingError:
            await asyncio.sleep(LOADING_POLL_SECS)


def _engine(info: Mapping[str, object]) -> Engine:
    if "valkey_version" in info:
        return Engine("valkey", str(info["valkey_version"]))
    return Engine("redis", str(info["redis_version"]))
