"""Small appends, answered without the framework.

The framework makes a task, a request, its headers and a writer for each request, and an append
needs none of them. So a request that arrives whole, on a connection that has nothing else to do,
and is plainly a small append, goes to the hot tier at once, and is answered by whoever brings the
reply. Whatever is refused or not plain takes the ordinary way, which alone knows what to say then.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import hiredis
from aiohttp import web

from ds_server import headers
from ds_server.acknowledgement import wire
from ds_server.append import acknowledged, parse_words
from ds_server.dispatch import is_a_stream
from ds_server.heads import Head
from ds_server.keys import LEAVING, SETTINGS, STREAMS
from ds_server.metrics import ERRORS, TALLY
from ds_server.names import name_of
from ds_server.problem import answer
from ds_server.request_id import chosen_id
from tiering.errors import StreamError, Unavailable
from tiering.hot.connection import Reply
from tiering.hot.pipe import NO_SCRIPT, translated
from tiering.hot.terms import Append, Appended

log = logging.getLogger(__name__)

# Nothing in such a path could be read in two ways.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~/-]+")
_NOT_FOR_US = frozenset(("content-encoding", headers.STREAM_CLOSED.lower()))


class Rider(Protocol):
    """A connection whose request is on its way. It hears of it once."""

    def arrive(self, wire: bytes, *, is_last: bool) -> None:
        """This is the answer, and maybe the last one on this connection."""

    def go_back(self) -> bool:
        """Nothing has come of it: the request is to be handled in the ordinary way. False: nobody
        is there any more who could, and the connection waits for an answer."""

    def give_up(self) -> None:
        """There is no answer."""


class Express:
    """Runs where every answer is the same for all origins and nobody keeps a log of requests."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._leaving = app[LEAVING]
        self._largest = app[SETTINGS].limits.max_body_bytes
        self._loop = asyncio.get_running_loop()

    def take(self, rider: Rider, head: Head, request: bytes) -> bool:
        """False: nothing was done."""
        if head.method != "POST" or self._leaving.is_set():
            return False
        name, body = _stream_at(head.target), request[head.body_at :]
        if name is None or len(body) > self._largest or not _NOT_FOR_US.isdisjoint(head.fields):
            return False
        try:
            append = parse_words(head.value, body)
            errand = _Errand(self, rider, name, append, len(body), head.value(headers.REQUEST_ID))
            return self._app[STREAMS].start_append(name, append, errand)
        except StreamError:
            return False

    def settle(self, errand: "_Errand", reply: Reply) -> None:
        settled = self._app[STREAMS].settle(errand.name, errand.append, reply)
        if settled is None:
            errand.go_back()
            return
        done, pause_secs = settled
        if pause_secs:
            self._loop.call_later(pause_secs, errand.attempt, errand.acknowledge, done)
        else:
            errand.acknowledge(done)

    def deliver(
        self, errand: "_Errand", status: int, lines: dict[str, str], content: bytes = b""
    ) -> None:
        is_last = self._leaving.is_set()
        if is_last:
            lines["Connection"] = "close"
        answer = wire(status, lines, chosen_id(errand.given_id), content)
        errand.rider.arrive(answer, is_last=is_last)


class _Errand:
    """Waits for the hot tier's reply in the place of a task."""

    __slots__ = ("_began", "_express", "_size", "append", "given_id", "name", "rider")

    def __init__(
        self,
        express: Express,
        rider: Rider,
        name: str,
        append: Append,
        size: int,
        given_id: str | None,
    ) -> None:
        self._express = express
        self._size = size
        self.given_id = given_id
        self._began = time.perf_counter()
        self.rider = rider
        self.name = name
        self.append = append

    def done(self) -> bool:
        return False

    def set_result(self, reply: Reply) -> None:
        self.attempt(self._express.settle, self, reply)

    def set_exception(self, error: BaseException) -> None:
        self.attempt(self._fail, error)

    def attempt(self, do: Callable[..., None], *words: object) -> None:
        """What goes wrong here must keep neither others from their replies, nor the client from
        learning that there is none."""
        try:
            do(*words)
        except Exception:
            log.exception("an append to %s was not answered", self.name)
            self.rider.give_up()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, hiredis.ReplyError):
            if str(error).startswith(NO_SCRIPT):
                self.go_back()
                return
            error = translated(error)
        if isinstance(error, StreamError):
            self._refuse(error)
        else:
            self.rider.give_up()

    def go_back(self) -> None:
        if not self.rider.go_back():
            self._refuse(Unavailable("The server is about to leave."))

    def acknowledge(self, done: Appended) -> None:
        TALLY.appended(0 if done.duplicate else self._size, time.perf_counter() - self._began)
        status, lines = acknowledged(done, self.append)
        self._express.deliver(self, status.value, lines)

    def _refuse(self, error: StreamError) -> None:
        """If the outcome is unknown, trying again, in whatever way, is the client's decision."""
        ERRORS.labels(type(error).__name__).inc()
        problem = answer(error)
        assert isinstance(problem.body, bytes)
        lines = {k: v for k, v in problem.headers.items() if k != "Content-Length"}
        self._express.deliver(self, problem.status, lines, problem.body)


@lru_cache(maxsize=4096)
def _stream_at(target: str) -> str | None:
    if not _PLAIN_PATH.fullmatch(target) or not is_a_stream(target):
        return None
    try:
        return name_of(target)
    except StreamError:
        return None
