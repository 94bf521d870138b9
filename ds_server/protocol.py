"""The HTTP connection: what is not even a request gets an answer like every other."""

import logging
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from ds_server.dispatch import Dispatcher
from ds_server.manners import clothe
from ds_server.metrics import ERRORS
from ds_server.problem import problem

log = logging.getLogger(__name__)


class Protocol(RequestHandler):
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
    def __call__(self) -> RequestHandler:
        return Protocol(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        await super()._make_server()
        app = self._app
        return _Server(Dispatcher(app).handle, request_factory=app._make_request, **self._kwargs)
