"""Server-sent events: what is on the wire, what followers see, and how a connection ends."""

import asyncio
import base64
import contextlib
import json
import re
import time

import aiohttp
import pytest
from support.client import (
    BYTES,
    JSON,
    TEXT,
    Event,
    EventStream,
    NewStream,
    Stream,
    assert_problem,
    eventually,
    live_followers,
    says_up_to_date,
)
from support.model import token

CURSOR_EPOCH = 1_728_432_000


def payloads(events: list[Event]) -> list[str]:
    return [event.data for event in events if event.kind == "data"]


def messages(events: list[Event]) -> list[object]:
    return [message for payload in payloads(events) for message in json.loads(payload)]


def decoded(events: list[Event]) -> bytes:
    return b"".join(base64.b64decode(p.replace("\n", ""), validate=True) for p in payloads(events))


def last_offset(events: list[Event]) -> str:
    return next(e for e in reversed(events) if e.kind == "control").control["streamNextOffset"]


async def caught_up(stream: Stream, offset: str = "-1") -> list[Event]:
    async with stream.follow(offset) as following:
        return await following.until_caught_up()


# The wire


async def test_the_answer_is_an_event_stream_without_a_length(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    async with stream.follow("-1") as following:
        headers = following.response.headers
        assert following.response.status == 200
        assert headers["Content-Type"] == "text/event-stream"
        assert headers["Cache-Control"] == "no-cache"
        assert "Content-Length" not in headers
        assert "ETag" not in headers


async def test_the_fields_are_written_as_clients_expect_them(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create(b'[{"a":1},2]')
    async with stream.follow("-1") as following:
        await following.until_caught_up()
        frames = following.raw.decode()
    assert frames.startswith('event: data\ndata:[{"a":1},2]\n\nevent: control\ndata:{')
    control = json.loads(re.findall(r"^data:(\{\"stream.*)$", frames, re.MULTILINE)[0])
    assert control["streamNextOffset"] == created.next_offset
    assert control["upToDate"] is True
    assert re.fullmatch(r"[0-9]+", control["streamCursor"])
    assert "streamClosed" not in control


async def test_every_data_event_is_followed_at_once_by_a_control_event(
    new_small_chunk_stream: NewStream,
) -> None:
    for content_type in (JSON, TEXT, BYTES):
        stream = new_small_chunk_stream(content_type)
        await stream.create()
        for n in range(30):
            await stream.append(b'"%s"' % (b"%d" % (n % 10) * 200))
        kinds = [event.kind for event in await caught_up(stream)]
        assert kinds == ["data", "control"] * (len(kinds) // 2)


async def test_only_the_control_event_at_the_tail_says_up_to_date(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    await stream.create()
    await stream.append(json.dumps(["x" * 100] * 100).encode())
    controls = [e.control for e in await caught_up(stream) if e.kind == "control"]
    assert len(controls) > 1
    assert ["upToDate" in control for control in controls] == [False] * (len(controls) - 1) + [True]


async def test_an_empty_stream_begins_with_a_control_event(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create()
    (event,) = await caught_up(stream)
    assert event.control["streamNextOffset"] == created.next_offset
    assert event.control["upToDate"] is True


async def test_from_now_on_nothing_of_the_past_is_sent(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create(b'["old"]')
    async with stream.follow("now") as following:
        (first,) = await following.until_caught_up()
        assert first.control["streamNextOffset"] == created.next_offset
        await stream.append(b'"new"')
        assert messages(await following.until_caught_up()) == ["new"]


async def test_refusals_are_not_event_streams(new_stream: NewStream) -> None:
    stream = new_stream()
    assert_problem(await stream.read(query="offset=-1&live=sse"), 404)
    await stream.create(b"1")
    assert_problem(await stream.read(query="live=sse"), 400)
    assert_problem(await stream.read(query="offset=nonsense&live=sse"), 400)


# Payloads


async def test_json_arrives_as_arrays_of_the_clients_own_bytes(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b'[1.10,{"b":1,"a":"\\u00e9"},123456789012345678901234567890]')
    assert payloads(await caught_up(stream)) == [
        '[1.10,{"b":1,"a":"\\u00e9"},123456789012345678901234567890]'
    ]


async def test_json_with_line_breaks_inside_stays_one_document(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b'{"a":\r\n  1,\r"b":\n\n[2]}')
    assert messages(await caught_up(stream)) == [{"a": 1, "b": [2]}]


@pytest.mark.parametrize(
    "text",
    [
        "line1\nline2\nline3",
        "\n",
        "\n\n\nthree empty lines before",
        "an empty line after\n",
        " a leading space",
        "  two\n   three\n none",
        ": no comment",
        "data: nothing\nid: 7\nretry: 1",
        "vertical\x0b form\x0c file\x1c group\x1d record\x1e next\x85 line\u2028 paragraph\u2029",
        "emoji \U0001f600 é",
        "nul \x00 tab \t",
        "\ufeffbyte order mark",
    ],
    ids=repr,
)
async def test_text_arrives_as_it_was_written(new_stream: NewStream, text: str) -> None:
    stream = new_stream(TEXT)
    await stream.create(text.encode())
    assert payloads(await caught_up(stream)) == [text]


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"], ids=repr)
@pytest.mark.parametrize("content_type", [TEXT, "text/html", JSON])
async def test_no_payload_can_pretend_to_be_an_event(
    new_stream: NewStream, content_type: str, line_end: str
) -> None:
    attack = line_end.join(["safe", "", "event: control", 'data:{"streamClosed":true}', "", "end"])
    stream = new_stream(content_type)
    body = json.dumps(attack) if content_type == JSON else attack
    await stream.create(body.encode())
    data, control = await caught_up(stream)
    assert (data.kind, control.kind) == ("data", "control")
    assert "streamClosed" not in control.control
    assert 'data:{"streamClosed":true}' in data.data.replace('\\"', '"')


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"], ids=repr)
async def test_no_payload_cut_by_an_append_can_pretend_either(
    new_stream: NewStream, line_end: str
) -> None:
    stream = new_stream(TEXT)
    tail = (await stream.create()).next_offset
    async with stream.follow(tail) as following:
        await following.until_caught_up()
        events = []
        for piece in ("x" + line_end, line_end, "event: control" + line_end, "data:{}" + line_end):
            await stream.append(piece.encode())
            events += await following.until_caught_up()
    controls = [event.control for event in events if event.kind == "control"]
    assert all("streamNextOffset" in control for control in controls)
    assert len(controls) == len(payloads(events))


@pytest.mark.parametrize("content_type", [BYTES, "image/png", "application/x-protobuf"])
async def test_other_types_arrive_in_base64(new_stream: NewStream, content_type: str) -> None:
    stream = new_stream(content_type)
    pieces = [bytes(range(256)), b"\r\n\r\n", b"\x00", b"12", b"x" * 5000]
    await stream.create(pieces[0])
    for piece in pieces[1:]:
        await stream.append(piece)
    async with stream.follow("-1") as following:
        assert following.response.headers["Stream-SSE-Data-Encoding"] == "base64"
        events = await following.until_caught_up()
        await stream.append(b"live")
        events += await following.until_caught_up()
    assert decoded(events) == b"".join(pieces) + b"live"
    assert all(len(payload.replace("\n", "")) % 4 == 0 for payload in payloads(events))


@pytest.mark.parametrize("content_type", [TEXT, "text/html", JSON, f"{JSON}; charset=utf-8"])
async def test_text_and_json_are_not_encoded(new_stream: NewStream, content_type: str) -> None:
    stream = new_stream(content_type)
    await stream.create(b"1")
    async with stream.follow("-1") as following:
        assert "Stream-SSE-Data-Encoding" not in following.response.headers


async def test_five_mebibytes_arrive_whole(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    body = bytes(range(256)) * (5 * 1024 * 4)
    await stream.create(body)
    assert decoded(await caught_up(stream)) == body


# Following


async def test_a_hundred_followers_get_every_message_in_order(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[0,1,2]")
    expected = list(range(60))
    ready = asyncio.Semaphore(0)

    async def follow() -> list[object]:
        async with stream.follow("-1") as following:
            seen = messages(await following.until_caught_up())
            ready.release()
            async for event in following:
                if event.kind == "data":
                    seen += json.loads(event.data)
                if len(seen) >= len(expected):
                    break
        return seen

    followers = [asyncio.create_task(follow()) for _ in range(100)]
    for _ in followers:
        await ready.acquire()
    for n in expected[3:]:
        await stream.append(b"%d" % n)
    async with asyncio.timeout(30):
        assert await asyncio.gather(*followers) == [expected] * 100


async def test_every_offset_of_a_control_event_resumes_after_what_was_sent(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(TEXT)
    await stream.create()
    for n in range(40):
        await stream.append(b"<%03d>" % n * 40)
    written = b"".join(b"<%03d>" % n * 40 for n in range(40))
    events = await caught_up(stream)
    assert "".join(payloads(events)).encode() == written
    sent = 0
    for data, control in zip(events[::2], events[1::2], strict=True):
        sent += len(data.data)
        rest = await stream.read_to_the_tail(control.control["streamNextOffset"])
        assert b"".join(answer.body for answer in rest) == written[sent:]


async def test_a_follower_who_comes_late_gets_the_past_and_then_the_present(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    await stream.create()
    await stream.append(json.dumps(list(range(1000))).encode())
    async with stream.follow("-1") as following:
        seen = messages(await following.until_caught_up())
        for n in range(1000, 1050):
            await stream.append(b"%d" % n)
        while len(seen) < 1050:
            seen += messages([await anext(following)])
    assert seen == list(range(1050))


async def test_a_batch_over_several_chunks_reaches_followers_whole(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    tail = (await stream.create()).next_offset
    batch = [f"{n}" * 50 for n in range(200)]
    async with stream.follow(tail) as following:
        await following.until_caught_up()
        await stream.append(json.dumps(batch).encode())
        assert messages(await following.until_caught_up()) == batch


async def test_a_follower_who_stops_reading_for_a_while_loses_nothing(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    pieces = [b"%04d" % n * 16_384 for n in range(80)]
    async with stream.follow("-1") as following:
        await following.until_caught_up()
        for piece in pieces:
            await stream.append(piece)
        quick = await following_until(following, 5 * 1024 * 1024)
    assert quick == b"".join(pieces)


async def following_until(following: EventStream, size: int) -> bytes:
    seen: list[str] = []
    while sum(map(len, seen)) < size:
        event = await anext(following)
        if event.kind == "data":
            seen.append(event.data)
    return "".join(seen).encode()


async def test_writers_do_not_wait_for_followers_who_do_not_read(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    async with stream.follow("-1") as stuck:
        await stuck.until_caught_up()
        for _ in range(12):
            await stream.append(b"x" * 1024 * 1024)
        assert (await stream.head()).position == 12 * 1024 * 1024


async def test_followers_who_leave_leave_nothing_behind(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    async with contextlib.AsyncExitStack() as followers:
        for _ in range(30):
            following = await followers.enter_async_context(stream.follow("-1"))
            await following.until_caught_up()
        assert await live_followers(stream) >= 30
    await eventually(lambda: live_followers(stream), lambda found: found == 0)


# Closing and other ends


async def test_the_last_event_of_a_closed_stream_says_so_and_has_no_cursor(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    created = await stream.create(b"[1,2]", closed=True)
    async with stream.follow("-1") as following:
        data, control = await following.rest()
    assert json.loads(data.data) == [1, 2]
    assert control.control["streamNextOffset"] == created.next_offset
    assert control.control["streamClosed"] is True
    assert "streamCursor" not in control.control


@pytest.mark.parametrize("offset", [None, "now"])
async def test_at_the_end_of_a_closed_stream_there_is_one_event_only(
    new_stream: NewStream, offset: str | None
) -> None:
    stream = new_stream()
    created = await stream.create(b"[1,2]", closed=True)
    async with stream.follow(offset or created.next_offset) as following:
        (event,) = await following.rest()
    assert event.control["streamClosed"] is True
    assert event.control["upToDate"] is True
    assert event.control["streamNextOffset"] == created.next_offset


@pytest.mark.parametrize("last", [None, b'"last"'], ids=["without data", "with data"])
async def test_closing_ends_what_followers_hear(new_stream: NewStream, last: bytes | None) -> None:
    stream = new_stream()
    await stream.create(b'["first"]')
    async with stream.follow("-1") as following:
        await following.until_caught_up()
        closed = await stream.close(last)
        async with asyncio.timeout(10):
            events = await following.rest()
    assert messages(events) == (["last"] if last else [])
    assert events[-1].control["streamClosed"] is True
    assert events[-1].control["streamNextOffset"] == closed.next_offset


async def test_closing_never_overtakes_the_last_message(new_stream: NewStream) -> None:
    async def append_and_close(patience: int) -> list[object]:
        stream = new_stream()
        tail = (await stream.create()).next_offset
        async with stream.follow(tail) as following:
            for _ in range(patience):
                await stream.head()
            await asyncio.gather(stream.append(b'"one"'), stream.head())
            await stream.close(b'"two"')
            async with asyncio.timeout(10):
                events = await following.rest()
        assert events[-1].control["streamClosed"] is True
        return messages(events)

    outcomes = await asyncio.gather(*(append_and_close(patience) for patience in range(12)))
    assert outcomes == [["one", "two"]] * 12


async def test_deletion_breaks_the_answer_off_so_that_no_cache_keeps_it(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    async with stream.follow("-1") as following:
        await following.until_caught_up()
        await stream.delete()
        with pytest.raises(aiohttp.ClientPayloadError):
            async with asyncio.timeout(10):
                await following.rest()


async def test_a_connection_ends_as_planned_and_a_follower_goes_on_without_loss(
    new_impatient_stream: NewStream,
) -> None:
    stream = new_impatient_stream()
    await stream.create()
    connections = 0
    written = 0

    async def write_until(enough: asyncio.Event) -> None:
        nonlocal written
        while not enough.is_set():
            await stream.append(b"%d" % written)
            written += 1
        await stream.close()

    async def follow(enough: asyncio.Event) -> list[object]:
        nonlocal connections
        seen, offset, closed = [], "-1", False
        while not closed:
            connections += 1
            async with stream.follow(offset) as following:
                events = await following.rest()
            seen += messages(events)
            offset = last_offset(events)
            closed = bool(events[-1].control.get("streamClosed"))
            if connections == 3:
                enough.set()
        return seen

    enough = asyncio.Event()
    async with asyncio.timeout(60):
        _, seen = await asyncio.gather(write_until(enough), follow(enough))
    assert connections >= 3
    assert seen == list(range(written))


async def test_a_connection_that_has_sent_enough_ends_as_planned_too(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    pieces = [b"%02d" % n * 512 * 1024 for n in range(20)]
    for piece in pieces:
        await stream.append(piece)
    await stream.close()
    seen, offset, connections, closed = "", "-1", 0, False
    while not closed:
        connections += 1
        async with stream.follow(offset) as following:
            events = await following.rest()
        seen += "".join(payloads(events))
        offset = last_offset(events)
        closed = bool(events[-1].control.get("streamClosed"))
    assert seen.encode() == b"".join(pieces)
    assert 2 <= connections <= 4


async def test_the_planned_end_is_where_a_follower_is_caught_up(
    new_impatient_stream: NewStream,
) -> None:
    stream = new_impatient_stream()
    created = await stream.create(b"[1]")
    started = time.monotonic()
    async with stream.follow("-1") as following, asyncio.timeout(20):
        events = await following.rest()
    assert time.monotonic() - started >= 0.5
    assert last_offset(events) == created.next_offset
    assert says_up_to_date(events[-1])


# Cursors


async def test_the_cursor_of_an_event_is_strictly_greater_than_the_clients(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    sent = int((time.time() - CURSOR_EPOCH) // 20) + 10

    async def cursor() -> int:
        async with stream.follow("-1", cursor=str(sent)) as following:
            return int((await following.until_caught_up())[-1].control["streamCursor"])

    cursors = await asyncio.gather(*(cursor() for _ in range(10)))
    assert len(set(cursors)) == 1
    assert sent < cursors[0] <= sent + 180


async def test_an_offset_within_a_chunk_is_where_a_follower_may_begin(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    created = await stream.create(json.dumps(["x" * 97] * 30).encode())
    assert len(messages(await caught_up(stream, token(created.log, 1000)))) == 20
