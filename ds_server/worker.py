"""One worker process: the HTTP application on a socket inherited from the parent."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys

import msgspec
import uvloop
from aiohttp import web

from ds_server import garbage, logs
from ds_server.access_log import AccessLog
from ds_server.app import build_app
from ds_server.keys import FEEDS, LEAVING
from ds_server.listeners import BACKLOG
from ds_server.orders import READY, Orders
from ds_server.protocol import Runner
from ds_server.settings import Settings
from ds_server.tls import server_context
from tiering.errors import Refused

KEEP_ALIVE_SECS = 75.0
LINGERING_SECS = 2.0
DRAIN_SECS = 0.5
DRAIN_POLL_SECS = 0.02
SHUTDOWN_SECS = 0.3
# Live requests end as soon as the worker is told to; who is stuck is cut off after the drain, the
# wait for handlers to finish, and the wait for them to be cancelled.
LIVE_END_SECS = DRAIN_SECS + 2 * SHUTDOWN_SECS

access_log = logging.getLogger("ds_server.access")


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = socket.socket(fileno=sys.stdin.fileno())
    listener = socket.socket(fileno=int(sys.argv[1]))
    orders = msgspec.json.decode(parent.makefile("rb").readline(), type=Orders)
    logs.configure(orders.settings.log)
    try:
        uvloop.run(serve(orders, listener, parent))
    except Refused as refusal:
        parent.sendall(f"{refusal}\n".encode())
        return 1
    return 0


async def serve(orders: Orders, listener: socket.socket, parent: socket.socket) -> None:
    """Returns after SIGTERM, when the requests in flight are answered."""
    app = build_app(orders.settings, orders.redis_url, is_first=orders.is_first)
    _listen_for_the_end(parent, app[LEAVING])
    runner = _runner(app, orders.settings)
    try:
        await runner.setup()
        site = _site(runner, listener, orders.settings)
        await site.start()
        parent.sendall(f"{READY}\n".encode())
        async with garbage.sparing():
            await app[LEAVING].wait()
        await site.stop()
        app[FEEDS].close()
        await _drain(runner)
    finally:
        await runner.cleanup()


async def _drain(runner: web.AppRunner) -> None:
    """A connection that was accepted but has not asked yet gets its answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECS):
            while runner.server is not None and runner.server.connections:  # noqa: ASYNC110
                await asyncio.sleep(DRAIN_POLL_SECS)


def _runner(app: web.Application, settings: Settings) -> web.AppRunner:
    return Runner(
        app,
        access_log_class=AccessLog,
        auto_decompress=False,
        access_log=access_log if settings.log.access else None,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_SECS,
        lingering_time=LINGERING_SECS,
        shutdown_timeout=SHUTDOWN_SECS,
    )


def _site(runner: web.AppRunner, listener: socket.socket, settings: Settings) -> web.SockSite:
    context = server_context(settings.tls)
    return web.SockSite(runner, listener, ssl_context=context, backlog=BACKLOG)


def _listen_for_the_end(parent: socket.socket, leaving: asyncio.Event) -> None:
    """The parent never speaks again: if its channel has anything to say, it is gone."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leaving.set)
    loop.add_reader(parent, os._exit, 1)


if __name__ == "__main__":
    sys.exit(main())
