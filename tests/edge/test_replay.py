"""Many readers replay one stream: the edge answers, the server hardly hears of it."""

import asyncio
from collections.abc import Callable

import aiohttp
import pytest
from support.client import BYTES, JSON, TEXT, Answer, Stream, unique_name
from support.edge import SECRET, Edge
from support.edge_stack import CHUNK_BYTES, CHUNKS, Stack, joined, name_for
from yarl import URL

READERS = 50
WAYS = [
    ("embedded_stack", "varnish"),
    ("embedded_stack", "nginx"),
    ("embedded_stack", "lonely"),
    ("bucket_stack", "varnish"),
    ("bucket_stack", "nginx"),
    ("bucket_stack", "straight"),
]
OF_ONE_REQUEST = {"Date", "X-Request-Id", "Server", "Connection", "Keep-Alive"}
OF_AN_EDGE = {"Age", "X-Cache", "Transfer-Encoding", "Cache-Tag", "Surrogate-Key"}


@pytest.fixture(params=WAYS, ids=["-".join(way).replace("_stack", "") for way in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[Stack, str]:
    fixture, edge = request.param
    return request.getfixturevalue(fixture), edge


@pytest.mark.parametrize("kind", [JSON, BYTES])
async def test_a_crowd_replays_and_the_server_answers_once_per_chunk(
    way: tuple[Stack, str], kind: str, http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    name = name_for(edge)
    expected = await stack.written(http, name, kind)
    before = stack.reads()
    stream = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}", kind)
    replays = await asyncio.gather(*(stream.read_to_the_tail() for _ in range(READERS)))
    assert {joined(answers, kind) for answers in replays} == {expected}
    asked = stack.reads() - before
    if edge == "lonely":
        assert asked["chunk"] <= CHUNKS + 5, asked
    else:
        assert asked.total() <= (5 if edge == "straight" else CHUNKS + 5), asked
        # Straight, the last chunk does not say that the stream is closed: its end is asked for.
        assert asked["chunk"] <= (1 if edge == "straight" else 0), asked


async def test_a_reader_cannot_tell_where_the_body_came_from(
    way: tuple[Stack, str], http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    name = name_for(edge, "/a/b:c%20d")
    await stack.written(http, name, TEXT)
    direct = Stream(http, f"{stack.server.url}/v1/stream/{name}", TEXT)
    through = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}", TEXT)
    first = await direct.read()
    before = stack.reads()
    for offset in ["-1", first.next_offset]:
        expected, got = await direct.read(offset), await through.read(offset)
        assert (got.status, got.body) == (expected.status, expected.body)
        assert visible(got) == visible(expected)
    handed_off = (stack.reads() - before)["handed_off"]
    assert handed_off == (1 if edge == "straight" else 2)


def visible(answer: Answer) -> dict[str, str]:
    hidden = {name.lower() for name in OF_ONE_REQUEST | OF_AN_EDGE}
    return {
        name.lower(): value for name, value in answer.headers.items() if name.lower() not in hidden
    }


async def test_names_that_no_file_system_takes_are_handed_off_too(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = unique_name("x" * 500)
    expected = await embedded_stack.written(http, name, TEXT)
    for edge in ["varnish", "nginx"]:
        stream = Stream(http, f"{embedded_stack.edges[edge].url}/v1/stream/{name}", TEXT)
        before = embedded_stack.reads()
        assert joined(await stream.read_to_the_tail(), TEXT) == expected
        assert (embedded_stack.reads() - before)["chunk"] == 0


async def test_a_fork_is_replayed_from_the_chunks_of_its_source(
    way: tuple[Stack, str], http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    source, name = name_for(edge), name_for(edge)
    expected = await stack.written(http, source)
    fork = Stream(http, f"{stack.server.url}/v1/stream/{name}")
    assert (await fork.create(stream_forked_from=f"/v1/stream/{source}")).status == 201
    await fork.append(b'"own"')
    before = stack.reads()
    through = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}")
    assert joined(await through.read_to_the_tail()) == expected + b',"own"'
    assert (stack.reads() - before)["handed_off"] >= CHUNKS - 1


async def test_only_an_edge_that_proves_itself_is_told_of_objects(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = unique_name()
    await embedded_stack.written(http, name, TEXT)
    stream = Stream(http, f"{embedded_stack.server.url}/v1/stream/{name}", TEXT)
    for secret in ["", "wrong", "between-the-edge-and-the-serveR"]:
        answer = await stream.read(ds_edge_secret=secret)
        assert answer["DS-Object"] is None
        assert answer["X-Accel-Redirect"] is None
        assert len(answer.body) >= CHUNK_BYTES


async def test_a_bucket_gives_nothing_to_who_has_no_signed_name(
    bucket_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = name_for("varnish")
    await bucket_stack.written(http, name)
    stream = Stream(http, f"{bucket_stack.server.url}/v1/stream/{name}")
    target = (await stream.read(ds_edge_secret=SECRET)).headers["DS-Object"]
    for path, status in [(target, 200), (target.partition("?")[0], 403)]:
        async with http.get(URL(f"http://{bucket_stack.bucket}{path}", encoded=True)) as answer:
            assert answer.status == status


async def test_the_bucket_shows_chunks_and_nothing_else(
    embedded_stack: Stack, http: aiohttp.ClientSession, at: Callable[..., Stream]
) -> None:
    name = unique_name()
    await embedded_stack.written(http, name, TEXT)
    [chunk, *_] = (embedded_stack.server.data_dir / "objects/chunks" / name).glob("*[0-9]")
    bucket = f"http://{embedded_stack.bucket}"
    for path, status in [
        (f"chunks/{name}/{chunk.name}", 200),
        (f"chunks/{name}/{chunk.name}^metadata", 404),
        (f"index/chunks/{name}/{chunk.name}", 404),
        (f"manifest/{name}/{chunk.name.partition('_')[0]}", 404),
        ("deployment", 404),
    ]:
        async with http.get(f"{bucket}/{path}") as answer:
            assert answer.status == status, path
    async with http.put(f"{bucket}/chunks/{name}/{chunk.name}", data=b"x") as answer:
        assert answer.status == 403


async def test_the_order_of_parameters_and_a_cursor_do_not_matter(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = unique_name()
    await embedded_stack.written(http, name, TEXT)
    for edge in ["varnish", "nginx"]:
        stream = Stream(http, f"{embedded_stack.edges[edge].url}/v1/stream/{name}", TEXT)
        offset = (await stream.read()).next_offset
        await stream.read(offset)
        before = embedded_stack.reads()
        for query in [
            f"offset={offset}&cursor=5",
            f"cursor=7&offset={offset}",
            f"cursor=&offset={offset}",
        ]:
            assert (await stream.read(query=query))["X-Cache"] == "HIT"
        assert embedded_stack.reads() == before


async def test_readers_who_start_anywhere_meet_after_one_request_of_their_own(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    name = unique_name()
    await embedded_stack.written(http, name, BYTES)
    stream = Stream(http, f"{embedded_stack.edges['varnish'].url}/v1/stream/{name}", BYTES)
    await stream.read_to_the_tail()
    log = (await stream.head()).log
    for position in [1, 700, 1500, 2047]:
        first, *rest = await stream.read_to_the_tail(f"{log:016d}_{position:016d}")
        assert first["X-Cache"] == "MISS"
        assert [answer["X-Cache"] for answer in rest] == ["HIT"] * len(rest)


def test_the_edges_are_those_that_are_shipped(embedded_stack: Stack) -> None:
    nginx: Edge = embedded_stack.edges["nginx"]
    shipped = nginx.files / "nginx.conf"
    assert (nginx.home / "nginx.conf").read_bytes() == shipped.read_bytes()
