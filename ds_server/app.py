"""The only place where things are put together."""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from ds_server import health, manners, metrics, streams
from ds_server.keys import FEEDS, LEAVING, SETTINGS, STREAMS
from ds_server.live.feed import Feeds
from ds_server.objects import object_store
from ds_server.settings import Settings
from tiering.cold.reader import ColdReader
from tiering.cold.sealer import Sealer
from tiering.deployment import agree
from tiering.engine import inspect
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk
from tiering.hot.subscription import Subscription
from tiering.hot.tail import TailCache
from tiering.hot.tier import HotTier
from tiering.registry import Registry
from tiering.streams import Streams

_TAIL_CACHE_BYTES = 32 * 1024 * 1024


def build_app(settings: Settings, redis_url: str, *, is_first: bool = True) -> web.Application:
    """The first workers of a server make sure that it has what it needs; their successors, who
    may come in the middle of an outage, serve what can be served."""
    app = web.Application(
        middlewares=[manners.explain], client_max_size=settings.limits.max_body_bytes
    )
    app[SETTINGS] = settings
    app[LEAVING] = asyncio.Event()
    app.on_response_prepare.append(manners.dress)
    app.on_shutdown.append(_send_readers_away)
    app.cleanup_ctx.append(_tiers(redis_url, is_first))
    streams.add_routes(app)
    health.add_routes(app)
    metrics.add_routes(app)
    return app


def _tiers(redis_url: str, is_first: bool) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(app: web.Application) -> AsyncIterator[None]:
        settings = app[SETTINGS]
        await inspect(redis_url)
        async with object_store(settings) as store:
            writes, reads, sealing, subscription = _connections(settings, redis_url)
            pressure = Pressure(reads, settings.limits.max_hot_bytes)
            tier = HotTier(
                writes,
                reads,
                pressure,
                grid=settings.tiering.chunk_bytes,
                max_stream_bytes=settings.limits.max_stream_bytes,
            )
            tail = TailCache(tier, _TAIL_CACHE_BYTES)
            cold = ColdReader(store, settings.cache.chunk_bytes)
            desk = SealingDesk(sealing)
            sealer = Sealer(desk, store, pressure, settings.tiering.seal_age_secs)
            tier.attend = sealer.attend
            app[STREAMS] = Streams(tier, tail, cold, SealingDesk(reads), store, Registry(tier))
            app[FEEDS] = Feeds(app[STREAMS], subscription)
            for connection in (writes, reads, sealing, subscription):
                await connection.open()
            if is_first:
                await store.check()
                await agree(sealing, store)
            for service in (pressure, sealer):
                await service.open()
            async with metrics.sampling(
                metrics.difference(
                    lambda: writes.sent + reads.sent + sealing.sent, metrics.ROUND_TRIPS
                ),
                lambda: metrics.HOT_BYTES.set(pressure.used_bytes),
            ):
                yield
            for part in (sealer, pressure, cold, subscription, sealing, reads, writes):
                await part.close()

    return context


def _connections(settings: Settings, redis_url: str) -> tuple[Pipe, Pipe, Pipe, Subscription]:
    """Large reads and sealing have connections of their own, so that no append waits for them."""
    address, timeout_secs = Address.parse(redis_url), settings.redis.timeout_secs
    writes, reads, sealing = (Pipe(address, timeout_secs) for _ in range(3))
    return writes, reads, sealing, Subscription(address, timeout_secs)


async def _send_readers_away(app: web.Application) -> None:
    app[FEEDS].close()
