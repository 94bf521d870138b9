"""Requests for streams go straight to their handlers; all others take the router's way."""

from urllib.parse import unquote

from aiohttp import hdrs, web
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from ds_server.body import expect
from ds_server.manners import explain, explained
from ds_server.metrics import ERRORS
from ds_server.names import BUCKETS_ROOT, ROOT
from tiering.membership import LISTING


def is_a_stream(path: str) -> bool:
    """Both surfaces have the same handlers."""
    if path.startswith(ROOT):
        return True
    is_in_a_bucket = path.startswith(BUCKETS_ROOT) and path.count("/") == 3
    return is_in_a_bucket and unquote(path.rpartition("/")[2]) != LISTING


class Dispatcher:
    """What the router would find out for each request is the same for all of one method."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._found = {
            route.method: self._match(route)
            for route in app.router.routes()
            if route.resource is not None and route.resource.canonical.startswith(ROOT)
        }

    def _match(self, route: web.AbstractRoute) -> UrlMappingMatchInfo:
        found = UrlMappingMatchInfo({}, route)
        found.add_app(self._app)
        found.freeze()
        found.current_app = self._app
        return found

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        found = self._found.get(request.method)
        is_plain = hdrs.EXPECT not in request.headers
        if found is None or not is_plain or not is_a_stream(request.rel_url.raw_path):
            return await self._by_the_router(request)
        request._match_info = found
        return await explain(request, found.handler)

    async def _by_the_router(self, request: web.Request) -> web.StreamResponse:
        """It looks at expectations before it asks any middleware, and chokes on what is no text:
        those that cannot be met do not come to it."""
        try:
            if hdrs.EXPECT in request.headers:
                request._match_info = next(iter(self._found.values()))
                await expect(request)
            return await self._app._handle(request)
        except web.HTTPException as error:
            ERRORS.labels(type(error).__name__).inc()
            return explained(error)
