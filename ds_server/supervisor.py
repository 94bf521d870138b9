"""The parent process: keeps the workers and the embedded Redis alive, and ends them in order.

It serves nothing itself and imports neither aiohttp nor uvloop, so that it stays small.
"""

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Protocol, Self

from redis.exceptions import AuthenticationError, ConnectionError, TimeoutError

from ds_server.banner import banner
from ds_server.embedded import DataDirectory, EmbeddedRedis
from ds_server.listeners import open_listeners
from ds_server.metrics_files import shared_counters
from ds_server.orders import Orders
from ds_server.settings import Settings
from ds_server.tls import server_context
from ds_server.together import together
from ds_server.workers import Crew
from tiering.engine import Promise, inspect
from tiering.errors import Refused

RETRY_SECS = 0.2


class RedisService(Protocol):
    @property
    def url(self) -> str: ...
    @property
    def place(self) -> str: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def keep_alive(self) -> None: ...


class ExternalRedis:
    """Somebody else keeps it alive."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def keep_alive(self) -> None:
        pass


async def serve(settings: Settings) -> None:
    """Returns after SIGINT or SIGTERM, when everything it started has ended."""
    serving = asyncio.create_task(_serve(settings))
    _cancel_on_signals(serving)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def _serve(settings: Settings) -> None:
    server_context(settings.tls)
    if settings.redis.url is not None:
        await _serve_on(ExternalRedis(settings.redis.url), settings)
    else:
        directory = DataDirectory(Path(settings.storage.data_dir))
        with directory.held():
            await _serve_on(EmbeddedRedis(directory), settings)


async def _serve_on(redis: RedisService, settings: Settings) -> None:
    server = settings.server
    listeners = await open_listeners(server.host, server.port, server.workers)
    port = listeners[0].getsockname()[1]
    async with redis:
        promise = await _promise(redis.url, settings.redis.timeout_secs)
        with shared_counters():
            async with Crew(listeners, Orders(settings, redis.url)) as crew:
                print(banner(settings, port, redis.place, promise), flush=True)
                await together(redis.keep_alive(), crew.keep_filled(), crew.roll_on(_hang_up()))


async def _promise(redis_url: str, patience: float) -> Promise:
    """A Redis that was started at the same time as the server gets a moment to come up."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await inspect(redis_url)
        except Refused as refusal:
            if time.monotonic() > deadline or not _may_pass(refusal.__cause__):
                raise
        await asyncio.sleep(RETRY_SECS)


def _may_pass(cause: BaseException | None) -> bool:
    is_absence = isinstance(cause, ConnectionError | TimeoutError)
    return is_absence and not isinstance(cause, AuthenticationError)


def _cancel_on_signals(serving: "asyncio.Task[None]") -> None:
    """The second signal changes nothing: the end is already under way."""
    loop = asyncio.get_running_loop()
    requested = asyncio.Event()

    def stop() -> None:
        if not requested.is_set():
            requested.set()
            serving.cancel()

    for number in _ending_signals():
        loop.add_signal_handler(number, stop)


def _ending_signals() -> list[signal.Signals]:
    """When a terminal is closed, what was started in it ends."""
    ending = [signal.SIGINT, signal.SIGTERM]
    return [*ending, signal.SIGHUP] if sys.stdin.isatty() else ending


def _hang_up() -> asyncio.Event:
    request = asyncio.Event()
    if not sys.stdin.isatty():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, request.set)
    return request
