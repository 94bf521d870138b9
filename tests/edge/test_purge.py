"""A deleted stream leaves the edge and the bucket, and never mixes with its successor."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer
from support.client import TEXT, Stream, eventually
from support.edge import SECRET
from support.edge_stack import CHUNK_BYTES, CHUNKS, Stack, is_stored, joined, name_for
from support.object_servers import free_ports
from support.purge_sink import PurgeSink
from support.repairs import keys_in
from support.server import RunningServer
from yarl import URL

WAYS = [("embedded_stack", "varnish"), ("bucket_stack", "straight")]
PENDING = re.compile(r"^ds_purges_pending ([0-9.e+]+)$", re.MULTILINE)
PURGES = re.compile(r'^ds_purges_total\{outcome="(\w+)"\} ([0-9.e+]+)$', re.MULTILINE)


@pytest.fixture(params=WAYS, ids=["hand-off", "straight"])
def way(request: pytest.FixtureRequest) -> tuple[Stack, str]:
    fixture, edge = request.param
    return request.getfixturevalue(fixture), edge


async def test_a_deleted_stream_is_gone_from_the_edge_and_from_the_bucket(
    way: tuple[Stack, str], http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    name = name_for(edge)
    await stack.written(http, name)
    direct = Stream(http, f"{stack.server.url}/v1/stream/{name}")
    through = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}")
    offsets = ["-1", *(answer.next_offset for answer in await through.read_to_the_tail("-1"))][
        :CHUNKS
    ]
    objects = [await object_url(direct, stack, offset) for offset in offsets]
    assert {await status(http, url) for url in objects} == {200}
    assert {(await through.read(offset))["X-Cache"] for offset in offsets} == {"HIT"}

    assert (await direct.delete()).status == 204

    assert {(await through.read(offset)).status for offset in offsets} == {404}
    assert {await status(http, url) for url in objects} == {404}


async def object_url(direct: Stream, stack: Stack, offset: str) -> str:
    """Where the chunk is, without the signature: here it is open to all."""
    named = await direct.read(offset, ds_edge_secret=SECRET)
    return f"http://{stack.bucket}{named.headers['DS-Object'].partition('?')[0]}"


async def status(http: aiohttp.ClientSession, url: str) -> int:
    async with http.get(URL(url, encoded=True)) as answer:
        return answer.status


async def test_readers_never_see_a_mix_of_a_stream_and_its_successor(
    way: tuple[Stack, str], http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    name = name_for(edge)
    direct = Stream(http, f"{stack.server.url}/v1/stream/{name}", TEXT)
    through = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}", TEXT)
    generations = [bytes([letter]) * 512 * 8 for letter in b"ABC"]
    replays: list[bytes] = []
    async with replaying(through, replays):
        for content in generations:
            await direct.create()
            for _ in range(8):
                await direct.append(content[:512])
            await eventually(lambda: is_stored(direct), bool)
            await eventually(lambda: last_of(replays), lambda last, all=content: last == all)
            await direct.delete()
    assert all(len(set(replay)) <= 1 for replay in replays)


async def last_of(replays: list[bytes]) -> bytes:
    return replays[-1] if replays else b""


@contextlib.asynccontextmanager
async def replaying(stream: Stream, replays: list[bytes]) -> AsyncIterator[None]:
    """Four readers, over and over. A reader whose stream is gone has what it has."""

    async def read() -> None:
        while True:
            replays.append(await replay(stream))
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(read()) for _ in range(4)]
    yield
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError), outcome


async def replay(stream: Stream) -> bytes:
    answers, offset = [], "-1"
    while True:
        answer = await stream.read(offset)
        if answer.status != 200:
            assert answer.status in (404, 410), answer
            return joined(answers, TEXT)
        answers.append(answer)
        if answer["Stream-Up-To-Date"]:
            return joined(answers, TEXT)
        offset = answer.next_offset


async def test_what_was_fetched_while_the_stream_was_deleted_does_not_stay(
    way: tuple[Stack, str], http: aiohttp.ClientSession
) -> None:
    stack, edge = way
    name = name_for(edge)
    await stack.written(http, name, TEXT)
    direct = Stream(http, f"{stack.server.url}/v1/stream/{name}", TEXT)
    through = Stream(http, f"{stack.edges[edge].url}/v1/stream/{name}", TEXT)
    offsets = ["-1", *(answer.next_offset for answer in await direct.read_to_the_tail())]
    async with replaying(through, []):
        await direct.delete()
    # A fetch under way may be kept, until the purge that comes when none can be.
    await eventually(
        lambda: asyncio.gather(*(through.read(offset) for offset in offsets)),
        lambda answers: all(answer.status == 404 for answer in answers),
        timeout=40,
    )


async def test_only_who_knows_the_secret_may_purge(
    embedded_stack: Stack, http: aiohttp.ClientSession
) -> None:
    url = embedded_stack.edges["varnish"].url
    for headers, expected in [
        ({}, 403),
        ({"DS-Edge-Secret": "wrong", "Cache-Tag": "stream-a"}, 403),
        ({"DS-Edge-Secret": SECRET}, 400),
        ({"DS-Edge-Secret": SECRET, "Cache-Tag": "a || obj.status != 0"}, 400),
        ({"DS-Edge-Secret": SECRET, "Cache-Tag": "stream-a"}, 200),
    ]:
        async with http.request("BAN", url, headers=headers) as answer:
            assert answer.status == expected, headers


async def test_a_purge_that_fails_is_repeated_and_counted_and_holds_nobody_up(
    aiohttp_server: AiohttpServer, http: aiohttp.ClientSession, at: Callable[..., Stream]
) -> None:
    asked: list[tuple[str, str | None, bytes]] = []

    async def purge(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("Key"), await request.read()))
        return web.Response(status=500 if len(asked) <= 2 else 200)

    app = web.Application()
    app.router.add_post("/purge/{tag}", purge)
    cdn = await aiohttp_server(app)
    env = {
        "DS_PURGE__URL": f"http://127.0.0.1:{cdn.port}/purge/{{tag}}",
        "DS_PURGE__HEADERS": "Key: k",
        "DS_PURGE__BODY": '{"tags":["{tag}"]}',
        "DS_EDGE__SECRET": SECRET,
        "DS_EDGE__VARNISH": "http://127.0.0.1:9",
    }
    with RunningServer(env=env) as server:
        stream = at(server.url, "gone")
        await stream.create()
        assert (await stream.delete()).status == 204
        assert (await stream.delete()).status == 404
        counts = await eventually(lambda: purges(http, server), lambda found: found.get("done"))
        assert counts["failed"] >= 3
    assert set(asked) == {("/purge/stream-gone", "k", b'{"tags":["stream-gone"]}')}


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "never answers"])
async def test_bodies_leave_the_bucket_at_once_whatever_the_caches_do(
    is_silent: bool, at: Callable[..., Stream]
) -> None:
    cache = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = cache.sockets[0].getsockname()[1]
    if not is_silent:
        cache.close()
    env = {"DS_EDGE__SECRET": SECRET, "DS_PURGE__URL": f"http://127.0.0.1:{port}/{{tag}}"}
    with RunningServer(env=env, chunk_bytes=CHUNK_BYTES) as server:
        stream = at(server.url, "gone", TEXT)
        await stream.create(b"x" * CHUNK_BYTES)
        await eventually(lambda: has_chunks(server), bool)
        assert (await stream.delete()).status == 204
        await eventually(lambda: has_chunks(server), lambda found: not found)
    cache.close()


async def has_chunks(server: RunningServer) -> bool:
    return any(key.startswith("chunks/") for key in keys_in(server))


@pytest.mark.parametrize("is_planned", [True, False], ids=["stopped", "killed"])
async def test_what_a_cache_could_not_be_told_is_on_record_until_it_has_heard_it(
    is_planned: bool, at: Callable[..., Stream], http: aiohttp.ClientSession
) -> None:
    """Of a deleted stream, and of what a snapshot stands for; by the next server, or by a sweep."""
    sink = PurgeSink(free_ports(1)[0])
    env = {"DS_EDGE__SECRET": SECRET, **sink.setting}
    with RunningServer(env=env, chunk_bytes=CHUNK_BYTES) as server:
        await at(server.url, "gone").create()
        assert (await at(server.url, "gone").delete()).status == 204
        await publish_a_snapshot(Stream(http, f"{server.url}/ds/shelf", TEXT))
        await eventually(lambda: pending(http, server), lambda found: found == 2)
        if is_planned:
            await asyncio.to_thread(server.stop)
        else:
            server.kill()
        with sink:
            if is_planned:
                assert (await asyncio.to_thread(server.command, "sweep")).returncode == 0
                assert set(sink.tags) == {"stream-gone", "stream-__ds%2Fshelf%2Fit"}
            await asyncio.to_thread(server.start)
            await eventually(lambda: pending(http, server), lambda found: found == 0, timeout=60)
        assert set(sink.tags) == {"stream-gone", "stream-__ds%2Fshelf%2Fit"}
        with server.redis() as redis:
            assert redis.keys("ds:*recalls") == []


async def publish_a_snapshot(bucket: Stream) -> None:
    assert (await bucket.ask("PUT")).status == 201
    stream = Stream(bucket.http, f"{bucket.url}/it", TEXT)
    offset = (await stream.create(b"data")).next_offset
    snapshot = Stream(bucket.http, f"{stream.url}/snapshot/{offset}", TEXT)
    assert (await snapshot.create(b"all of it")).status == 204


async def pending(http: aiohttp.ClientSession, server: RunningServer) -> float | None:
    async with http.get(f"{server.url}/metrics") as answer:
        found = PENDING.search(await answer.text())
    return float(found[1]) if found else None


async def purges(http: aiohttp.ClientSession, server: RunningServer) -> dict[str, float]:
    async with http.get(f"{server.url}/metrics") as answer:
        return {outcome: float(n) for outcome, n in PURGES.findall(await answer.text())}
