"""Streams that end by themselves: a window that slides with use, or a time that stands."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from support.client import (
    BYTES,
    JSON,
    TEXT,
    Answer,
    NewStream,
    Stream,
    assert_problem,
    eventually,
)
from support.model import token

WINDOW = 2
FIXED = timezone(timedelta(hours=5, minutes=30))


def in_seconds(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def gone(stream: Stream) -> Answer:
    """Watches by HEAD, which renews nothing, until the stream has expired."""
    return await eventually(stream.head, lambda answer: answer.status == 404)


def seconds_kept(answer: Answer, directive: str) -> int:
    found = re.search(rf"\b{directive}=([0-9]+)", answer.headers["Cache-Control"])
    return int(found[1]) if found else 0


# What may be asked for


@pytest.mark.parametrize(
    "ttl", ["", "abc", "-1", "+3600", "03600", "00", "3600.0", "3.6e3", "1 2", "0x10", "\u0663"]
)
async def test_a_malformed_ttl_is_refused(new_stream: NewStream, ttl: str) -> None:
    stream = new_stream()
    assert_problem(await stream.create(stream_ttl=ttl), 400)
    assert (await stream.head()).status == 404


@pytest.mark.parametrize("ttl", ["9" * 16, "9" * 30, "9" * 400])
async def test_a_ttl_beyond_all_time_breaks_nothing(new_stream: NewStream, ttl: str) -> None:
    stream = new_stream()
    created = await stream.create(stream_ttl=ttl)
    assert created.status in (201, 400)
    assert (await stream.head()).status == (200 if created.status == 201 else 404)


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "tomorrow",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2030-01-01T25:00:00Z",
        "1893456000",
        "2030-01-01T00:00:00+99:00",
    ],
)
async def test_a_malformed_expiry_is_refused(new_stream: NewStream, moment: str) -> None:
    stream = new_stream()
    assert_problem(await stream.create(stream_expires_at=moment), 400)
    assert (await stream.head()).status == 404


@pytest.mark.parametrize(
    "moment",
    [
        "2130-01-01T00:00:00Z",
        "2130-01-01T00:00:00.123Z",
        "2130-01-01T00:00:00.123456789Z",
        "2130-01-01T00:00:00+05:30",
        "2130-01-01T00:00:00-08:00",
        "2130-01-01t00:00:00z",
    ],
)
async def test_an_expiry_is_any_timestamp_of_rfc_3339(new_stream: NewStream, moment: str) -> None:
    stream = new_stream()
    assert (await stream.create(stream_expires_at=moment)).status == 201
    assert (await stream.create(stream_expires_at=moment)).status == 200


async def test_both_kinds_of_expiry_at_once_are_refused(new_stream: NewStream) -> None:
    both = {"stream_ttl": "60", "stream_expires_at": in_seconds(60)}
    assert_problem(await new_stream().create(**both), 400)


async def test_creating_again_must_agree_about_expiry(new_stream: NewStream) -> None:
    sliding, standing, neither = new_stream(), new_stream(), new_stream()
    moment = "2130-01-01T00:00:00Z"
    await sliding.create(stream_ttl="3600")
    await standing.create(stream_expires_at=moment)
    await neither.create()
    assert (await sliding.create(stream_ttl="3600")).status == 200
    assert (await standing.create(stream_expires_at=moment)).status == 200
    for refused in (
        await sliding.create(stream_ttl="7200"),
        await sliding.create(),
        await sliding.create(stream_expires_at=moment),
        await standing.create(stream_expires_at="2131-01-01T00:00:00Z"),
        await standing.create(),
        await neither.create(stream_ttl="3600"),
    ):
        assert_problem(refused, 409)


# What is reported


async def test_metadata_report_the_window_and_not_what_is_left_of_it(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(stream_ttl="3600")
    head = await stream.head()
    assert head["Stream-TTL"] == "3600"
    assert head["Stream-Expires-At"] is None


async def test_metadata_report_the_moment_of_expiry(new_stream: NewStream) -> None:
    stream = new_stream()
    moment = datetime(2130, 1, 1, 12, 30, tzinfo=FIXED)
    await stream.create(stream_expires_at=moment.isoformat())
    head = await stream.head()
    assert datetime.fromisoformat(head.headers["Stream-Expires-At"]) == moment
    assert head["Stream-TTL"] is None


async def test_a_stream_without_expiry_reports_none(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    head = await stream.head()
    assert head["Stream-TTL"] is None
    assert head["Stream-Expires-At"] is None


# The sliding window


async def test_an_idle_stream_is_gone_about_a_second_after_its_window(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(b"1", stream_ttl="1")
    started = time.monotonic()
    await gone(stream)
    assert 0.9 < time.monotonic() - started < 2.5
    assert_problem(await stream.read(), 404)
    assert_problem(await stream.append(b"2"), 404)
    assert_problem(await stream.close(), 404)
    assert_problem(await stream.long_poll("-1"), 404)
    assert_problem(await stream.delete(), 404)


async def test_a_window_of_nothing_is_over_at_once(new_stream: NewStream) -> None:
    stream = new_stream()
    assert (await stream.create(b"1", stream_ttl="0")).status == 201
    await gone(stream)


PRODUCER = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
RENEWALS: dict[str, Callable[[Stream], Awaitable[Answer]]] = {
    "read": lambda stream: stream.read(),
    "read from -1": lambda stream: stream.read("-1"),
    "read from now": lambda stream: stream.read("now"),
    "read what is known": lambda stream: stream.read(if_none_match="*"),
    "long-poll": lambda stream: stream.long_poll("-1"),
    "append": lambda stream: stream.append(b"x"),
    "append again as a producer": lambda stream: stream.append(b"x", **PRODUCER),
    "close": lambda stream: stream.close(),
    "close as a producer": lambda stream: stream.close(**PRODUCER),
}


async def is_kept_alive(stream: Stream, renew: Callable[[Stream], Awaitable[Answer]]) -> bool:
    """Asks several times in each of two windows, so that only renewal can keep it alive."""
    await stream.create(b"x", stream_ttl=str(WINDOW))
    end = time.monotonic() + 2 * WINDOW + 0.5
    while time.monotonic() < end:
        if (await renew(stream)).status == 404:
            return False
        await asyncio.sleep(WINDOW / 8)
    return True


async def test_every_use_renews_the_window(new_stream: NewStream) -> None:
    streams = [new_stream(TEXT) for _ in RENEWALS]
    alive = await asyncio.gather(*map(is_kept_alive, streams, RENEWALS.values()))
    assert [use for use, kept in zip(RENEWALS, alive, strict=True) if not kept] == []
    await asyncio.gather(*map(gone, streams))


async def test_the_name_of_an_expired_stream_is_free_for_anything(new_stream: NewStream) -> None:
    stream = new_stream()
    first = await stream.create(b'["old"]', stream_ttl="1")
    await stream.produce(b'"old"', "p", 5, 0)
    await gone(stream)
    second = await stream.create(b"new", content_type=TEXT, stream_ttl="3600")
    assert second.status == 201
    assert second.log > first.log
    assert (await stream.read()).body == b"new"
    assert_problem(await stream.read(first.next_offset), 410)


# The standing moment


async def test_a_stream_is_gone_when_its_moment_comes_however_much_it_is_used(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    moment = time.time() + 2
    await stream.create(b"x", stream_expires_at=in_seconds(2))

    async def use() -> Answer:
        await stream.append(b"y")
        return await stream.read()

    await eventually(use, lambda answer: answer.status == 404)
    assert -0.1 < time.time() - moment < 1.5


async def test_a_moment_that_has_passed_is_over_at_once(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(b"x", stream_expires_at=in_seconds(-60))
    assert created.status in (201, 400)
    await gone(stream)


# What caches are told


@pytest.fixture
def chunked(new_small_chunk_stream: NewStream) -> NewStream:
    return new_small_chunk_stream


async def complete_and_tail(stream: Stream, **expiry: str) -> tuple[list[Answer], Answer]:
    """Reads of a complete chunk, with and without its log in the URL, and one of the tail."""
    created = await stream.create(b"x" * 1500, **expiry)
    await stream.append(b"y")
    complete = [await stream.read(offset) for offset in (token(created.log, 0), "-1")]
    return complete, await stream.read(created.next_offset)


async def test_a_sliding_window_is_never_cached_for_more_than_a_quarter_of_it(
    chunked: NewStream,
) -> None:
    complete, tail = await complete_and_tail(chunked(BYTES), stream_ttl="100")
    for answer in (*complete, tail):
        assert "immutable" not in answer.headers["Cache-Control"]
        assert "stale" not in answer.headers["Cache-Control"]
        assert seconds_kept(answer, "s-maxage") <= 25
        assert seconds_kept(answer, "max-age") <= 25
    assert seconds_kept(complete[0], "s-maxage") > 0


async def test_a_window_below_four_seconds_is_not_cached_at_all(chunked: NewStream) -> None:
    complete, tail = await complete_and_tail(chunked(BYTES), stream_ttl="3")
    for answer in (*complete, tail):
        assert answer["Cache-Control"] == "no-store"


async def test_nothing_is_cached_beyond_the_moment_of_expiry(chunked: NewStream) -> None:
    complete, tail = await complete_and_tail(chunked(BYTES), stream_expires_at=in_seconds(30))
    for answer in (*complete, tail):
        assert "immutable" not in answer.headers["Cache-Control"]
        assert "stale" not in answer.headers["Cache-Control"]
        assert seconds_kept(answer, "s-maxage") <= 30
        assert seconds_kept(answer, "max-age") <= 30


async def test_the_end_of_a_closed_stream_that_expires_is_not_immutable(
    new_stream: NewStream,
) -> None:
    for expiry in ({"stream_ttl": "100"}, {"stream_expires_at": in_seconds(100)}):
        stream = new_stream(JSON)
        created = await stream.create(b"1", closed=True, **expiry)
        answer = await stream.read(token(created.log, 0))
        assert answer["Stream-Closed"] == "true"
        assert "immutable" not in answer.headers["Cache-Control"]
        assert seconds_kept(answer, "max-age") <= 100


async def test_a_long_poll_of_a_stream_that_expires_is_kept_no_longer_than_it_lives(
    new_stream: NewStream,
) -> None:
    stream = new_stream(JSON)
    created = await stream.create(b"1", stream_ttl="40")
    answer = await stream.long_poll(token(created.log, 0))
    assert max(seconds_kept(answer, "max-age"), seconds_kept(answer, "s-maxage")) <= 10
    assert "stale" not in answer.headers["Cache-Control"]
