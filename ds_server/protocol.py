"""The HTTP connection: what is not even a request gets an answer like every other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import HttpVersion10, web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from ds_server.dispatch import Dispatcher
from ds_server.keys import TURNS
from ds_server.live.departures import Departures
from ds_server.manners import clothe
from ds_server.metrics import ERRORS
from ds_server.problem import problem

log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499

Handling = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Protocol(RequestHandler):
    def __init__(self, departures: Departures, *rest: Any, **kwargs: Any) -> None:
        super().__init__(*rest, **kwargs)
        self._departures = departures
        self._has_left = False

    def eof_received(self) -> bool:  # type: ignore[override]
        """True: the transport stays open until it is closed here, which TLS does not allow."""
        if self.transport is None or self.transport.get_extra_info("sslcontext") is not None:
            return False
        self._departures.add(self._leave)
        return True

    def _leave(self) -> None:
        self._has_left = True
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Who has not had his turn yet gets it now."""
        if self._has_left:
            super().connection_lost(exc)
        else:
            self._departures.add(partial(super().connection_lost, exc))

    async def _handle_request(
        self, request: web.BaseRequest, start_time: float | None, request_handler: Handling
    ) -> tuple[web.StreamResponse, bool]:
        """A request whose client has gone is logged like any other, whether that was noticed by
        waiting or by writing."""
        try:
            return await super()._handle_request(request, start_time, request_handler)
        except (asyncio.CancelledError, ConnectionError):
            self.log_access(request, web.Response(status=CLIENT_CLOSED_REQUEST), start_time)
            raise

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Called for bytes that cannot be parsed, and for failures outside every handler."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun and cannot be replaced") from exc
        ERRORS.labels("malformed" if status < 500 else "mistake").inc()
        log.log(
            logging.DEBUG if status < 500 else logging.ERROR,
            "no answer was made for %s",
            request.remote,
            exc_info=exc,
        )
        response = problem(HTTPStatus(status), _sentence(status))
        clothe(request, response)
        response.force_close()
        return response


def _sentence(status: int) -> str:
    if status < 500:
        return "What arrived is not a well-formed HTTP request."
    return "The server made a mistake."


class _Server(web.Server):
    def __init__(self, departures: Departures, *rest: Any, **kwargs: Any) -> None:
        super().__init__(*rest, **kwargs)
        self._departures = departures

    def __call__(self) -> RequestHandler:
        return Protocol(self._departures, self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        await super()._make_server()
        app, departures = self._app, Departures(self._app[TURNS])
        handle, make = Dispatcher(app).handle, _making(app)
        return _Server(departures, handle, request_factory=make, **self._kwargs)


def _making(app: web.Application) -> Callable[..., web.BaseRequest]:
    """A request line without a version is answered in the oldest one that has answers."""

    def make(message: RawRequestMessage, *rest: Any) -> web.BaseRequest:
        if message.version < HttpVersion10:
            message = message._replace(version=HttpVersion10)
        return app._make_request(message, *rest)

    return make
