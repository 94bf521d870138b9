"""Long-poll answers from bytes that are made once for all who wait at the same place."""

import time

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

from cdn import policy
from cdn.cursor import cursor
from cdn.etag import etag
from ds_server import headers
from ds_server.live.news import News
from ds_server.manners import OPEN_TO_ALL, is_open_to_all
from ds_server.read import ReadQuery, describe
from ds_server.request_id import request_id
from tiering.messages import body
from tiering.stream import View

_ALWAYS = {**OPEN_TO_ALL, "Server": SERVER_SOFTWARE}


def has_ready_answer(request: web.Request) -> bool:
    """Whether this request gets the same answer as any other, but for its id and the date."""
    is_usual = request.version == HttpVersion11 and request.keep_alive
    return is_usual and "If-None-Match" not in request.headers and is_open_to_all(request)


def cache_control(view: View, query: ReadQuery) -> str:
    return policy.cache_control(policy.Read(view, query.source, "long-poll"))


def description(view: View, query: ReadQuery) -> dict[str, str]:
    answer = describe(view, cache_control(view, query))
    answer["ETag"] = etag(view)
    return with_cursor(answer, view, query)


def with_cursor(answer: dict[str, str], view: View, query: ReadQuery) -> dict[str, str]:
    if not view.at_closed_end:
        answer[headers.STREAM_CURSOR] = str(cursor(time.time(), view.stream.name, query.cursor))
    return answer


def write_ready(request: web.Request, query: ReadQuery, news: News) -> web.StreamResponse | None:
    """Writes the answer; None when it cannot be made of what came with the wake-up."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return None
    if not news.stored or not has_ready_answer(request):
        return None
    head, content = news.shared((query.source, query.cursor), lambda: _answer(news, query))
    own = f"{headers.REQUEST_ID}: {request_id(request)}\r\nDate: {rfc822_formatted_time()}\r\n\r\n"
    transport.writelines([head, own.encode("latin-1"), content])
    return _Written(len(content))


def _answer(news: News, query: ReadQuery) -> tuple[bytes, bytes]:
    assert news.stored is not None
    content = body(news.view.stream.content_type, news.stored)
    fields = {
        **description(news.view, query),
        "Content-Length": str(len(content)),
        **_ALWAYS,
    }
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"HTTP/1.1 200 OK\r\n{lines}".encode(), content


class _Written(web.StreamResponse):
    """On the wire already, on a connection that goes on."""

    def __init__(self, length: int) -> None:
        self._status = 200
        self._keep_alive = True
        self._eof_sent = True
        self._length = length

    async def prepare(self, request: web.BaseRequest) -> None:
        """Everything has been said."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything has been said."""

    @property
    def body_length(self) -> int:
        return self._length
