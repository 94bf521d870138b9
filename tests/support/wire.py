"""HTTP as plainly as the standard library speaks it, for tests that send very many requests."""

import itertools
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from urllib.parse import quote, urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    def __getitem__(self, header: str) -> str | None:
        return self.headers[header]


class Wire:
    """A few kept connections used in turn, so that every worker is asked."""

    def __init__(self, base_url: str, connections: int = 4) -> None:
        address = urlsplit(base_url)
        assert address.hostname is not None
        self._connections = [
            HTTPConnection(address.hostname, address.port, timeout=30) for _ in range(connections)
        ]
        self._turns = itertools.cycle(self._connections)

    def ask(
        self,
        method: str,
        stream: str,
        body: bytes | None = None,
        offset: str | None = None,
        **headers: str,
    ) -> Answer:
        """Header names are given as keywords: `stream_closed="true"`."""
        target = f"/v1/stream/{stream}"
        if offset is not None:
            target += f"?offset={quote(offset)}"
        connection = next(self._turns)
        connection.request(
            method,
            target,
            body=body,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def read_all(self, stream: str) -> bytes:
        """From the beginning to the tail, answer by answer."""
        body, offset = b"", "-1"
        while True:
            answer = self.ask("GET", stream, offset=offset)
            assert answer.status == 200
            body += answer.body
            offset = answer["Stream-Next-Offset"] or ""
            if answer["Stream-Up-To-Date"]:
                return body

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
