"""Whether the process lives, and whether it can serve."""

from aiohttp import web

from cdn import policy
from ds_server.keys import STREAMS

_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": policy.NO_STORE}


async def healthz(request: web.Request) -> web.Response:
    return web.Response(body=b"ok", headers=_HEADERS)


async def readyz(request: web.Request) -> web.Response:
    await request.app[STREAMS].ping()
    return web.Response(body=b"ready", headers=_HEADERS)


def add_routes(app: web.Application) -> None:
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
