"""Following a stream as a client does: by server-sent events, or by one long-poll after another.

Messages are JSON objects whose member `at` tells when they were sent.
"""

import json
import time
from collections.abc import Iterator
from typing import Any, Self

from locust.contrib.fasthttp import FastHttpUser
from locust.env import Environment

Message = dict[str, Any]

END_OF_EVENT = b"\n\n"


class StreamUser(FastHttpUser):
    abstract = True
    root = "/v1/stream"

    @classmethod
    def beforehand(cls, environment: Environment) -> Self:
        """One who prepares something before the first user is there."""
        cls.host = environment.host
        return cls(environment)

    def create(self, name: str) -> str:
        """The path of a new stream."""
        path = f"{self.root}/{name}"
        headers = {"Content-Type": "application/json"}
        self.client.put(path, headers=headers, name="create")
        return path

    def append(self, path: str, message: Message, **headers: str) -> None:
        body = json.dumps({"at": time.time(), **message})
        headers["Content-Type"] = "application/json"
        self.client.post(path, body, headers=headers, name="append")

    def close(self, path: str) -> None:
        self.client.post(path, headers={"Stream-Closed": "true"}, name="close")

    def delivered(self, kind: str, message: Message) -> None:
        """Counts as a request that took from the append to here."""
        self._report(kind, "delivered", (time.time() - message["at"]) * 1000, None)

    def missed(self, kind: str, what: str) -> None:
        self._report(kind, "delivered", 0, ConnectionError(what))

    def _report(self, kind: str, name: str, took_ms: float, error: Exception | None) -> None:
        self.environment.events.request.fire(
            request_type=kind, name=name, response_time=took_ms, response_length=0, exception=error
        )

    def follow_by_sse(self, path: str, offset: str = "-1") -> Iterator[Message]:
        """Until the stream is closed; a connection that ends as planned is made anew."""
        is_closed = False
        while not is_closed:
            url = f"{path}?offset={offset}&live=sse"
            response = self.client.get(url, stream=True, name="follow (SSE)")
            response.raise_for_status()
            while event := response.stream.readline(END_OF_EVENT):
                kind, data = _parsed(bytes(event))
                if kind == "data":
                    yield from data
                else:
                    offset, is_closed = data["streamNextOffset"], "streamClosed" in data

    def follow_by_long_poll(self, path: str, offset: str = "-1") -> Iterator[Message]:
        cursor, is_closed = "", False
        while not is_closed:
            url = f"{path}?offset={offset}&live=long-poll{cursor}"
            response = self.client.get(url, name="follow (long-poll)")
            response.raise_for_status()
            yield from json.loads(response.content or b"[]")
            headers = response.headers
            offset, is_closed = headers["Stream-Next-Offset"], "Stream-Closed" in headers
            cursor = f"&cursor={headers['Stream-Cursor']}" if "Stream-Cursor" in headers else ""


def _parsed(event: bytes) -> tuple[str, Any]:
    kind, *lines = event.decode().strip().split("\n")
    data = "\n".join(line.removeprefix("data:") for line in lines)
    return kind.removeprefix("event:").strip(), json.loads(data)
