"""Bootstrap (extensions §3): the snapshot and everything after it, in one answer."""

import asyncio
import itertools
import re
from collections.abc import Iterator

import aiohttp
import pytest
from support.client import BYTES, JSON, TEXT, Stream, assert_problem
from support.extensions import (
    NO_SNAPSHOT,
    Bucket,
    bootstrap,
    fork,
    new_bucket,
    parts_of,
    publish,
    snapshot_at,
)
from support.model import parse_token, token
from support.repairs import NEVER, assert_sound, keys_in, lose_and_recover, seal_all, sweep
from support.server import RunningServer
from support.wire import Wire

CHUNK = 1024
MIXED = "multipart/mixed; boundary="
BOUNDARY = re.compile(r"multipart/mixed; boundary=([0-9a-f]{32})")
KINDS = {
    TEXT: [b"first", b"second\r\n", b"third"],
    BYTES: [b"\x00\xff\xfe", b"\r\n\r\n", b"\x80" * 7],
    JSON: [b'{"a": 1}', b"[1,2]", b'"third"'],
}

each_kind = pytest.mark.parametrize("kind", KINDS)
each_state = pytest.mark.parametrize("state", ["hot", "sealed"])


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Small chunks; the rest is sealed when a test asks for it."""
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER) as running:
        yield running


@pytest.fixture
async def bucket(server: RunningServer, http: aiohttp.ClientSession) -> Bucket:
    return await new_bucket(http, server.url)


def body_of(kind: str, *messages: bytes) -> bytes:
    return b"[" + b",".join(messages) + b"]" if kind == JSON else b"".join(messages)


async def write(stream: Stream, *messages: bytes) -> list[str]:
    """The offsets between the messages, from the beginning to the end."""
    offsets = [(await stream.create()).next_offset]
    for message in messages:
        answer = await stream.append(body_of(stream.content_type, message))
        assert answer.status == 204
        offsets.append(answer.next_offset)
    return offsets


async def written(bucket: Bucket, kind: str = TEXT) -> tuple[Stream, list[str]]:
    stream = bucket.stream(content_type=kind)
    return stream, await write(stream, *KINDS[kind])


async def settle(server: RunningServer, state: str) -> None:
    if state == "sealed":
        await asyncio.to_thread(seal_all, server)


def resource(stream: Stream) -> Stream:
    return Stream(stream.http, f"{stream.url}/bootstrap")


@each_kind
@each_state
async def test_without_a_snapshot_the_first_part_is_empty(
    server: RunningServer, bucket: Bucket, kind: str, state: str
) -> None:
    """§3.2: `Stream-Snapshot-Offset` is -1, and the part is application/octet-stream."""
    stream, offsets = await written(bucket, kind)
    await settle(server, state)
    found = await bootstrap(stream)
    assert found.snapshot == NO_SNAPSHOT
    assert found.updates == [(kind, message) for message in KINDS[kind]]
    assert found.answer["Stream-Snapshot-Offset"] == "-1"
    assert found.answer["Stream-Next-Offset"] == offsets[-1]
    assert found.answer["Stream-Up-To-Date"] == "true"
    assert found.answer["Stream-Closed"] is None
    assert found.answer["Cache-Control"] == "no-store"


@each_kind
@each_state
async def test_with_a_snapshot_it_comes_first_as_it_was_published(
    server: RunningServer, bucket: Bucket, kind: str, state: str
) -> None:
    """§3.2: its raw bytes and its own content type, then one part for each message after it."""
    stream, offsets = await written(bucket, kind)
    await publish(stream, offsets[1], b"\x00raw\r\n--\r\n", content_type="application/x-it; v=2")
    await settle(server, state)
    found = await bootstrap(stream)
    assert found.snapshot == ("application/x-it; v=2", b"\x00raw\r\n--\r\n")
    assert found.updates == [(kind, message) for message in KINDS[kind][1:]]
    assert found.answer["Stream-Snapshot-Offset"] == offsets[1]
    assert found.answer["Stream-Next-Offset"] == offsets[-1]


async def test_parts_have_the_content_type_of_the_stream_as_it_was_given(bucket: Bucket) -> None:
    """§3.2: parameters and all."""
    stream = bucket.stream(content_type="Text/Plain; charset=utf-8")
    await write(stream, b"hello")
    assert (await bootstrap(stream)).updates == [("Text/Plain; charset=utf-8", b"hello")]


async def test_the_body_is_plain_multipart_and_nothing_around_it(bucket: Bucket) -> None:
    """§3.2: no outer framing: byte for byte what RFC 2046 says."""
    stream = bucket.stream()
    offsets = await write(stream, b"one", b"two")
    await publish(stream, offsets[1], b"snap", content_type="a/b")
    answer = await resource(stream).read()
    [boundary] = BOUNDARY.fullmatch(answer.headers["Content-Type"]).groups()
    assert answer.body.decode() == (
        f"--{boundary}\r\nContent-Type: a/b\r\n\r\nsnap"
        f"\r\n--{boundary}\r\nContent-Type: text/plain\r\n\r\ntwo"
        f"\r\n--{boundary}--\r\n"
    )


async def test_no_two_answers_have_the_same_boundary(bucket: Bucket) -> None:
    """§3.2: 128 random bits, so that nobody can write it into a message beforehand."""
    stream, _ = await written(bucket)
    answers = [await resource(stream).read() for _ in range(20)]
    assert len({answer["Content-Type"] for answer in answers}) == 20
    assert all(BOUNDARY.fullmatch(answer.headers["Content-Type"]) for answer in answers)


async def test_an_empty_stream(bucket: Bucket) -> None:
    """§3.2: the empty part and nothing else."""
    stream = bucket.stream()
    end = (await stream.create()).next_offset
    found = await bootstrap(stream)
    assert (found.snapshot, found.updates) == (NO_SNAPSHOT, [])
    assert found.answer.next_offset == end


@each_state
async def test_a_closed_stream_says_so(server: RunningServer, bucket: Bucket, state: str) -> None:
    """§3.2, base protocol: there is nothing to follow."""
    stream, _ = await written(bucket)
    await stream.close(b"last")
    await settle(server, state)
    found = await bootstrap(stream)
    assert found.messages == [*KINDS[TEXT], b"last"]
    assert found.answer["Stream-Closed"] == "true"
    await publish(stream, found.answer.next_offset, b"all of it")
    found = await bootstrap(stream)
    assert (found.snapshot[1], found.messages) == (b"all of it", [])
    assert found.answer["Stream-Closed"] == "true"


@pytest.mark.parametrize(
    "query", ["live=sse", "live=long-poll", "live=", "live=x", "offset=-1&live=sse"]
)
async def test_bootstrap_is_not_live(bucket: Bucket, query: str) -> None:
    """§3.1, §3.3: any `live` is refused with 400."""
    stream, _ = await written(bucket)
    assert_problem(await resource(stream).read(query=query), 400)


async def test_other_query_parameters_mean_nothing(bucket: Bucket) -> None:
    """§3.1: it has none of its own."""
    stream, _ = await written(bucket)
    answer = await resource(stream).read(query="offset=now&cursor=1&x=y")
    assert [body for _, body in parts_of(answer)] == [b"", *KINDS[TEXT]]


async def test_head_has_the_headers_and_no_body(bucket: Bucket) -> None:
    """§3.2"""
    stream, offsets = await written(bucket)
    await publish(stream, offsets[1], b"x")
    head = await resource(stream).head()
    assert (head.status, head.body) == (200, b"")
    assert head["Stream-Snapshot-Offset"] == offsets[1]
    assert head["Stream-Next-Offset"] == offsets[-1]
    assert head.headers["Content-Type"].startswith(MIXED)
    assert (await resource(bucket.stream()).head()).status == 404


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
async def test_bootstrap_can_only_be_read(bucket: Bucket, method: str) -> None:
    """§3.1"""
    stream, _ = await written(bucket)
    assert_problem(await resource(stream).ask(method), 405)


async def test_a_stream_that_is_not_there(bucket: Bucket) -> None:
    """§3.2: 404, also after it was deleted; 410 while forks keep what it was."""
    stream, _ = await written(bucket)
    assert_problem(await resource(bucket.stream()).read(), 404)
    made = bucket.stream()
    await fork(stream, made)
    await stream.delete()
    assert_problem(await resource(stream).read(), 410)
    await made.delete()
    assert_problem(await resource(stream).read(), 404)


@each_kind
async def test_one_append_of_many_messages_is_many_parts_for_json_only(
    bucket: Bucket, kind: str
) -> None:
    """§3.2: a part is one message, and a body of bytes is one, whatever is in it."""
    stream = bucket.stream(content_type=kind)
    await stream.create(body_of(kind, *KINDS[kind]))
    expected = KINDS[kind] if kind == JSON else [b"".join(KINDS[kind])]
    assert (await bootstrap(stream)).messages == expected


@each_kind
async def test_messages_are_given_back_as_they_were_written(bucket: Bucket, kind: str) -> None:
    """§2.1, §3.2: ordinary reads and bootstrap have the same boundaries and the same bytes."""
    stream, offsets = await written(bucket, kind)
    found = await bootstrap(stream)
    for message, offset in zip(found.messages, offsets, strict=False):
        rest = found.messages[offsets.index(offset) :]
        assert (await stream.read(offset)).body == body_of(kind, *rest)
        assert rest[0] == message


def sizes() -> list[int]:
    """Around chunks, around the blocks that are sent, and around nothing."""
    return [1, CHUNK - 1, CHUNK, CHUNK + 1, 3, 65535, 2, 65536, 1, 65537, 200_000, 1, 1, 1]


@each_kind
async def test_chunks_parts_and_tail_together(
    server: RunningServer, bucket: Bucket, kind: str
) -> None:
    """§3.2: exact boundaries, however the messages were sealed."""
    stream = bucket.stream(content_type=kind)
    await stream.create()
    messages = []
    for round_ in range(3):
        for size in sizes():
            letter = b"%d" % round_
            message = b'"' + letter * size + b'"' if kind == JSON else letter * size
            messages.append(message)
            assert (await stream.append(body_of(kind, message))).status == 204
        if round_ < 2:
            await settle(server, "sealed")
    found = await bootstrap(stream)
    assert [len(message) for message in found.messages] == [len(message) for message in messages]
    assert found.messages == messages


@each_kind
async def test_many_small_messages(server: RunningServer, bucket: Bucket, kind: str) -> None:
    """§3.2: thousands in one piece, in several, and unsealed."""
    stream = bucket.stream(content_type=kind)
    await stream.create()
    messages = [b"%d" % number for number in range(3000)]
    if kind == JSON:
        for start in range(0, 3000, 500):
            await stream.append(body_of(kind, *messages[start : start + 500]))
            if start == 1000:
                await settle(server, "sealed")
    else:
        messages = messages[:300]
        for message in messages:
            await stream.append(message)
            if message == b"150":
                await settle(server, "sealed")
    assert (await bootstrap(stream)).messages == messages


class TestForks:
    """§3.2: a fork's messages are its source's up to the border, and its own."""

    @each_state
    async def test_borders_inside_messages(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        """Byte-granular, one fork of another; each border ends a message."""
        source = bucket.stream()
        offsets = await write(source, b"a" * 1500, b"b" * 700, b"c" * 10)
        await settle(server, state)
        one, two, three = (bucket.stream() for _ in range(3))
        await fork(source, one, offsets[1], stream_fork_sub_offset="300")
        await one.append(b"1" * 900)
        await one.append(b"one")
        await settle(server, state)
        await fork(one, two, offsets[0], stream_fork_sub_offset="1400")
        await two.append(b"2")
        end = (await one.head()).next_offset
        log, tail = parse_token(end)
        await fork(one, three, token(log, tail - 3), stream_fork_sub_offset="2")
        await three.append(b"3")
        await settle(server, state)
        assert (await bootstrap(one)).messages == [b"a" * 1500, b"b" * 300, b"1" * 900, b"one"]
        assert (await bootstrap(two)).messages == [b"a" * 1400, b"2"]
        assert (await bootstrap(three)).messages == [
            b"a" * 1500,
            b"b" * 300,
            b"1" * 900,
            b"on",
            b"3",
        ]

    @each_state
    async def test_a_border_between_messages_of_one_append(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, made = bucket.stream(content_type=JSON), bucket.stream(content_type=JSON)
        start = (await source.create()).next_offset
        await source.append(b"[1,22,333]")
        await settle(server, state)
        await fork(source, made, start, stream_fork_sub_offset="2")
        await made.append(b'["own"]')
        await settle(server, state)
        assert (await bootstrap(made)).messages == [b"1", b"22", b'"own"']

    @each_state
    async def test_a_fork_of_a_stream_that_is_gone(
        self, server: RunningServer, bucket: Bucket, state: str
    ) -> None:
        source, offsets = await written(bucket)
        made = bucket.stream()
        await fork(source, made, offsets[2])
        await source.delete()
        await settle(server, state)
        assert (await bootstrap(made)).messages == KINDS[TEXT][:2]


class TestRecovered:
    """§3.2: what the bucket gave back has the boundaries it had."""

    @pytest.fixture
    def server(self) -> Iterator[RunningServer]:
        env = NEVER | {"DS_TIERING__DELETE_GRACE_SECS": "0"}
        with RunningServer(chunk_bytes=CHUNK, env=env) as running:
            yield running

    async def test_a_recovered_stream(self, server: RunningServer, bucket: Bucket) -> None:
        streams = {}
        for kind in KINDS:
            stream, offsets = await written(bucket, kind)
            streams[kind] = stream, offsets
            await publish(stream, offsets[1], b"folded", content_type=TEXT)
        made = bucket.stream()
        await fork(streams[TEXT][0], made, streams[TEXT][1][2], stream_fork_sub_offset="2")
        await made.append(b"own")
        await settle(server, "sealed")
        with Wire(server.url) as wire:
            await asyncio.to_thread(lose_and_recover, server, wire)
        for kind, (stream, offsets) in streams.items():
            found = await bootstrap(stream)
            assert found.snapshot == (TEXT, b"folded")
            assert found.messages == KINDS[kind][1:]
            assert (await snapshot_at(stream, offsets[1]).read()).body == b"folded"
            assert_problem(await stream.read("-1"), 410)
            assert_problem(await stream.read(offsets[0]), 410)
            await stream.append(body_of(kind, b'"new"'))
            assert (await bootstrap(stream)).messages == [*KINDS[kind][1:], b'"new"']
        found = await bootstrap(made)
        assert found.messages == [b"second\r\n", b"th", b"own"]
        listed = (await bucket.page()).json()
        assert listed["stream_count"] == 4

    async def test_a_stream_that_was_trimmed_and_recovered(
        self, server: RunningServer, bucket: Bucket
    ) -> None:
        stream, made = bucket.stream(), bucket.stream()
        bodies = [b"%d" % number * CHUNK for number in range(4)]
        offsets = await write(stream, *bodies, b"tail")
        await publish(stream, offsets[2], b"folded")
        await settle(server, "sealed")
        await asyncio.to_thread(sweep, server)
        assert len([key for key in keys_in(server) if key.startswith("chunks/")]) == 2
        await fork(stream, made, offsets[3])
        await publish(stream, offsets[4], b"folded again")
        await settle(server, "sealed")
        await asyncio.to_thread(sweep, server)
        await asyncio.to_thread(assert_sound, server)
        with Wire(server.url) as wire:
            await asyncio.to_thread(lose_and_recover, server, wire)
        await asyncio.to_thread(assert_sound, server)
        for one, folded, messages in (
            (stream, b"folded again", [b"tail"]),
            (made, b"folded", bodies[2:3]),
        ):
            found = await bootstrap(one)
            assert (found.snapshot[1], found.messages) == (folded, messages)
            assert_problem(await one.read(offsets[0]), 410)
            assert_problem(await one.read("-1"), 410)
            await one.append(b"more")
            assert (await bootstrap(one)).messages == [*messages, b"more"]
        await made.delete()
        await settle(server, "sealed")
        await asyncio.to_thread(sweep, server)
        assert [key for key in keys_in(server) if key.startswith("chunks/")] == []
        await asyncio.to_thread(assert_sound, server)


class TestFollowing:
    """§3.3, §3.4: bootstrap, then the ordinary reads from its `Stream-Next-Offset`."""

    @pytest.mark.parametrize("live", ["sse", "long-poll"])
    async def test_bootstrap_then_live_is_the_whole_stream(self, bucket: Bucket, live: str) -> None:
        stream, offsets = await written(bucket)
        await publish(stream, offsets[1], b"first")
        found = await bootstrap(stream)
        await stream.append(b"later")
        if live == "sse":
            async with stream.follow(found.answer.next_offset) as events:
                seen = await events.until_caught_up()
            rest = [event.data for event in seen if event.kind == "data"]
        else:
            rest = [(await stream.long_poll(found.answer.next_offset)).body.decode()]
        assert [found.snapshot[1], *found.messages] == KINDS[TEXT]
        assert rest == ["later"]

    async def test_who_is_told_gone_finds_everything_with_bootstrap(self, bucket: Bucket) -> None:
        """§3.4: while reads are answered 410 there is a snapshot that covers what is missing."""
        stream = bucket.stream()
        offsets = await write(stream, *(b"%d," % number for number in range(10)))
        for number in (3, 7, 10):
            folded = b"".join(b"%d," % one for one in range(number))
            await publish(stream, offsets[number], folded)
            gone = await stream.read(offsets[1])
            assert_problem(gone, 410)
            found = await bootstrap(stream)
            assert found.answer["Stream-Snapshot-Offset"] == gone.next_offset == offsets[number]
            whole = found.snapshot[1] + b"".join(found.messages)
            assert whole == b"".join(b"%d," % one for one in range(10))

    async def test_headers_and_parts_are_of_one_moment(self, bucket: Bucket) -> None:
        """§3.2: while the stream is appended to, sealed and snapshotted, nothing is missing in
        an answer and nothing is in it twice."""
        stream = bucket.stream()
        await stream.create()
        over, written_bytes = asyncio.Event(), bytearray()

        async def append() -> None:
            for number in itertools.count():
                if over.is_set():
                    return
                message = b"%06d" % number * (1 + number % 90)
                written_bytes.extend(message)
                end = (await stream.append(message)).next_offset
                if number % 7 == 0:
                    await publish(stream, end, bytes(written_bytes))

        appending = asyncio.create_task(append())
        for _ in range(30):
            found = await bootstrap(stream)
            whole = found.snapshot[1] + b"".join(found.messages)
            assert len(whole) == found.answer.position
            assert whole == bytes(written_bytes[: len(whole)])
        over.set()
        await appending
