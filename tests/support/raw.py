"""Bytes on a bare socket, for requests that no client would send; its answers are read strictly."""

import contextlib
import re
import select
import socket
from collections.abc import Iterable
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

from multidict import CIMultiDict, CIMultiDictProxy
from support.client import Answer

PATIENCE_SECS = 30.0
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2}) [\x20-\x7e]*")
FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t\x20-\x7e\x80-\xff]*)")
SENTENCE = re.compile(r"\S+( \S+){2,}\.")


class Malformed(AssertionError):
    """What the server sent is not HTTP."""


class Closed(ConnectionError):
    """The server closed the connection before an answer began."""


class Raw:
    """One connection. What arrives after the last answer that was read stays for the next."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), PATIENCE_SECS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_until_answered(self, pieces: Iterable[bytes], pause_secs: float = 0) -> int:
        """How many bytes went out before the server answered, closed, or there were no more."""
        sent = 0
        for piece in pieces:
            if self.has_answer(within=pause_secs):
                break
            try:
                self._socket.sendall(piece)
            except ConnectionError:
                break
            sent += len(piece)
        return sent

    def has_answer(self, within: float) -> bool:
        """Whether something has come back, be it the end of the connection."""
        return bool(self._received or select.select([self._socket], [], [], within)[0])

    def end_of_sending(self) -> None:
        """This side has nothing more to say; it still listens."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def ask(self, data: bytes, method: str = "GET") -> Answer:
        self.send(data)
        return self.answer(method)

    def answer(self, method: str = "GET") -> Answer:
        """The next final answer; Closed when there is none, Malformed when it is not HTTP."""
        while True:
            answer = self.interim_or_final(method)
            if answer.status >= 200:
                return answer

    def interim_or_final(self, method: str = "GET") -> Answer:
        status, headers = _parsed_head(self._head())
        return Answer(status, headers, self._body(method, status, headers))

    def beginning(self) -> Answer:
        """The head of an answer whose body goes on."""
        return Answer(*_parsed_head(self._head()), b"")

    def rest(self) -> bytes:
        """What comes until the server closes, as it comes."""
        while self._more():
            pass
        return self._received

    def is_closed_by_the_server(self) -> bool:
        """Waits for the end of the connection; False when something else comes."""
        return not self._received and not self._more()

    def _head(self) -> bytes:
        while b"\r\n\r\n" not in self._received:
            if not self._more():
                if self._received:
                    raise Malformed(f"the connection ended inside a head: {self._received!r}")
                raise Closed
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head

    def _body(self, method: str, status: int, headers: CIMultiDictProxy[str]) -> bytes:
        if method == "HEAD" or status in (204, 304) or status < 200:
            return b""
        if headers.get("Transfer-Encoding") == "chunked":
            return self._chunks()
        if "Content-Length" not in headers:
            raise Malformed(f"a body without a length: {headers!r}")
        return self._exactly(int(headers["Content-Length"]))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line(), 16):
            body += self._exactly(size)
            if self._line():
                raise Malformed("a chunk is longer than it says")
        if self._line():
            raise Malformed("a trailer nobody asked for")
        return body

    def _line(self) -> bytes:
        while b"\r\n" not in self._received:
            if not self._more():
                raise Malformed("the body ended inside a line")
        line, _, self._received = self._received.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            if not self._more():
                raise Malformed(f"the body ended {size - len(self._received)} bytes early")
        wanted, self._received = self._received[:size], self._received[size:]
        return wanted

    def _more(self) -> bool:
        try:
            piece = self._socket.recv(1 << 16)
        except ConnectionError:
            return False
        self._received += piece
        return bool(piece)


def _parsed_head(head: bytes) -> tuple[int, CIMultiDictProxy[str]]:
    status_line, *field_lines = head.split(b"\r\n")
    status = STATUS_LINE.fullmatch(status_line)
    fields = [FIELD_LINE.fullmatch(line) for line in field_lines]
    if status is None or None in fields:
        raise Malformed(f"not the head of an answer: {head!r}")
    pairs = [(field[1].decode(), field[2].decode()) for field in fields if field is not None]
    return int(status[1]), CIMultiDictProxy(CIMultiDict(pairs))


def head(method: str, target: str, *fields: str | bytes) -> bytes:
    """A request's head with the header lines as given, and none beside them but Host."""
    lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: localhost"]
    lines += [field if isinstance(field, bytes) else field.encode() for field in fields]
    return b"\r\n".join([*lines, b"", b""])


def whole(method: str, target: str, *fields: str | bytes, body: bytes) -> bytes:
    return head(method, target, *fields, f"Content-Length: {len(body)}") + body


def assert_clear_refusal(answer: Answer, *statuses: int, method: str = "GET") -> None:
    """One of the statuses, said so that a program, a browser and a person understand it."""
    assert answer.status in statuses, (answer.status, answer.body)
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer["X-Request-Id"]
    if method == "HEAD":
        return
    problem = answer.json()
    assert problem["status"] == answer.status
    assert problem["title"] == HTTPStatus(answer.status).phrase
    assert SENTENCE.fullmatch(problem["detail"]), problem
