"""The server's HTTP surface, for tasks that must outlast a restart of it."""

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Self
from urllib.parse import quote, urlsplit

import msgspec

from tiering.errors import Unavailable
from tiering.membership import member_of

PATIENCE_SECS = 60
_ANSWER_SECS = 60
_LONGEST_PAUSE_SECS = 2.0
_AWAY = {429, 502, 503, 504}


def path_of(name: str) -> str:
    """Where a stream is asked for."""
    member = member_of(name)
    if member is None:
        return f"/v1/stream/{quote(name)}"
    return f"/ds/{member.bucket}/{quote(member.stream)}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    def number(self, header: str) -> int | None:
        text = self.headers[header] or ""
        return int(text) if text.isdecimal() else None

    @property
    def detail(self) -> str:
        """What the server says about a refusal."""
        try:
            return msgspec.json.decode(self.body, type=_Problem).detail
        except msgspec.MsgspecError:
            return f"it answered {self.status}"


class _Problem(msgspec.Struct):
    detail: str


class Surface:
    """One kept connection. Asks again while the server is away, so whatever is asked must be
    harmless when it is asked twice."""

    def __init__(self, server: str, patience_secs: int = PATIENCE_SECS) -> None:
        self._server = server
        self._patience_secs = patience_secs
        address = urlsplit(server)
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._root = address.path
        self._connection = kind(address.hostname or "", address.port, timeout=_ANSWER_SECS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Unavailable when the server stayed away for as long as we wait."""
        deadline = time.monotonic() + self._patience_secs
        for pause in _pauses():
            answer, reason = self._try(method, path, body, headers or {})
            if answer is not None and answer.status not in _AWAY:
                return answer
            pause = max(pause, (answer and answer.number("Retry-After")) or 0)
            if time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
        raise Unavailable(f"{self._server} stayed away for {self._patience_secs} s: {reason}")

    def _try(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[Answer | None, str]:
        """An answer, or the reason why there is none."""
        try:
            self._connection.request(method, f"{self._root}{path}", body, headers)
            response = self._connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, HTTPException) as error:
            self._connection.close()
            return None, str(error) or type(error).__name__
        return answer, answer.detail


def _pauses() -> Iterator[float]:
    """At once first, because a kept connection may have ended long ago."""
    pause = 0.0
    while True:
        yield pause
        pause = min(_LONGEST_PAUSE_SECS, max(0.05, pause * 2)) * random.uniform(0.75, 1)
