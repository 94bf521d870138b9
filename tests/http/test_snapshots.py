"""Snapshots (extensions §2): published by clients, they stand for what is not kept."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import aiohttp
import pytest
from support.client import (
    BYTES,
    JSON,
    TEXT,
    Answer,
    Stream,
    assert_problem,
    eventually,
)
from support.extensions import (
    Bucket,
    bootstrap,
    fork,
    latest,
    new_bucket,
    publish,
    snapshot_at,
)
from support.model import parse_token, token
from support.repairs import NEVER, keys_in, seal_all, sweep
from support.server import RunningServer

CHUNK = 1024
MOST = 10_000
KINDS = {
    TEXT: [b"first", b"second", b"third"],
    BYTES: [b"\x00\xff", b"\r\n--\r\n", b"\x80" * 7],
    JSON: [b'{"a":1}', b"[1,2]", b'"third"'],
}
LIMITED = {"DS_LIMITS__MAX_SNAPSHOT_BYTES": str(MOST)}

each_kind = pytest.mark.parametrize("kind", KINDS)
each_state = pytest.mark.parametrize("state", ["hot", "sealed"])


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Small chunks; whether they are sealed is up to the tests."""
    env = NEVER | LIMITED | {"DS_TIERING__DELETE_GRACE_SECS": "0"}
    with RunningServer(workers=2, long_poll_timeout_secs=30, chunk_bytes=CHUNK, env=env) as running:
        yield running


@pytest.fixture
async def bucket(server: RunningServer, http: aiohttp.ClientSession) -> Bucket:
    return await new_bucket(http, server.url)


async def write(stream: Stream, *messages: bytes) -> list[str]:
    """The offsets between the messages, from the beginning to the end."""
    offsets = [(await stream.create()).next_offset]
    for message in messages:
        body = b"[" + message + b"]" if stream.content_type == JSON else message
        answer = await stream.append(body)
        assert answer.status == 204
        offsets.append(answer.next_offset)
    return offsets


async def written(bucket: Bucket, kind: str = TEXT) -> tuple[Stream, list[str]]:
    stream = bucket.stream(content_type=kind)
    return stream, await write(stream, *KINDS[kind])


async def settle(server: RunningServer, state: str) -> None:
    """Everything is sealed and what is not retained has gone, or nothing of the kind."""
    if state == "sealed":
        await asyncio.to_thread(seal_all, server)
        await asyncio.to_thread(sweep, server)


def moved(offset: str, by: int) -> str:
    log, position = parse_token(offset)
    return token(log, position + by)


@each_kind
@each_state
async def test_a_snapshot_is_published_and_read(
    server: RunningServer, bucket: Bucket, kind: str, state: str
) -> None:
    """§2.2, §2.5: 204, then 200 with its bytes, its content type and its place."""
    stream, offsets = await written(bucket, kind)
    await settle(server, state)
    answer = await publish(
        stream, offsets[2], b"\x00folded\r\n", content_type="application/x-it; v=1"
    )
    assert (answer.status, answer.body) == (204, b"")
    assert answer["Cache-Control"] == "no-store"
    await settle(server, state)
    found = await snapshot_at(stream, offsets[2]).read()
    assert (found.status, found.body) == (200, b"\x00folded\r\n")
    assert found["Content-Type"] == "application/x-it; v=1"
    assert found["Stream-Snapshot-Offset"] == found["Stream-Next-Offset"] == offsets[2]
    assert found["Stream-Up-To-Date"] is None


async def test_the_content_type_is_stored_and_has_a_default(bucket: Bucket) -> None:
    """§2.2: application/octet-stream when none is given."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"")
    found = await snapshot_at(stream, offsets[1]).read()
    assert (found.status, found.body, found["Content-Type"]) == (200, b"", BYTES)
    for content_type in ("text/plain; charset=UTF-8", "application/vnd.a+json", 'a/b; c="d;e"'):
        place = (await stream.append(b"more")).next_offset
        await publish(stream, place, b"x", content_type=content_type)
        assert (await snapshot_at(stream, place).read())["Content-Type"] == content_type
        assert (await bootstrap(stream)).snapshot == (content_type, b"x")


@pytest.mark.parametrize("content_type", ["", "text", "text/", "text/pl ain", "/x"])
async def test_a_content_type_that_is_none(bucket: Bucket, content_type: str) -> None:
    """§2.2"""
    stream, offsets = await written(bucket)
    refused = await publish(stream, offsets[1], b"x", content_type=content_type or " ")
    if content_type:
        assert_problem(refused, 400)
    else:
        assert refused.status == 204


@each_kind
@each_state
async def test_every_boundary_of_messages_can_have_a_snapshot_and_nothing_else(
    server: RunningServer, bucket: Bucket, kind: str, state: str
) -> None:
    """§2.1, §2.2: 400 between them. The same boundaries hold for bootstrap."""
    stream, offsets = await written(bucket, kind)
    await settle(server, state)
    boundaries = [parse_token(offset)[1] for offset in offsets]
    for position in range(boundaries[-1] + 1):
        place = moved(offsets[0], position)
        answer = await publish(stream, place, b"%d" % position)
        if position not in boundaries:
            assert_problem(answer, 400)
            continue
        assert answer.status == 204
        assert (await bootstrap(stream)).messages == KINDS[kind][boundaries.index(position) :]
        await settle(server, state)


@each_state
async def test_messages_of_one_append_have_boundaries_between_them(
    server: RunningServer, bucket: Bucket, state: str
) -> None:
    """§2.1, §2.2: an array is its elements; a body of bytes is one message."""
    stream = bucket.stream(content_type=JSON)
    first = (await stream.create(b"[1,22,333]")).next_offset
    await settle(server, state)
    for position in (1, 3, 4, 6, 7, 8):
        assert_problem(await publish(stream, moved(first, position - 9), b"x"), 400)
    assert (await publish(stream, moved(first, 2 - 9), b"one")).status == 204
    assert (await bootstrap(stream)).messages == [b"22", b"333"]
    assert (await publish(stream, moved(first, 5 - 9), b"two")).status == 204
    assert (await bootstrap(stream)).messages == [b"333"]


@each_kind
async def test_boundaries_where_the_sealed_part_ends(
    server: RunningServer, bucket: Bucket, kind: str
) -> None:
    """§2.2: between a chunk in object storage and what is still in Redis."""
    stream = bucket.stream(content_type=kind)
    message = b'"' + b"x" * CHUNK + b'"'
    offsets = await write(stream, message)
    await settle(server, "sealed")
    later = (await stream.append(b'"later"')).next_offset
    assert_problem(await publish(stream, moved(offsets[1], -1), b"x"), 400)
    assert_problem(await publish(stream, moved(offsets[1], 1), b"x"), 400)
    assert (await publish(stream, offsets[1], b"x")).status == 204
    assert (await bootstrap(stream)).messages == [b'"later"']
    assert (await publish(stream, later, b"y")).status == 204


@pytest.mark.parametrize(
    "offset",
    [
        "-1",
        "now",
        "0",
        "x",
        "0000000000000000_0000000000000000",
        "00000000000000001_0000000000000001",
        "9999999999999999_9999999999999999",
        "-1%00",
        "%FF",
        "..%2f",
    ],
)
async def test_what_is_no_offset_of_a_stream_has_no_snapshot(bucket: Bucket, offset: str) -> None:
    """§2.2: 400; §2.5 and §2.6: 404."""
    stream, _ = await written(bucket)
    assert_problem(await publish(stream, offset, b"x"), 400)
    assert_problem(await snapshot_at(stream, offset).read(), 404)
    assert_problem(await snapshot_at(stream, offset).delete(), 404)


async def test_an_offset_may_be_percent_encoded(bucket: Bucket) -> None:
    """§5: in a path it means the same."""
    stream, offsets = await written(bucket)
    encoded = "".join(f"%{ord(letter):02x}" for letter in offsets[1])
    assert (await publish(stream, encoded, b"x")).status == 204
    assert (await snapshot_at(stream, encoded).read()).body == b"x"
    assert (await snapshot_at(stream, offsets[1].replace("_", "%5F")).read()).body == b"x"
    assert_problem(await snapshot_at(stream, encoded).delete(), 409)
    assert (await latest(stream))["Stream-Snapshot-Offset"] == offsets[1]


async def test_a_stream_that_is_not_there_has_no_snapshot(bucket: Bucket) -> None:
    """§2.2, §2.3, §2.5, §2.6, §3.2: 404, also when it was deleted or has expired."""
    never, deleted, expired = (bucket.stream() for _ in range(3))
    await deleted.create(b"x")
    place = (await deleted.head()).next_offset
    await publish(deleted, place, b"x")
    await deleted.delete()
    await expired.create(b"x", stream_ttl="0")
    await eventually(expired.head, lambda answer: answer.status == 404)
    for stream in (never, deleted, expired):
        assert_problem(await publish(stream, place, b"x"), 404)
        assert_problem(await latest(stream), 404)
        assert_problem(await snapshot_at(stream, place).read(), 404)
        assert_problem(await snapshot_at(stream, place).delete(), 404)
        assert_problem(await Stream(stream.http, f"{stream.url}/bootstrap").read(), 404)


@each_state
async def test_beyond_the_tail_is_a_conflict(
    server: RunningServer, bucket: Bucket, state: str
) -> None:
    """§2.2: 409, and it can be published when the stream has come so far."""
    stream, offsets = await written(bucket)
    await settle(server, state)
    ahead = moved(offsets[-1], 4)
    assert_problem(await publish(stream, ahead, b"x"), 409)
    assert_problem(await publish(stream, moved(offsets[-1], 10**9), b"x"), 409)
    await stream.append(b"more")
    assert (await publish(stream, ahead, b"x")).status == 204


@each_state
async def test_behind_the_retained_range_is_gone(
    server: RunningServer, bucket: Bucket, state: str
) -> None:
    """§2.2: 410, with the offset to go to."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[2], b"x")
    await settle(server, state)
    for offset in offsets[:2]:
        refused = await publish(stream, offset, b"y")
        assert_problem(refused, 410)
        assert refused.next_offset == offsets[2]


async def test_an_offset_of_another_stream_is_gone(bucket: Bucket) -> None:
    """§2.2: its log is none of this stream's."""
    stream, _ = await written(bucket)
    _, others = await written(bucket)
    refused = await publish(stream, others[1], b"x")
    assert refused.status in (400, 410)
    assert_problem(await latest(stream), 404)


async def pieces(size: int, step: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, size, step):
        yield b"x" * min(step, size - start)


@pytest.mark.parametrize("streaming", [False, True], ids=["length", "chunked"])
async def test_too_large_is_refused(bucket: Bucket, server: RunningServer, streaming: bool) -> None:
    """§2.2: 413, told by its length or found out on the way; nothing of it stays."""
    stream, offsets = await written(bucket)

    def body(size: int) -> AsyncIterator[bytes] | bytes:
        return pieces(size) if streaming else b"x" * size

    assert_problem(await publish(stream, offsets[1], body(MOST + 1)), 413)
    assert_problem(await latest(stream), 404)
    assert (await stream.read("-1")).status == 200
    assert keys_in(server, f"{bucket.id}%2F{stream.url.rpartition('/')[2]}") == []
    assert (await publish(stream, offsets[1], body(MOST))).status == 204
    assert (await snapshot_at(stream, offsets[1]).read()).body == b"x" * MOST


async def test_too_large_at_the_place_of_the_snapshot_that_is_there(bucket: Bucket) -> None:
    """§2.2: compared with it, and still 413."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"x" * MOST)
    assert_problem(await publish(stream, offsets[1], pieces(MOST + 1)), 413)


async def test_an_encoded_body_is_refused(bucket: Bucket) -> None:
    """§2.2: the server could not tell readers how to decode it."""
    stream, offsets = await written(bucket)
    refused = await publish(stream, offsets[1], b"x", content_encoding="gzip")
    assert_problem(refused, 415)


@each_state
async def test_the_same_again_is_well_and_something_else_is_a_conflict(
    server: RunningServer, bucket: Bucket, state: str
) -> None:
    """§2.2: 204 for who repeats himself; 409, because no other view can be made at that offset."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[2], b"one", content_type=TEXT)
    await settle(server, state)
    assert (await publish(stream, offsets[2], b"one", content_type=TEXT)).status == 204
    assert_problem(await publish(stream, offsets[2], b"two", content_type=TEXT), 409)
    assert_problem(await publish(stream, offsets[2], b"one", content_type=BYTES), 409)
    assert (await snapshot_at(stream, offsets[2]).read()).body == b"one"


async def test_of_many_at_one_place_one_wins(server: RunningServer, bucket: Bucket) -> None:
    """§2.2: 409 for the others, also when they come at the same time."""
    stream, offsets = await written(bucket)
    bodies = [b"%d" % (number // 2) for number in range(20)]
    answers = await asyncio.gather(*(publish(stream, offsets[1], body) for body in bodies))
    won = {body for body, answer in zip(bodies, answers, strict=True) if answer.status == 204}
    assert {answer.status for answer in answers} == {204, 409}
    assert won == {(await snapshot_at(stream, offsets[1]).read()).body}
    await settle(server, "sealed")
    name = stream.url.rpartition("/")[2]
    assert len([key for key in keys_in(server, name) if key.startswith("snapshots/")]) == 1


@each_kind
@each_state
async def test_reads_behind_the_snapshot_are_gone(
    server: RunningServer, bucket: Bucket, kind: str, state: str
) -> None:
    """§2.2: it is the new earliest retained offset; 410 for every lesser one, -1 included."""
    stream, offsets = await written(bucket, kind)
    await settle(server, state)
    await publish(stream, offsets[2], b"x")
    await settle(server, state)
    for query in behind(offsets[:2]):
        refused = await stream.read(query=query)
        assert_problem(refused, 410)
        assert refused.next_offset == offsets[2]
        assert b"/bootstrap" in refused.body
    assert_problem(await stream.ask("GET"), 410)
    assert (await stream.read(offsets[2])).status == 200
    assert (await stream.read("now")).status == 200


def behind(offsets: list[str]) -> list[str]:
    lives = ("", "&live=long-poll", "&live=sse")
    places = ["-1", "0000000000000000_0000000000000000", *offsets]
    return [f"offset={place}{live}" for place in places for live in lives]


async def test_live_readers_are_not_led_behind_the_snapshot_by_what_a_worker_remembers(
    bucket: Bucket,
) -> None:
    """§2.2: a stream that is followed is remembered by its followers' workers for a while."""
    stream = bucket.stream()
    start = (await stream.create()).next_offset
    async with contextlib.AsyncExitStack() as followers:
        for _ in range(8):
            events = await followers.enter_async_context(stream.follow(start))
            await events.until_caught_up()
        middle = (await stream.append(b"one ")).next_offset
        end = (await stream.append(b"two ")).next_offset
        await publish(stream, end, b"x")
        for place in (start, middle):
            for _ in range(8):
                await eventually(lambda place=place: stream.long_poll(place), is_gone)
        answers = [await stream.long_poll(place) for place in (start, middle) for _ in range(8)]
        assert {answer.status for answer in answers} == {410}


def is_gone(answer: Answer) -> bool:
    return answer.status == 410


async def test_followers_at_the_end_do_not_notice_a_snapshot(bucket: Bucket) -> None:
    """§2.2: what they wait for lies beyond it."""
    stream = bucket.stream()
    start = (await stream.create()).next_offset
    async with stream.follow(start) as events:
        await events.until_caught_up()
        for number in range(5):
            end = (await stream.append(b"%d" % number)).next_offset
            seen = await events.until_caught_up()
            assert [event.data for event in seen if event.kind == "data"] == [str(number)]
            assert (await publish(stream, end, b"x")).status == 204
        poll = asyncio.create_task(stream.long_poll(end))
        await stream.append(b"last")
        assert (await poll).body == b"last"


async def test_a_newer_snapshot_replaces_the_one_before(bucket: Bucket) -> None:
    """§2.2: at once; nobody may depend on the older one."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"one")
    await publish(stream, offsets[3], b"three")
    assert (await latest(stream))["Location"] == snapshot_path(stream, offsets[3])
    assert_problem(await snapshot_at(stream, offsets[1]).read(), 404)
    assert_problem(await snapshot_at(stream, offsets[1]).delete(), 404)
    assert_problem(await stream.read(offsets[2]), 410)


def snapshot_path(stream: Stream, offset: str) -> str:
    return f"{urlsplit(stream.url).path}/snapshot/{offset}"


async def test_appends_go_on_while_a_snapshot_arrives(bucket: Bucket) -> None:
    """§2.2: publishing blocks no append, and what comes meanwhile is not part of it."""
    stream, offsets = await written(bucket)
    arrived = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"fol"
        await arrived.wait()
        yield b"ded"

    publishing = asyncio.create_task(publish(stream, offsets[-1], slow()))
    for _ in range(20):
        assert (await stream.append(b"more")).status == 204
    assert (await stream.read("-1")).status == 200
    assert not publishing.done()
    arrived.set()
    assert (await publishing).status == 204
    found = await bootstrap(stream)
    assert (found.snapshot[1], found.messages) == (b"folded", [b"more"] * 20)


async def test_a_publisher_who_goes_away_leaves_everything_as_it_was(
    server: RunningServer, bucket: Bucket
) -> None:
    """§2.2: half a snapshot is none."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"one")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises((ConnectionError, aiohttp.ClientError)):
        await publish(stream, offsets[2], broken())
    assert (await latest(stream))["Stream-Snapshot-Offset"] == offsets[1]
    assert (await stream.read(offsets[1])).status == 200
    name = stream.url.rpartition("/")[2]

    async def stored() -> list[str]:
        return [key for key in keys_in(server, name) if key.startswith("snapshots/")]

    await eventually(stored, lambda keys: len(keys) == 1)


async def test_the_latest_snapshot_is_found(bucket: Bucket) -> None:
    """§2.3: 404 without one, else 307; §2.4: HEAD tells of the same one."""
    stream, offsets = await written(bucket)
    assert_problem(await latest(stream), 404)
    assert (await stream.head())["Stream-Snapshot-Offset"] is None
    for offset in offsets:
        await publish(stream, offset, b"x")
        redirect = await latest(stream)
        assert (redirect.status, redirect.body) == (307, b"")
        assert redirect["Location"] == snapshot_path(stream, offset)
        assert redirect["Cache-Control"] == "no-store"
        assert (await stream.head())["Stream-Snapshot-Offset"] == offset
        async with stream.http.get(f"{stream.url}/snapshot") as followed:
            assert (followed.status, await followed.read()) == (200, b"x")


@pytest.mark.parametrize("stream_id", ["a%20b", "%E2%82%AC", "a%3Fb", "%25"])
async def test_a_redirect_keeps_the_path_encoded(bucket: Bucket, stream_id: str) -> None:
    """§2.3, §5: `Location` can be followed whatever the id."""
    stream = bucket.stream(stream_id)
    end = (await stream.create(b"hello")).next_offset
    await publish(stream, end, b"x")
    assert (await latest(stream))["Location"] == f"/ds/{bucket.id}/{stream_id}/snapshot/{end}"


async def test_head_of_a_snapshot_is_its_answer_without_the_body(bucket: Bucket) -> None:
    """§2.5"""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"12345", content_type=TEXT)
    place = snapshot_at(stream, offsets[1])
    got, head = await place.read(), await place.head()
    assert (head.status, head.body, head["Content-Length"]) == (200, b"", "5")
    for name in ("Content-Type", "ETag", "Stream-Snapshot-Offset", "Cache-Control"):
        assert head[name] == got[name]
    ranged = await place.ask("HEAD", range="bytes=0-1")
    assert (ranged.status, ranged["Content-Length"]) == (200, "5")
    assert (await place.ask("HEAD", range="bytes=9-")).status == 200
    assert (await snapshot_at(stream, offsets[2]).head()).status == 404


async def test_a_snapshot_says_whether_there_is_more(bucket: Bucket) -> None:
    """§2.5: `Stream-Up-To-Date` while it stands for the whole stream; a closed one says so."""
    stream = bucket.stream()
    end = (await stream.create(b"hello")).next_offset
    await publish(stream, end, b"x")
    place = snapshot_at(stream, end)
    tags = set()
    for change, up_to_date, closed in (
        (None, "true", None),
        (stream.close, "true", "true"),
    ):
        if change is not None:
            await change()
        found = await place.read()
        tags.add(found["ETag"])
        assert (found["Stream-Up-To-Date"], found["Stream-Closed"]) == (up_to_date, closed)
    other = bucket.stream()
    end = (await other.create(b"hello")).next_offset
    await publish(other, end, b"x")
    tags.add((await snapshot_at(other, end).read())["ETag"])
    await other.append(b"more")
    found = await snapshot_at(other, end).read()
    assert found["Stream-Up-To-Date"] is None
    assert len(tags | {found["ETag"]}) == 4


async def test_a_snapshot_that_is_known_is_not_sent_again(bucket: Bucket) -> None:
    """§2.5: ETag and If-None-Match; the tag changes when the flags do."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[3], b"hello")
    place = snapshot_at(stream, offsets[3])
    found = await place.read()
    tag = found.headers["ETag"]
    assert found["Cache-Control"] == "public, max-age=0, s-maxage=60"
    for condition in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        known = await place.read(if_none_match=condition)
        assert (known.status, known.body, known["ETag"]) == (304, b"", tag)
        assert known["Stream-Next-Offset"] == offsets[3]
    assert (await place.read(if_none_match='"other"')).status == 200
    assert (await place.ask("HEAD", if_none_match=tag)).status == 304
    await stream.append(b"more")
    assert (await place.read(if_none_match=tag)).status == 200


@pytest.mark.parametrize(
    ("range_", "body", "content_range"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=7-99", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("bytes=0-", b"0123456789", "bytes 0-9/10"),
        ("bytes=4-2", b"0123456789", None),
        ("bytes=-", b"0123456789", None),
        ("bytes=0-1,3-4", b"0123456789", None),
        ("lines=0-1", b"0123456789", None),
        ("bytes=x-1", b"0123456789", None),
        ("BYTES=0-1", b"01", "bytes 0-1/10"),
        ("Bytes=-1", b"9", "bytes 9-9/10"),
        ("byte\u017f=0-1", b"0123456789", None),
        (f"bytes={'0' * 30}2-4", b"234", "bytes 2-4/10"),
        (f"bytes=7-{'9' * 30}", b"789", "bytes 7-9/10"),
        (f"bytes=-{'9' * 5000}", b"0123456789", "bytes 0-9/10"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_range_of_a_snapshot(
    bucket: Bucket, range_: str, body: bytes, content_range: str | None
) -> None:
    """§2.5: one range is served; what is not understood is ignored."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"0123456789")
    found = await snapshot_at(stream, offsets[1]).read(range=range_)
    assert (found.status, found.body) == (206 if content_range else 200, body)
    assert found["Content-Range"] == content_range
    assert found["Accept-Ranges"] == "bytes"
    assert found["Stream-Snapshot-Offset"] == offsets[1]


@pytest.mark.parametrize(
    "range_",
    [
        "bytes=10-",
        "bytes=10-12",
        "bytes=-0",
        "bytes=999999-",
        f"bytes={10**19}-",
        f"bytes={10**19}-{10**20}",
        f"bytes={'9' * 5000}-",
    ],
    ids=lambda text: text[:30],
)
async def test_a_range_that_is_not_there(bucket: Bucket, range_: str) -> None:
    """§2.5: 416 with the size."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"0123456789")
    refused = await snapshot_at(stream, offsets[1]).read(range=range_)
    assert_problem(refused, 416)
    assert refused["Content-Range"] == "bytes */10"


async def test_a_range_of_another_version_is_the_whole(bucket: Bucket) -> None:
    """§2.5: If-Range."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"0123456789")
    place = snapshot_at(stream, offsets[1])
    tag = (await place.read()).headers["ETag"]
    assert (await place.read(range="bytes=0-1", if_range=tag)).body == b"01"
    for other in ('"other"', f"W/{tag}", "Sat, 29 Oct 1994 19:43:31 GMT"):
        assert (await place.read(range="bytes=0-1", if_range=other)).body == b"0123456789"


async def test_a_snapshot_cannot_be_deleted(bucket: Bucket) -> None:
    """§2.6: 409 for the latest, without which bootstrap would be incomplete; 404 for all others."""
    stream, offsets = await written(bucket)
    assert_problem(await snapshot_at(stream, offsets[1]).delete(), 404)
    await publish(stream, offsets[1], b"x")
    assert_problem(await snapshot_at(stream, offsets[1]).delete(), 409)
    assert_problem(await snapshot_at(stream, offsets[2]).delete(), 404)
    assert (await snapshot_at(stream, offsets[1]).read()).body == b"x"
    await publish(stream, offsets[2], b"y")
    assert_problem(await snapshot_at(stream, offsets[1]).delete(), 404)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_cannot_be_done_with_a_snapshot(bucket: Bucket, method: str) -> None:
    """§2"""
    stream, offsets = await written(bucket)
    assert_problem(await snapshot_at(stream, offsets[1]).ask(method), 405)
    assert_problem(await Stream(stream.http, f"{stream.url}/snapshot").ask(method), 405)


async def test_offsets_sort_as_their_numbers_do(bucket: Bucket) -> None:
    """§2.1: numeric and lexicographic order are the same, and the difference counts bytes."""
    stream = bucket.stream()
    offsets = await write(stream, *(b"x" * size for size in (1, 9, 90, 900, 9000, 90000)))
    assert offsets == sorted(offsets)
    positions = [parse_token(offset)[1] for offset in offsets]
    assert [b - a for a, b in itertools.pairwise(positions)] == [1, 9, 90, 900, 9000, 90000]
    assert len({len(offset) for offset in offsets}) == 1


async def test_an_ordinary_read_never_gives_the_snapshot(bucket: Bucket) -> None:
    """§3.4: snapshots come through their own resource and bootstrap only."""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[2], b"SNAPSHOT")
    assert (await stream.read(offsets[2])).body == b"third"
    assert (await stream.long_poll(offsets[2])).body == b"third"
    async with stream.follow(offsets[2]) as events:
        seen = await events.until_caught_up()
    assert [event.data for event in seen if event.kind == "data"] == ["third"]


async def test_an_empty_stream_can_have_a_snapshot(bucket: Bucket) -> None:
    """§2.2: of nothing; then everything is retained, and nothing is gone."""
    stream = bucket.stream()
    start = (await stream.create()).next_offset
    assert (await publish(stream, start, b"nothing")).status == 204
    await stream.append(b"hello")
    assert (await stream.read("-1")).body == b"hello"
    found = await bootstrap(stream)
    assert (found.snapshot, found.messages) == ((BYTES, b"nothing"), [b"hello"])


async def test_a_closed_stream_can_have_a_snapshot(bucket: Bucket) -> None:
    """§2.2"""
    stream, offsets = await written(bucket)
    await stream.close()
    assert (await publish(stream, offsets[3], b"x")).status == 204
    assert (await stream.read(offsets[3]))["Stream-Closed"] == "true"
    assert_problem(await stream.read("-1"), 410)


async def test_binary_events_are_as_ever(bucket: Bucket) -> None:
    """§4: base64, and the answer says so; snapshots and bootstrap change nothing in it."""
    stream = bucket.stream(content_type=BYTES)
    offsets = await write(stream, b"\x00\x01", b"\xff\xfe")
    await publish(stream, offsets[1], b"\x00")
    await bootstrap(stream)
    async with stream.follow(offsets[1]) as events:
        assert events.response.headers["Stream-SSE-Data-Encoding"] == "base64"
        seen = await events.until_caught_up()
    assert [event.data for event in seen if event.kind == "data"] == ["//4="]


class TestForks:
    """§2.2, §3.4: a fork has its source's snapshot until it gets one of its own."""

    async def source(self, bucket: Bucket) -> tuple[Stream, list[str]]:
        stream, offsets = await written(bucket)
        assert (
            await publish(stream, offsets[1], b"first, folded", content_type=TEXT)
        ).status == 204
        return stream, offsets

    @each_state
    async def test_a_fork_inherits_snapshot_and_retained_range(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, offsets = await self.source(bucket)
        await settle(server, state)
        made = bucket.stream()
        own = (await fork(source, made, offsets[2])).next_offset
        await settle(server, state)
        place = moved(own, -len(b"second"))
        assert (await made.head())["Stream-Snapshot-Offset"] == place
        assert (await snapshot_at(made, place).read()).body == b"first, folded"
        assert (await snapshot_at(made, offsets[1]).read()).body == b"first, folded"
        refused = await made.read("-1")
        assert_problem(refused, 410)
        assert refused.next_offset == place
        assert_problem(await made.read(offsets[0]), 410)
        assert (await made.read(offsets[1])).body == b"second"
        found = await bootstrap(made)
        assert found.snapshot == (TEXT, b"first, folded")
        assert found.messages == [b"second"]
        assert found.answer["Stream-Snapshot-Offset"] == place

    async def test_a_fork_before_the_retained_range_cannot_be_made(self, bucket: Bucket) -> None:
        source, offsets = await self.source(bucket)
        assert_problem(await fork(source, bucket.stream(), offsets[0]), 400)
        assert_problem(await fork(source, bucket.stream(), "-1"), 400)
        assert (await fork(source, bucket.stream(), offsets[1])).status == 201

    @each_state
    async def test_what_the_source_does_afterwards_is_none_of_the_forks_business(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, offsets = await self.source(bucket)
        made, of_it = bucket.stream(), bucket.stream()
        await fork(source, made, offsets[2])
        await fork(made, of_it)
        await publish(source, offsets[3], b"all, folded")
        await settle(server, state)
        for stream in (made, of_it):
            found = await bootstrap(stream)
            assert (found.snapshot, found.messages) == ((TEXT, b"first, folded"), [b"second"])
            assert (await stream.read(offsets[1])).body == b"second"
        await source.delete()
        await made.delete()
        await settle(server, state)
        found = await bootstrap(of_it)
        assert (found.snapshot, found.messages) == ((TEXT, b"first, folded"), [b"second"])

    @each_state
    async def test_a_fork_gets_a_snapshot_of_its_own(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, offsets = await self.source(bucket)
        made = bucket.stream()
        own = (await fork(source, made, offsets[2])).next_offset
        place = moved(own, -len(b"second"))
        assert (await publish(made, place, b"first, folded", content_type=TEXT)).status == 204
        assert_problem(await publish(made, place, b"other"), 409)
        assert_problem(await publish(made, moved(own, -1), b"inside"), 400)
        assert (await publish(made, own, b"two")).status == 204
        await made.append(b"own")
        await settle(server, state)
        found = await bootstrap(made)
        assert (found.snapshot, found.messages) == ((BYTES, b"two"), [b"own"])
        found = await bootstrap(source)
        assert found.snapshot == (TEXT, b"first, folded")
        assert found.messages == [b"second", b"third"]

    async def test_forks_made_while_snapshots_are_published(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        """Whatever came first, what the fork has is whole."""
        source = bucket.stream()
        offsets = await write(source, *(b"%02d," % number for number in range(40)))
        whole = b"".join(b"%02d," % number for number in range(40))
        forks = [bucket.stream() for _ in range(40)]
        for number, made in enumerate(forks, start=1):
            folded = whole[: 3 * number]
            answers = await asyncio.gather(
                fork(source, made), publish(source, offsets[number], folded)
            )
            assert [answer.status for answer in answers] == [201, 204]
        await settle(server, "sealed")
        for made in forks:
            found = await bootstrap(made)
            assert found.snapshot[1] + b"".join(found.messages) == whole

    @each_state
    async def test_a_border_inside_a_message_is_a_boundary_of_the_fork_only(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, offsets = await written(bucket)
        await settle(server, state)
        made = bucket.stream()
        own = (await fork(source, made, offsets[1], stream_fork_sub_offset="3")).next_offset
        await made.append(b"own")
        await settle(server, state)
        assert (await bootstrap(made)).messages == [b"first", b"sec", b"own"]
        assert_problem(await publish(source, moved(offsets[1], 3), b"x"), 400)
        assert (await publish(made, own, b"x")).status == 204
        assert (await bootstrap(made)).messages == [b"own"]
        assert (await bootstrap(source)).messages == [b"first", b"second", b"third"]


class TestObjects:
    """§2.2: what is not retained leaves object storage after a time of grace, and nothing else."""

    def stored(self, server: RunningServer, stream: Stream, kind: str = "") -> list[str]:
        return (
            keys_in(server, stream.url.rpartition("/")[2])
            if not kind
            else [key for key in self.stored(server, stream) if key.startswith(kind)]
        )

    async def chunks(self, server: RunningServer, bucket: Bucket) -> tuple[Stream, list[str]]:
        stream = bucket.stream()
        offsets = await write(stream, *(b"%d" % number * CHUNK for number in range(4)))
        await asyncio.to_thread(seal_all, server)
        assert len(self.stored(server, stream, "chunks/")) == 4
        return stream, offsets

    async def test_objects_behind_the_snapshot_go(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream, offsets = await self.chunks(server, bucket)
        await publish(stream, offsets[2], b"old")
        await publish(stream, offsets[3], b"new")
        await settle(server, "sealed")
        for kind, left in (("chunks/", 1), ("index/", 1), ("snapshots/", 1)):
            assert len(self.stored(server, stream, kind)) == left
        assert (await snapshot_at(stream, offsets[3]).read()).body == b"new"
        assert (await stream.read(offsets[3])).body == b"3" * CHUNK
        assert (await bootstrap(stream)).messages == [b"3" * CHUNK]
        assert (await publish(stream, offsets[3], b"new")).status == 204
        assert_problem(await publish(stream, offsets[3], b"other"), 409)

    @each_kind
    async def test_what_has_gone_is_gone_for_everyone(
        self, server: RunningServer, bucket: Bucket, kind: str
    ) -> None:
        stream = bucket.stream(content_type=kind)
        bodies = [b'"' + b"%d" % number * CHUNK + b'"' for number in range(4)]
        offsets = await write(stream, *bodies)
        await asyncio.to_thread(seal_all, server)
        await publish(stream, offsets[3], b"x")
        await settle(server, "sealed")
        assert len(self.stored(server, stream, "chunks/")) == 1
        inside = [moved(offset, 1) for offset in offsets[:3]]
        for query in behind([*offsets[:3], *inside]):
            refused = await stream.read(query=query)
            assert_problem(refused, 410)
            assert refused.next_offset == offsets[3]
        for offset in (*offsets[:3], *inside):
            assert_problem(await publish(stream, offset, b"y"), 410)
            assert_problem(await fork(stream, bucket.stream(), offset), 400)
            assert_problem(await snapshot_at(stream, offset).read(), 404)
        assert (await stream.read(offsets[3])).status == 200

    async def test_a_stream_of_which_nothing_is_retained_goes_on(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream, offsets = await self.chunks(server, bucket)
        await publish(stream, offsets[4], b"all")
        await settle(server, "sealed")
        assert self.stored(server, stream, "chunks/") == []
        assert (await stream.read(offsets[4]))["Stream-Up-To-Date"] == "true"
        assert (await publish(stream, offsets[4], b"all")).status == 204
        assert (await bootstrap(stream)).messages == []
        made = bucket.stream()
        assert (await fork(stream, made)).status == 201
        for one in (stream, made):
            await one.append(b"more")
            assert (await one.read(offsets[4])).body == b"more"
            assert (await bootstrap(one)).messages == [b"more"]
        await settle(server, "sealed")
        for one in (stream, made):
            found = await bootstrap(one)
            assert (found.snapshot[1], found.messages) == (b"all", [b"more"])
            assert_problem(await one.read(offsets[1]), 410)

    async def test_a_chunk_that_is_partly_retained_stays(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream = bucket.stream()
        offsets = await write(stream, b"a" * 600, b"b" * 600, b"c" * 600)
        await asyncio.to_thread(seal_all, server)
        await publish(stream, offsets[1], b"x")
        await settle(server, "sealed")
        assert (await stream.read(offsets[1])).body == b"b" * 600
        assert (await bootstrap(stream)).messages == [b"b" * 600, b"c" * 600]

    async def test_what_is_lent_stays_until_it_is_given_back(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream, offsets = await self.chunks(server, bucket)
        await publish(stream, offsets[1], b"lent")
        made = bucket.stream()
        assert (await fork(stream, made, offsets[2])).status == 201
        await publish(stream, offsets[4], b"new")
        await settle(server, "sealed")
        found = await bootstrap(made)
        assert (found.snapshot[1], found.messages) == (b"lent", [b"1" * CHUNK])
        assert (await made.read(offsets[1])).body == b"1" * CHUNK
        assert (await made.delete()).status == 204
        await settle(server, "sealed")
        assert self.stored(server, stream, "chunks/") == []
        assert len(self.stored(server, stream, "snapshots/")) == 1

    async def test_a_deleted_stream_takes_its_snapshot_along(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream, offsets = await self.chunks(server, bucket)
        await publish(stream, offsets[1], b"x")
        await stream.delete()
        await settle(server, "sealed")
        assert self.stored(server, stream) == []

    async def test_objects_stay_as_long_as_the_grace_lasts(
        self, http: aiohttp.ClientSession
    ) -> None:
        env = NEVER | {"DS_TIERING__DELETE_GRACE_SECS": "3600"}
        with RunningServer(chunk_bytes=CHUNK, env=env) as patient:
            bucket = await new_bucket(http, patient.url)
            stream, offsets = await self.chunks(patient, bucket)
            await publish(stream, offsets[1], b"old")
            await publish(stream, offsets[4], b"new")
            await settle(patient, "sealed")
            assert len(self.stored(patient, stream, "chunks/")) == 4
            assert len(self.stored(patient, stream, "snapshots/")) == 2
            assert_problem(await stream.read(offsets[0]), 410)
            patient.settings["DS_TIERING__DELETE_GRACE_SECS"] = "0"
            await asyncio.to_thread(sweep, patient)
            assert self.stored(patient, stream, "chunks/") == []
            assert len(self.stored(patient, stream, "snapshots/")) == 1
