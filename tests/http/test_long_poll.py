"""Long-polls: they answer at once, or when something happens, or when the time is up."""

import asyncio
import time

import pytest
from support.client import (
    JSON,
    TEXT,
    Answer,
    NewStream,
    Stream,
    assert_problem,
    eventually,
    live_followers,
)
from support.model import token

CURSOR_EPOCH = 1_728_432_000
CURSOR_SECONDS = 20
LARGEST_JITTER = 3600 // CURSOR_SECONDS


def interval_now() -> int:
    return int((time.time() - CURSOR_EPOCH) // CURSOR_SECONDS)


async def test_an_offset_is_required(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(query="live=long-poll"), 400)


@pytest.mark.parametrize("offset", ["-1", "now"])
async def test_no_stream_is_not_found(new_stream: NewStream, offset: str) -> None:
    assert_problem(await new_stream().long_poll(offset), 404)


async def test_data_that_is_there_is_given_at_once(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create(b"[1,2]")
    for offset in ("-1", token(created.log, 0), token(0, 0)):
        answer = await stream.long_poll(offset)
        assert answer.status == 200
        assert answer.body == b"[1,2]"
        assert answer.next_offset == created.next_offset
        assert answer["Stream-Up-To-Date"] == "true"
        assert answer["Content-Type"] == JSON


async def test_a_long_poll_ends_where_its_chunk_ends(new_small_chunk_stream: NewStream) -> None:
    stream = new_small_chunk_stream(TEXT)
    await stream.create(b"x" * 1500)
    await stream.append(b"y")
    answer = await stream.long_poll("-1")
    assert answer.position == 1500
    assert answer["Stream-Up-To-Date"] is None


async def test_when_the_time_is_up_it_answers_204_at_the_tail(
    new_impatient_stream: NewStream,
) -> None:
    stream = new_impatient_stream()
    created = await stream.create(b"[1,2]")
    for offset in (created.next_offset, "now"):
        answer = await stream.long_poll(offset)
        assert answer.status == 204
        assert answer.body == b""
        assert answer.next_offset == created.next_offset
        assert answer["Stream-Up-To-Date"] == "true"
        assert answer["Stream-Closed"] is None
        assert answer["Stream-Cursor"] is not None
        assert answer["Cache-Control"] == "no-store"


async def test_it_waits_at_the_beginning_of_an_empty_stream(
    new_impatient_stream: NewStream,
) -> None:
    stream = new_impatient_stream()
    await stream.create()
    assert (await stream.long_poll("-1")).status == 204


# What wakes it


async def waiting_at(stream: Stream, offset: str, count: int) -> list[asyncio.Task[Answer]]:
    """So many long-polls, of which the server says that they wait."""
    await eventually(lambda: live_followers(stream), lambda found: found == 0)
    polls = [asyncio.create_task(stream.long_poll(offset)) for _ in range(count)]
    await eventually(lambda: live_followers(stream), lambda found: found == count)
    return polls


async def answers_of(polls: list[asyncio.Task[Answer]]) -> list[Answer]:
    """All of them, long before their time is up."""
    async with asyncio.timeout(10):
        return await asyncio.gather(*polls)


async def test_an_append_wakes_everyone_who_waits_on_any_worker(new_stream: NewStream) -> None:
    stream = new_stream()
    tail = (await stream.create()).next_offset
    polls = await waiting_at(stream, tail, 100)
    appended = await stream.append(b'"news"')
    for answer in await answers_of(polls):
        assert answer.status == 200
        assert answer.body == b'["news"]'
        assert answer.next_offset == appended.next_offset
        assert answer["Stream-Up-To-Date"] == "true"


async def test_followers_by_long_poll_see_every_message_once_and_in_order(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    tail = (await stream.create()).next_offset
    messages = list(range(60))

    async def follow() -> list[int]:
        seen: list[int] = []
        offset, cursor = tail, None
        while len(seen) < len(messages):
            answer = await stream.long_poll(offset, cursor)
            assert answer.status == 200
            seen += answer.json()
            offset, cursor = answer.next_offset, answer["Stream-Cursor"]
        return seen

    followers = [asyncio.create_task(follow()) for _ in range(40)]
    for message in messages:
        await stream.append(b"%d" % message)
    async with asyncio.timeout(30):
        assert await asyncio.gather(*followers) == [messages] * 40


async def test_from_now_on_only_what_is_new_is_given(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b'["old"]')
    polls = await waiting_at(stream, "now", 2)
    await stream.append(b'"new"')
    for answer in await answers_of(polls):
        assert answer.status == 200
        assert answer.body == b'["new"]'
        assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize("offset", [None, "now"])
async def test_closing_wakes_who_waits_at_the_tail(
    new_stream: NewStream, offset: str | None
) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1")).next_offset
    polls = await waiting_at(stream, offset or tail, 20)
    await stream.close()
    for answer in await answers_of(polls):
        assert answer.status == 204
        assert answer["Stream-Closed"] == "true"
        assert answer["Stream-Up-To-Date"] == "true"
        assert answer.next_offset == tail


async def test_a_last_append_reaches_who_waits_with_the_end_in_one_answer(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1")).next_offset
    polls = await waiting_at(stream, tail, 4)
    closed = await stream.close(b"2")
    for answer in await answers_of(polls):
        assert answer.status == 200
        assert answer.body == b"[2]"
        assert answer["Stream-Closed"] == "true"
        assert answer.next_offset == closed.next_offset


@pytest.mark.parametrize("offset", [None, "now"])
async def test_at_the_end_of_a_closed_stream_nobody_waits(
    new_stream: NewStream, offset: str | None
) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1", closed=True)).next_offset
    async with asyncio.timeout(10):
        answer = await stream.long_poll(offset or tail)
    assert answer.status == 204
    assert answer["Stream-Closed"] == "true"
    assert answer["Stream-Up-To-Date"] == "true"
    assert answer.next_offset == tail
    assert answer["Cache-Control"] == "no-store"


async def test_deletion_ends_every_wait(new_stream: NewStream) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1")).next_offset
    polls = await waiting_at(stream, tail, 20)
    await stream.delete()
    for answer in await answers_of(polls):
        assert_problem(answer, 404)


async def test_a_stream_created_anew_does_not_answer_those_who_waited_for_the_old_one(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1")).next_offset
    polls = await waiting_at(stream, tail, 20)
    await stream.delete()
    await stream.create(b'["another stream"]')
    assert {answer.status for answer in await answers_of(polls)} <= {404, 410}


async def test_readers_who_leave_are_not_waited_for(new_stream: NewStream) -> None:
    stream = new_stream()
    tail = (await stream.create(b"1")).next_offset
    for poll in await waiting_at(stream, tail, 30):
        poll.cancel()
    await eventually(lambda: live_followers(stream), lambda found: found == 0)


async def test_appends_to_another_stream_wake_nobody(new_impatient_stream: NewStream) -> None:
    stream, other = new_impatient_stream(), new_impatient_stream()
    tail = (await stream.create(b"1")).next_offset
    await other.create()
    waiting = asyncio.create_task(stream.long_poll(tail))
    while not waiting.done():
        await other.append(b"2")
    assert (await waiting).status == 204


# Cursors and caches


async def test_the_cursor_is_the_number_of_the_current_interval(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    before = interval_now()
    cursor = int((await stream.long_poll("-1")).headers["Stream-Cursor"])
    assert before <= cursor <= interval_now()


async def test_an_old_cursor_is_answered_with_the_current_one(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    before = interval_now()
    cursor = int((await stream.long_poll("-1", cursor=str(before - 5))).headers["Stream-Cursor"])
    assert before <= cursor <= interval_now()


@pytest.mark.parametrize("ahead", [0, 1, 1000])
async def test_a_cursor_that_is_not_in_the_past_is_answered_with_a_greater_one(
    new_stream: NewStream, ahead: int
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    sent = interval_now() + 1 + ahead
    cursor = int((await stream.long_poll("-1", cursor=str(sent))).headers["Stream-Cursor"])
    assert sent < cursor <= sent + LARGEST_JITTER


async def test_a_cursor_advances_on_an_answer_without_data_too(
    new_impatient_stream: NewStream,
) -> None:
    stream = new_impatient_stream()
    tail = (await stream.create(b"1")).next_offset
    sent = interval_now() + 10
    answer = await stream.long_poll(tail, cursor=str(sent))
    assert answer.status == 204
    assert int(answer.headers["Stream-Cursor"]) > sent


async def test_everyone_who_asks_the_same_gets_the_same_cursor(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    sent = str(interval_now() + 10)
    answers = await asyncio.gather(*(stream.long_poll("-1", cursor=sent) for _ in range(20)))
    assert len({answer["Stream-Cursor"] for answer in answers}) == 1


async def test_not_all_streams_jump_by_the_same_distance(new_stream: NewStream) -> None:
    sent = str(interval_now() + 10)
    cursors = set()
    for _ in range(8):
        stream = new_stream()
        await stream.create(b"1")
        cursors.add((await stream.long_poll("-1", cursor=sent))["Stream-Cursor"])
    assert len(cursors) > 1


@pytest.mark.parametrize("cursor", ["", "abc", "-1", "1.5", "9" * 400, "%00", "%F0%9F%98%80"])
async def test_a_cursor_that_is_no_number_harms_nobody(new_stream: NewStream, cursor: str) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert (await stream.long_poll("-1", cursor=cursor)).status in (200, 400)


async def test_an_answer_to_an_offset_of_its_log_is_kept_for_an_interval(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    created = await stream.create(b"1")
    answer = await stream.long_poll(token(created.log, 0))
    assert answer["Cache-Control"] == "public, max-age=20"


@pytest.mark.parametrize("offset", ["-1", token(0, 0)])
async def test_an_answer_that_does_not_name_its_log_is_kept_by_shared_caches_only(
    new_stream: NewStream, offset: str
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    directives = (await stream.long_poll(offset)).headers["Cache-Control"].split(", ")
    assert {"public", "max-age=0", "s-maxage=20"} <= set(directives)


async def test_an_answer_with_data_has_a_validator(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert (await stream.long_poll("-1"))["ETag"] is not None
