"""The answer to an append, written in one piece.

An append costs the server little more than its HTTP, and half of that is the making of the
answer. This one is put together from ready-made bytes.
"""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

from ds_server import headers
from ds_server.manners import OPEN_TO_ALL, is_open_to_all
from ds_server.request_id import request_id

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_ALWAYS = "".join(
    f"{name}: {value}\r\n" for name, value in {**OPEN_TO_ALL, "Server": SERVER_SOFTWARE}.items()
)


def acknowledgement(
    request: web.Request, status: HTTPStatus, answer: dict[str, str]
) -> web.StreamResponse:
    if request.version == HttpVersion11 and request.keep_alive and is_open_to_all(request):
        return _Acknowledgement(status, answer)
    return web.Response(status=status.value, headers=answer)


def wire(status: int, answer: Mapping[str, str], own_id: str, content: bytes = b"") -> bytes:
    """The whole answer, for every origin."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in answer.items()])
    length = "" if status == 204 else f"Content-Length: {len(content)}\r\n"
    return (
        f"{_STATUS_LINES[status]}{lines}{length}{_ALWAYS}{headers.REQUEST_ID}: {own_id}\r\n"
        f"Date: {rfc822_formatted_time()}\r\n\r\n"
    ).encode("latin-1") + content


class _Acknowledgement(web.StreamResponse):
    """Without a body, on a connection that goes on."""

    def __init__(self, status: HTTPStatus, answer: dict[str, str]) -> None:
        self._status = status.value
        self._lines = answer
        self._keep_alive = True
        self._eof_sent = False

    async def prepare(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        transport.write(wire(self._status, self._lines, request_id(request)))
        if request.protocol.writing_paused:
            await request.writer.drain()
        self._eof_sent = True

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything has been said."""

    @property
    def body_length(self) -> int:
        return 0
