"""The table of the design and the accidents below it, as a real Varnish acts on them."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer
from support.client import TEXT, Answer, Stream, assert_problem, eventually, unique_name
from support.edge import SECRET, Edge, varnish
from support.edge_stack import CHUNK_BYTES, Stack, name_for
from support.raw import Raw

TAG = re.compile(r'"([0-9]+):([0-9]+):([0-9]+)(:[tc])?"')


@pytest.fixture
def pair(embedded_stack: Stack, at: Callable[..., Stream]) -> tuple[Stream, Stream]:
    """One stream, at the server and at the edge; not created yet."""
    name = unique_name()
    edge = embedded_stack.edges["varnish"].url
    return at(embedded_stack.server.url, name, TEXT), at(edge, name, TEXT)


async def asked_twice(stream: Stream, offset: str | None = None) -> tuple[Answer, Answer]:
    return await stream.read(offset), await stream.read(offset)


@pytest.mark.parametrize("closes", [False, True], ids=["chunk", "closed end"])
async def test_what_cannot_change_is_kept(pair: tuple[Stream, Stream], closes: bool) -> None:
    direct, edge = pair
    await direct.create(b"x" * CHUNK_BYTES)
    await (direct.close() if closes else direct.append(b"y"))
    for offset in [None, "-1", await direct.token(0)]:
        first, second = await asked_twice(edge, offset)
        assert (first["X-Cache"], second["X-Cache"]) == ("MISS", "HIT")
        assert ("immutable" in second.headers["Cache-Control"]) == (offset == await direct.token(0))
        assert second["Stream-Closed"] == ("true" if closes else None)


async def test_a_tail_is_kept_for_its_second_and_no_longer(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    await direct.create(b"a")
    first, second = await asked_twice(edge)
    assert (first["X-Cache"], second["X-Cache"]) == ("MISS", "HIT")
    await direct.append(b"b")
    fresh = await eventually(edge.read, lambda answer: answer.body == b"ab")
    assert fresh["Stream-Up-To-Date"] == "true"


async def test_an_empty_tail_does_not_stay_either(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    await direct.create()
    assert (await edge.read())["Stream-Up-To-Date"] == "true"
    await direct.append(b"b")
    await eventually(edge.read, lambda answer: answer.body == b"b")


@pytest.mark.parametrize(
    ("lifetime", "kept"),
    [({"stream_ttl": "60"}, True), ({"stream_ttl": "3"}, False)],
    ids=["long", "short"],
)
async def test_a_stream_that_ends_is_kept_for_less_than_its_time(
    pair: tuple[Stream, Stream], lifetime: dict[str, str], kept: bool
) -> None:
    direct, edge = pair
    await direct.create(b"x" * CHUNK_BYTES, **lifetime)
    await direct.append(b"y")
    for offset in ["-1", await direct.token(0)]:
        _, second = await asked_twice(edge, offset)
        assert second["X-Cache"] == ("HIT" if kept else "PASS")
        assert "immutable" not in second.headers["Cache-Control"]
        assert "stale" not in second.headers["Cache-Control"]


async def test_straight_readers_are_told_by_the_server_of_a_stream_that_ends(
    bucket_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = name_for("straight")
    direct = Stream(http, f"{bucket_stack.server.url}/v1/stream/{name}", TEXT)
    straight = Stream(http, f"{bucket_stack.edges['straight'].url}/v1/stream/{name}", TEXT)
    await direct.create(stream_ttl="60")
    await direct.append(b"x" * CHUNK_BYTES)
    await direct.append(b"y")
    secret = {"ds_edge_secret": SECRET}
    await eventually(lambda: direct.read(**secret), lambda answer: answer["DS-Object"])
    answer = await straight.read(await direct.token(0))
    assert answer.body == b"x" * CHUNK_BYTES
    assert answer["Cache-Control"] == "public, max-age=0, s-maxage=15"


async def test_errors_are_not_kept(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    assert_problem(await edge.read(), 404)
    await direct.create(b"a")
    assert (await edge.read()).body == b"a"
    ahead = await direct.token(5)
    assert_problem(await edge.read(ahead), 400)
    await direct.append(b"bcdef")
    assert (await edge.read(ahead)).body == b"f"
    assert_problem(await edge.read(f"{1:016d}_{0:016d}"), 410)


async def test_a_question_about_the_stream_itself_goes_to_the_server(
    pair: tuple[Stream, Stream],
) -> None:
    direct, edge = pair
    await direct.create(b"a")
    await edge.read()
    for position in (2, 3):
        await direct.append(b"b")
        head = await edge.head()
        assert head["X-Cache"] == "PASS"
        assert head.position == position


async def test_every_answer_says_whether_it_may_be_kept_and_those_that_may_be_carry_tags(
    pair: tuple[Stream, Stream],
) -> None:
    direct, _ = pair
    tag = f"stream-{direct.url.rpartition('/')[2]}"
    answers = [
        await direct.read(),
        await direct.create(b"x" * CHUNK_BYTES),
        await direct.append(b"y"),
        await direct.head(),
        await direct.read("banana"),
        await direct.read("now"),
        await direct.read(),
        await direct.read_at(0),
        await direct.read_at(CHUNK_BYTES),
        await direct.read(if_none_match="*"),
        await direct.long_poll(await direct.token(0)),
        await direct.ask("OPTIONS"),
        await direct.ask("PATCH"),
        await direct.close(),
        await direct.long_poll((await direct.head()).next_offset),
        await direct.read_at(CHUNK_BYTES),
        await direct.delete(),
    ]
    for answer in answers:
        if answer.status != 204 or answer["Access-Control-Max-Age"] is None:
            assert answer["Cache-Control"], answer
        if "public" in answer.headers.get("Cache-Control", ""):
            assert answer["Cache-Tag"] == answer["Surrogate-Key"] == tag
        assert answer["Vary"] is None, "most CDNs ignore it"


async def test_an_sse_answer_carries_tags(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    await direct.create(b"a")
    async with direct.follow("-1") as events:
        assert events.response.headers["Cache-Control"] == "no-cache"
        assert events.response.headers["Cache-Tag"].startswith("stream-")
        assert "DS-Edge-Seconds" not in events.response.headers
    async with edge.follow("-1") as events:
        assert events.response.headers["Cache-Control"] == "no-cache"
        assert not {"Cache-Tag", "DS-Edge-Seconds"} & set(events.response.headers)


async def test_headers_are_of_the_same_instant_as_the_body(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    await direct.create()
    writing = asyncio.create_task(append_for_ever(direct))
    for _ in range(20):
        offset = (await direct.head()).next_offset
        for stream in (direct, edge, edge):
            answer = await stream.read(offset)
            tag = TAG.fullmatch(answer.headers["ETag"])
            assert tag
            assert int(tag[3]) - int(tag[2]) == len(answer.body)
            assert int(tag[3]) == answer.position
            assert (tag[4] == ":t") == (answer["Stream-Up-To-Date"] == "true")
    writing.cancel()


async def append_for_ever(stream: Stream) -> None:
    while True:
        await stream.append(b"123")


async def test_a_304_never_leaves_an_old_flag_standing(pair: tuple[Stream, Stream]) -> None:
    """Tags are the same on every way to an answer, and change with what it says."""
    direct, edge = pair
    await direct.create(b"a")
    at_tail = await edge.read_at(0)
    assert (await edge.read_at(0, if_none_match=at_tail.headers["ETag"])).status == 304
    polled = await direct.long_poll(await direct.token(0))
    assert polled["ETag"] == at_tail["ETag"]
    await direct.close()
    closed = await eventually(
        lambda: edge.read_at(0, if_none_match=at_tail.headers["ETag"]),
        lambda answer: answer.status == 200,
    )
    assert closed["Stream-Closed"] == "true"
    assert (await edge.read_at(0, if_none_match=closed.headers["ETag"])).status == 304


async def test_ranges_and_compression_make_no_difference(pair: tuple[Stream, Stream]) -> None:
    direct, edge = pair
    await direct.create(b"x" * 5000, closed=True)
    for headers in [{}, {"range": "bytes=0-9"}, {"accept_encoding": "gzip"}]:
        answer = await edge.read(**headers)
        assert (answer.status, len(answer.body)) == (200, 5000)
        assert answer["Accept-Ranges"] is None


def test_a_request_of_the_oldest_kind_is_answered(embedded_stack: Stack) -> None:
    with Raw(embedded_stack.edges["varnish"].url) as raw:
        raw.send(b"GET /v1/stream/none HTTP/1.0\r\n\r\n")
        assert raw.beginning().status == 404


@contextlib.asynccontextmanager
async def in_front_of(port: int) -> AsyncIterator[Edge]:
    """For an origin that lives in this process and must not be held up."""
    edge = varnish(f"127.0.0.1:{port}")
    await asyncio.to_thread(edge.__enter__)
    try:
        yield edge
    finally:
        await asyncio.to_thread(edge.__exit__, None, None, None)


async def test_what_is_private_is_not_shared(
    aiohttp_server: AiohttpServer, http: aiohttp.ClientSession
) -> None:
    """Streams cannot be private yet; the edge knows already what to do."""
    asked: list[str] = []

    async def secret(request: web.Request) -> web.Response:
        asked.append(request.path)
        kind = request.match_info["kind"]
        return web.Response(
            status=204 if kind == "long-poll" else 200,
            content_type="text/event-stream" if kind == "sse" else "text/plain",
            headers={"Cache-Control": "private, max-age=31536000, immutable"},
        )

    app = web.Application()
    app.router.add_get("/{place:.*}/{kind}", secret)
    app.router.add_get("/{kind:healthz}", secret)
    origin = await aiohttp_server(app)
    async with in_front_of(origin.port) as edge:
        for kind in ["sse", "long-poll", "chunk"]:
            asked.clear()
            for _ in range(3):
                async with http.get(f"{edge.url}/v1/stream/{kind}?offset=-1") as answer:
                    assert answer.headers["X-Cache"] == "PASS"
            assert len(asked) == 3
