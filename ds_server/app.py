"""The only place where things are put together."""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from ds_server import bootstrap, buckets, health, manners, metrics, snapshots, streams
from ds_server.assembly import Pipes, assemble
from ds_server.keys import (
    BUCKETS,
    FEEDS,
    FRAMES,
    LEAVING,
    RECALLS,
    SETTINGS,
    SNAPSHOTS,
    STREAMS,
    TRANSCRIPT,
    TURNS,
)
from ds_server.live.feeds import Feeds
from ds_server.live.frames import Frames
from ds_server.live.turns import Turns
from ds_server.objects import object_store
from ds_server.purge import Purger
from ds_server.settings import Settings
from tiering.deployment import agree
from tiering.engine import inspect
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.subscription import Subscription
from tiering.objects.counted import CountedStore
from tiering.objects.probe import insist_on_names
from tiering.service import Service


def build_app(settings: Settings, redis_url: str, *, is_first: bool = True) -> web.Application:
    """The first workers of a server make sure that it has what it needs; their successors, who
    may come in the middle of an outage, serve what can be served."""
    app = web.Application(
        middlewares=[manners.explain], client_max_size=settings.limits.max_body_bytes
    )
    app[SETTINGS] = settings
    app[LEAVING] = asyncio.Event()
    app[TURNS] = Turns()
    app.on_response_prepare.append(manners.dress)
    app.cleanup_ctx.append(_tiers(redis_url, is_first))
    buckets.add_routes(app)
    streams.add_routes(app)
    snapshots.add_routes(app)
    bootstrap.add_routes(app)
    health.add_routes(app)
    metrics.add_routes(app)
    return app


def _tiers(redis_url: str, is_first: bool) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(app: web.Application) -> AsyncIterator[None]:
        settings = app[SETTINGS]
        promise = await inspect(redis_url)
        async with object_store(settings) as opened:
            store = CountedStore(opened)
            address, timeout_secs = Address.parse(redis_url), settings.redis.timeout_secs
            pipes = Pipes(*(Pipe(address, timeout_secs) for _ in range(3)))
            subscription = Subscription(address, timeout_secs)
            parts = assemble(settings, store, pipes, is_durable=promise.is_durable)
            app[STREAMS] = parts.streams
            app[BUCKETS] = parts.buckets
            app[SNAPSHOTS] = parts.snapshots
            app[TRANSCRIPT] = parts.transcript
            app[RECALLS] = parts.recalls
            app[FEEDS] = Feeds(parts.streams, subscription, app[TURNS])
            app[FRAMES] = Frames(parts.streams, app[TURNS])
            for connection in (*pipes, subscription):
                await connection.open()
            if is_first:
                await store.check()
                await insist_on_names(store, settings.limits.max_name_bytes)
                await agree(pipes.sealing, store)
            await pipes.insist_on_deployment()
            working = (parts.pressure, parts.sealer, parts.janitor, parts.sweep, parts.recalls)
            services: tuple[Service | Purger, ...] = (*parts.purgers, *working)
            for service in services:
                await service.open()
            async with metrics.sampling(
                metrics.difference(lambda: pipes.sent, metrics.ROUND_TRIPS),
                *metrics.differences(store.requests, metrics.OBJECT_REQUESTS),
                lambda: metrics.HOT_BYTES.set(parts.pressure.used_bytes),
                lambda: metrics.PURGES_PENDING.set(parts.recalls.pending),
            ):
                yield
            for part in (*reversed(services), parts.cold, subscription, *pipes):
                await part.close()

    return context
