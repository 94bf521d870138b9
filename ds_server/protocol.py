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
from ds_server.express import Express
from ds_server.heads import read_head
from ds_server.keys import SETTINGS, TURNS
from ds_server.live.departures import Departures
from ds_server.manners import clothe
from ds_server.metrics import ERRORS
from ds_server.problem import problem

log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499

Handling = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Protocol(RequestHandler):
    def __init__(
        self, departures: Departures, express: Express | None, *rest: Any, **kwargs: Any
    ) -> None:
        super().__init__(*rest, **kwargs)
        self._departures = departures
        self._has_left = False
        self._express = express
        self._riding: bytes | None = None
        self._held = b""
        self._owed = 0

    def data_received(self, data: bytes) -> None:
        """As long as it is plain where each request begins and ends, an append may go by express;
        a connection on which that is not so stays with the framework for good."""
        if self._express is None or not data:
            super().data_received(data)
        elif self._riding is not None:
            self._held += data
            self._pause_transport_reading()
        elif self._owed:
            self._pass_on(data, self._owed - len(data))
        else:
            self._begin(self._express, data)

    def _begin(self, express: Express, data: bytes) -> None:
        head = read_head(data)
        owed = -1 if head is None else head.end - len(data)
        if head is not None and owed == 0 and self._is_idle:
            self._set_out(data)
            if express.take(self, head, data):
                return
            self._come_home()
        self._pass_on(data, owed)

    def _pass_on(self, data: bytes, owed: int) -> None:
        """`owed`: how much of the request is still to come; less than none: that is not known."""
        self._owed = owed
        if owed < 0:
            self._express = None
        super().data_received(data)

    @property
    def _is_idle(self) -> bool:
        """And who does not take his answers waits for them with the framework."""
        is_waiting = self._waiter is not None and not self._waiter.done()
        return is_waiting and not (self._close or self._force_close or self.writing_paused)

    def _set_out(self, request: bytes) -> None:
        """Who shuts the server down waits for what is on its way; nobody takes it for idle."""
        self._riding = request
        self._request_in_progress = True
        self._keepalive = False

    def _come_home(self) -> None:
        self._riding = None
        self._request_in_progress = False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)

    def arrive(self, wire: bytes, *, is_last: bool) -> None:
        self._come_home()
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(wire)
        if is_last or self._close or self._force_close:
            self.transport.close()
            return
        self._stay_alive()
        self._go_on()

    def go_back(self) -> bool:
        request, is_connected = self._riding, self.transport is not None
        if is_connected and (self._close or self._force_close):
            return False
        self._come_home()
        if is_connected and request is not None:
            super().data_received(request)
            self._go_on()
        return True

    def give_up(self) -> None:
        self._come_home()
        if self.transport is not None:
            self.transport.abort()

    def _stay_alive(self) -> None:
        """The time for which a connection may be idle begins anew."""
        self._keepalive = True
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            when = self._next_keepalive_close_time
            self._keepalive_handle = self._loop.call_at(when, self._process_keepalive)

    def _go_on(self) -> None:
        """With what came while the last request was on its way."""
        if self._held:
            held, self._held = self._held, b""
            if not (self._reading_paused or self._buffer_paused):
                self._resume_transport_reading()
            self.data_received(held)

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
    def __init__(
        self, departures: Departures, express: Express | None, *rest: Any, **kwargs: Any
    ) -> None:
        super().__init__(*rest, **kwargs)
        self._departures = departures
        self._express = express

    def __call__(self) -> RequestHandler:
        return Protocol(self._departures, self._express, self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        await super()._make_server()
        app, departures = self._app, Departures(self._app[TURNS])
        handle, make = Dispatcher(app).handle, _making(app)
        return _Server(departures, _express(app), handle, request_factory=make, **self._kwargs)


def _express(app: web.Application) -> Express | None:
    """Where answers depend on who asks, or every request is logged, all go the same way."""
    settings = app[SETTINGS]
    is_simple = "*" in settings.http.cors_origins and not settings.log.access
    return Express(app) if is_simple else None


def _making(app: web.Application) -> Callable[..., web.BaseRequest]:
    """A request line without a version is answered in the oldest one that has answers."""

    def make(message: RawRequestMessage, *rest: Any) -> web.BaseRequest:
        if message.version < HttpVersion10:
            message = message._replace(version=HttpVersion10)
        return app._make_request(message, *rest)

    return make
