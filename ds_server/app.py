"""The only place where things are put together."""

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from ds_server import health, manners, metrics, streams
from ds_server.keys import FEEDS, SETTINGS, STREAMS
from ds_server.live.feed import Feeds
from ds_server.settings import Settings
from tiering.engine import inspect
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.subscription import Subscription
from tiering.hot.tail import TailCache
from tiering.hot.tier import HotTier
from tiering.registry import Registry
from tiering.streams import Streams

_TAIL_CACHE_BYTES = 32 * 1024 * 1024


def build_app(settings: Settings, redis_url: str) -> web.Application:
    app = web.Application(
        middlewares=[manners.explain], client_max_size=settings.limits.max_body_bytes
    )
    app[SETTINGS] = settings
    app.on_response_prepare.append(manners.dress)
    app.on_shutdown.append(_send_readers_away)
    app.cleanup_ctx.append(_hot_tier(redis_url))
    streams.add_routes(app)
    health.add_routes(app)
    metrics.add_routes(app)
    return app


def _hot_tier(redis_url: str) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(app: web.Application) -> AsyncIterator[None]:
        settings = app[SETTINGS]
        await inspect(redis_url)
        address = Address.parse(redis_url)
        writes, reads = (Pipe(address, settings.redis.timeout_secs) for _ in range(2))
        subscription = Subscription(address, settings.redis.timeout_secs)
        pressure = Pressure(reads, settings.limits.max_hot_bytes)
        connections = (writes, reads, subscription, pressure)
        for connection in connections:
            await connection.open()
        tier = HotTier(
            writes,
            reads,
            pressure,
            grid=settings.tiering.chunk_bytes,
            max_stream_bytes=settings.limits.max_stream_bytes,
        )
        app[STREAMS] = Streams(tier, TailCache(tier, _TAIL_CACHE_BYTES), Registry(tier))
        app[FEEDS] = Feeds(app[STREAMS], subscription)
        async with metrics.sampling(
            metrics.difference(lambda: writes.sent + reads.sent, metrics.ROUND_TRIPS),
            lambda: metrics.HOT_BYTES.set(pressure.used_bytes),
        ):
            yield
        for connection in reversed(connections):
            await connection.close()

    return context


async def _send_readers_away(app: web.Application) -> None:
    app[FEEDS].close()
