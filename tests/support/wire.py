"""HTTP as plainly as the standard library speaks it, for tests that send very many requests."""

import itertools
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from typing import Self
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

    def __init__(self, base_url: str, connections: int = 4, root: str = "/v1/stream/") -> None:
        self.root = root
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
        live: str | None = None,
        **headers: str,
    ) -> Answer:
        """Header names are given as keywords: `stream_closed="true"`."""
        target = f"{self.root}{stream}"
        if offset is not None:
            target += f"?offset={quote(offset)}"
        if live is not None:
            target += f"&live={live}"
        connection = next(self._turns)
        connection.request(
            method,
            target,
            body=body,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def read_all(self, stream: str, offset: str = "-1") -> bytes:
        """From the beginning to the tail, answer by answer."""
        body = b""
        while True:
            answer = self.ask("GET", stream, offset=offset)
            assert answer.status == 200
            body += answer.body
            offset = answer["Stream-Next-Offset"] or ""
            if answer["Stream-Up-To-Date"]:
                return body

    def read_all_json(self, stream: str, offset: str = "-1") -> bytes:
        """The same of a JSON stream, as one array."""
        stored, up_to_date = [], None
        while not up_to_date:
            answer = self.ask("GET", stream, offset=offset)
            assert answer.status == 200
            stored.append(answer.body[1:-1])
            offset = answer["Stream-Next-Offset"] or ""
            up_to_date = answer["Stream-Up-To-Date"]
        return b"[" + b",".join(body for body in stored if body) + b"]"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
