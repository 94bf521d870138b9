"""What every answer has: errors a person understands, CORS, security headers."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from ds_server import headers
from ds_server.keys import LEAVING, SETTINGS
from ds_server.metrics import ERRORS
from ds_server.problem import answer, problem
from ds_server.request_id import request_id
from tiering.errors import Corrupt, StreamError

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_METHODS = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": _METHODS,
    "Access-Control-Allow-Headers": ", ".join(headers.REQUEST_HEADERS),
    "Access-Control-Max-Age": "86400",
}


@web.middleware
async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure becomes a problem; one after the headers are sent breaks the connection."""
    try:
        if request.method == "OPTIONS":
            return web.Response(status=204, headers=_PREFLIGHT)
        return await handler(request)
    except StreamError as error:
        ERRORS.labels(type(error).__name__).inc()
        if isinstance(error, Corrupt):
            log.error("%s %s: %s", request.method, request.rel_url, error, extra=_id(request))
        if has_begun(request):
            raise
        return answer(error)
    except web.HTTPException as error:
        ERRORS.labels(type(error).__name__).inc()
        return explained(error)
    except Exception as error:
        if has_begun(request):
            raise
        ERRORS.labels(type(error).__name__).inc()
        log.exception("%s %s failed", request.method, request.rel_url, extra=_id(request))
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The server made a mistake.")


def _id(request: web.Request) -> dict[str, str]:
    return {"request_id": request_id(request)}


def has_begun(request: web.Request) -> bool:
    return request.writer is not None and request.writer.output_size > 0


_DETAILS = {
    HTTPStatus.NOT_FOUND: "Nothing lives at this address; streams are below /v1/stream/ and /ds/.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not take that method.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than this server takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "Bodies are taken as they are, without Content-Encoding.",
    HTTPStatus.EXPECTATION_FAILED: "The only expectation this server meets is 100-continue.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
}


def explained(error: web.HTTPException) -> web.Response:
    status = HTTPStatus(error.status)
    allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return problem(status, _DETAILS.get(status, error.reason), allow)


_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Access-Control-Expose-Headers": ", ".join(headers.RESPONSE_HEADERS),
}
OPEN_TO_ALL = _ALWAYS | {"Access-Control-Allow-Origin": "*"}


def is_open_to_all(request: web.Request) -> bool:
    """Every origin may read, and the server is not about to leave."""
    app = request.app
    return "*" in app[SETTINGS].http.cors_origins and not app[LEAVING].is_set()


async def dress(request: web.Request, response: web.StreamResponse) -> None:
    if request.app[LEAVING].is_set():
        # The client takes another connection next time.
        response.force_close()
        response.headers["Connection"] = "close"
    allowed = request.app[SETTINGS].http.cors_origins
    if "*" in allowed:
        clothe(request, response)
        return
    response.headers.update(_ALWAYS)
    response.headers[headers.REQUEST_ID] = request_id(request)
    response.headers["Vary"] = "Origin"
    origin = request.headers.get("Origin")
    if origin in allowed:
        response.headers["Access-Control-Allow-Origin"] = origin


def clothe(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """For every origin: what is sent where no application is at hand holds no stream's data."""
    response.headers.update(OPEN_TO_ALL)
    response.headers[headers.REQUEST_ID] = request_id(request)
