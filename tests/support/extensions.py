"""Buckets, snapshots and bootstrap as their clients see them."""

from dataclasses import dataclass
from email import message_from_bytes
from typing import Any

import aiohttp
from support.client import TEXT, Answer, Stream, unique_name
from yarl import URL

NO_SNAPSHOT = ("application/octet-stream", b"")

Part = tuple[str, bytes]
"""Content type and body."""


@dataclass
class Bucket:
    http: aiohttp.ClientSession
    server: str
    id: str

    @property
    def url(self) -> str:
        return f"{self.server}/ds/{self.id}"

    async def create(self) -> Answer:
        return await self.ask("PUT")

    async def describe(self) -> Answer:
        return await self.ask("GET")

    async def delete(self) -> Answer:
        return await self.ask("DELETE")

    async def page(self, query: str = "") -> Answer:
        return await Stream(self.http, f"{self.url}/streams").read(query=query)

    async def ask(self, method: str) -> Answer:
        return await Stream(self.http, self.url).ask(method)

    def stream(self, stream_id: str | None = None, content_type: str = TEXT) -> Stream:
        """`stream_id` goes onto the wire as it is."""
        return Stream(self.http, f"{self.url}/{stream_id or unique_name()}", content_type)


async def new_bucket(http: aiohttp.ClientSession, server: str) -> Bucket:
    bucket = Bucket(http, server, unique_name("b"))
    assert (await bucket.create()).status == 201
    return bucket


def path_of(stream: Stream) -> str:
    return URL(stream.url, encoded=True).raw_path


async def fork(source: Stream, made: Stream, offset: str | None = None, **headers: str) -> Answer:
    place = {} if offset is None else {"stream_fork_offset": offset}
    return await made.ask("PUT", stream_forked_from=path_of(source), **place, **headers)


def snapshot_at(stream: Stream, offset: str) -> Stream:
    return Stream(stream.http, f"{stream.url}/snapshot/{offset}")


async def publish(stream: Stream, offset: str, body: Any, **headers: str) -> Answer:
    return await snapshot_at(stream, offset).ask("PUT", body, **headers)


async def latest(stream: Stream) -> Answer:
    return await Stream(stream.http, f"{stream.url}/snapshot").ask("GET")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    answer: Answer
    snapshot: Part
    updates: list[Part]

    @property
    def messages(self) -> list[bytes]:
        return [body for _, body in self.updates]


async def bootstrap(stream: Stream) -> Bootstrap:
    answer = await Stream(stream.http, f"{stream.url}/bootstrap").ask("GET")
    assert answer.status == 200, answer.body
    first, *updates = parts_of(answer)
    return Bootstrap(answer, first, updates)


def parts_of(answer: Answer) -> list[Part]:
    """As the standard library reads mail."""
    head = f"Content-Type: {answer['Content-Type']}\r\n\r\n"
    whole = message_from_bytes(head.encode() + answer.body)
    assert whole.get_content_type() == "multipart/mixed"
    assert whole.defects == []
    assert not whole.preamble
    return [(part["Content-Type"], part.get_payload(decode=True)) for part in whole.get_payload()]
