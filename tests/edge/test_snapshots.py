"""Streams in buckets and their snapshots, through real edges: kept, cut into ranges, purged."""

from dataclasses import dataclass

import aiohttp
import pytest
from support.bootstrapped import parse
from support.client import TEXT, Answer, Stream, eventually, unique_name
from support.edge_stack import CHUNK_BYTES, Stack

EDGES = ["varnish", "nginx"]
BODY = bytes(range(256)) * 40


@dataclass
class Place:
    """A stream of a bucket, at the server and at an edge."""

    stack: Stack
    http: aiohttp.ClientSession
    edge: str
    bucket: str

    def direct(self, path: str = "it") -> Stream:
        return Stream(self.http, f"{self.stack.server.url}/ds/{self.bucket}/{path}", TEXT)

    def through(self, path: str = "it") -> Stream:
        return Stream(self.http, f"{self.stack.edges[self.edge].url}/ds/{self.bucket}/{path}", TEXT)

    async def fill(self, **headers: str) -> str:
        """Three chunks; the offset after the first."""
        first = await self.direct().create(b"x" * CHUNK_BYTES, **headers)
        for _ in range(2):
            await self.direct().append(b"y" * CHUNK_BYTES)
        return first.next_offset

    async def publish(self, offset: str, body: bytes = BODY) -> Stream:
        """The snapshot, at the edge."""
        assert (await self.direct(f"it/snapshot/{offset}").create(body)).status == 204
        return self.through(f"it/snapshot/{offset}")

    def snapshots_read(self) -> int:
        """At the server."""
        return self.stack.reads()["snapshot"]


@pytest.fixture(params=EDGES)
async def place(
    request: pytest.FixtureRequest, embedded_stack: Stack, http: aiohttp.ClientSession
) -> Place:
    return await place_at(embedded_stack, http, request.param)


async def place_at(stack: Stack, http: aiohttp.ClientSession, edge: str) -> Place:
    bucket = unique_name()
    made = await Stream(http, f"{stack.server.url}/ds/{bucket}").ask("PUT")
    assert made.status == 201
    return Place(stack, http, edge, bucket)


async def test_reads_of_a_stream_in_a_bucket_are_kept(place: Place) -> None:
    offset = await place.fill()
    for start in (None, "-1", offset):
        first, second = await place.through().read(start), await place.through().read(start)
        assert (first["X-Cache"], second["X-Cache"]) == ("MISS", "HIT")
        assert first.body == second.body != b""
    tail = (await place.direct().head()).next_offset
    passed = await place.through().read("now")
    assert passed["X-Cache"] in ("PASS", "BYPASS")
    assert passed.next_offset == tail


async def test_what_is_said_of_a_moment_is_never_kept(place: Place) -> None:
    """Buckets, listings, bootstraps and the way to the latest snapshot."""
    offset = await place.fill()
    assert [await count(place), await listed(place)] == [1, ["it"]]
    await place.direct("other").create()
    assert [await count(place), await listed(place)] == [2, ["it", "other"]]
    assert (await place.through("it/snapshot").read()).status == 404
    await place.publish(offset)
    for messages in (2, 3):
        answer = await place.through("it/bootstrap").read()
        found = parse(answer.headers, answer.body)
        assert (found.snapshot.body, len(found.messages)) == (BODY, messages)
        await place.direct().append(b"z")
    async with place.http.get(place.through("it/snapshot").url, allow_redirects=False) as answer:
        assert answer.status == 307
        assert answer.headers["Location"].endswith(f"/it/snapshot/{offset}")


async def count(place: Place) -> int:
    bucket = Stream(place.http, place.through().url.removesuffix("/it"))
    return int((await bucket.read()).json()["streams"])


async def listed(place: Place) -> list[str]:
    return [one["stream_id"] for one in (await place.through("streams").read()).json()["streams"]]


async def test_a_snapshot_costs_the_server_one_request(place: Place) -> None:
    snapshot = await place.publish(await place.fill())
    before = place.snapshots_read()
    answers = [await snapshot.read() for _ in range(3)]
    assert [answer["X-Cache"] for answer in answers] == ["MISS", "HIT", "HIT"]
    assert {answer.body for answer in answers} == {BODY}
    assert {answer["Cache-Control"] for answer in answers} == {"public, max-age=0, s-maxage=60"}
    assert place.snapshots_read() == before + 1
    tag = answers[0].headers["ETag"]
    assert (await snapshot.read(if_none_match=tag)).status == 304


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_range_is_cut_from_the_whole_that_is_kept(place: Place, is_kept: bool) -> None:
    snapshot = await place.publish(await place.fill())
    if is_kept:
        await snapshot.read()
    before = place.snapshots_read()
    part = await snapshot.read(range="bytes=100-199")
    assert (part.status, part.body) == (206, BODY[100:200])
    assert part["Content-Range"] == f"bytes 100-199/{len(BODY)}"
    assert (await snapshot.read(range="bytes=-5")).body == BODY[-5:]
    assert (await snapshot.read()).body == BODY
    assert place.snapshots_read() == before + (not is_kept)


async def test_a_snapshot_whose_time_is_over_is_asked_for_and_not_sent_again(place: Place) -> None:
    """A quarter of a sliding window is shorter than a minute."""
    snapshot = await place.publish(await place.fill(stream_ttl="12"))
    before = place.snapshots_read()
    first = await snapshot.read()
    assert first["Cache-Control"] == "public, max-age=0, s-maxage=3"
    again = await eventually(snapshot.read, lambda answer: answer["X-Cache"] != "HIT")
    assert (again.status, again.body) == (200, BODY)
    assert place.snapshots_read() == before + 1
    assert (await snapshot.read())["X-Cache"] == "HIT"


async def test_a_new_snapshot_purges_what_is_not_retained(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    place = await place_at(embedded_stack, http, "varnish")
    offset = await place.fill()
    through = place.through()
    for start in (None, "-1"):
        await through.read(start)
        assert (await through.read(start))["X-Cache"] == "HIT"
    first = await place.publish(offset)
    for start in (None, "-1"):
        assert_moved(await through.read(start), offset)
    assert (await first.read()).status == 200
    assert (await first.read())["X-Cache"] == "HIT"
    tail = (await place.direct().head()).next_offset
    second = await place.publish(tail, b"later")
    assert (await first.read()).status == 404
    assert (await second.read()).body == b"later"
    assert_moved(await through.read(offset), tail)


def assert_moved(answer: Answer, offset: str) -> None:
    assert answer.status == 410
    assert answer.next_offset == offset
