"""Snapshots on their way to the server."""

import select
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

import msgspec

from tiering.errors import Refused, Unavailable
from tiering.membership import Member
from tiering.offset import Offset

_SECS = 300.0
"""Object storage may take its time to put a large object together."""
_PUBLISHED = "published"
_OUTCOMES = {
    204: _PUBLISHED,
    400: "refused",
    404: "deleted",
    409: "another",
    410: "newer",
    413: "too-large",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    reason: str = ""

    @property
    def is_published(self) -> bool:
        return self.name == _PUBLISHED


class _Problem(msgspec.Struct):
    detail: str = ""


class Publisher:
    """One connection for each request: hours may lie between two of them."""

    def __init__(self, server: str) -> None:
        address = urlsplit(server)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise Refused(f"{server!r} is no server: http://host:port")
        self._server = server
        self._is_plain = address.scheme == "http"
        self._host, self._root = address.hostname, address.path.rstrip("/")
        self._port = address.port

    def look(self, member: Member, at: Offset) -> Outcome | None:
        """What is known before anything was sent. None: nothing speaks against it."""
        connection = self._connection()
        try:
            connection.request("HEAD", self._path(member))
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        if response.status in (404, 410):
            return Outcome("deleted")
        if response.status != 200:
            return self._outcome(response.status, b"")
        newest = Offset.parse(response.headers["Stream-Snapshot-Offset"] or "")
        if newest is not None and newest.log == at.log and newest.position > at.position:
            return Outcome("newer", f"there is one at {newest}")
        return None

    def put(
        self, member: Member, at: Offset, media_type: str, size: int, body: Iterable[bytes]
    ) -> Outcome:
        """Unavailable when the same may succeed later."""
        connection = self._connection()
        try:
            connection.putrequest("PUT", f"{self._path(member)}/snapshot/{at}")
            connection.putheader("Content-Type", media_type)
            connection.putheader("Content-Length", str(size))
            connection.endheaders()
            response = self._sent(connection, body)
            return self._outcome(response.status, response.read())
        except (OSError, HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()

    def _sent(self, connection: HTTPConnection, body: Iterable[bytes]) -> HTTPResponse:
        """A server that has already answered does not read on."""
        try:
            for block in body:
                if self._is_plain and select.select([connection.sock], [], [], 0)[0]:
                    break
                connection.send(block)
        except OSError as error:
            try:
                return connection.getresponse()
            except (OSError, HTTPException):
                raise error from None
        return connection.getresponse()

    def _outcome(self, status: int, body: bytes) -> Outcome:
        if status not in _OUTCOMES:
            raise Unavailable(f"{self._server} answered {status}.")
        return Outcome(_OUTCOMES[status], "" if status == 204 else _detail(body))

    def _silent(self, error: Exception) -> Unavailable:
        return Unavailable(f"{self._server} does not answer: {error or type(error).__name__}.")

    def _connection(self) -> HTTPConnection:
        kind = HTTPConnection if self._is_plain else HTTPSConnection
        return kind(self._host, self._port, timeout=_SECS)

    def _path(self, member: Member) -> str:
        return f"{self._root}/ds/{member.bucket}/{quote(member.stream, safe='')}"


def _detail(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Problem).detail
    except msgspec.DecodeError:
        return ""
