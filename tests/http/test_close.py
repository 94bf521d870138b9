"""Closing: once, for good, and seen by every reader who has reached the end."""

import asyncio

import pytest
from support.client import JSON, TEXT, NewStream, assert_problem


async def test_a_stream_is_closed_without_a_body(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(b"all of it")
    answer = await stream.close()
    assert answer.status == 204
    assert answer["Stream-Closed"] == "true"
    assert answer.next_offset == created.next_offset


async def test_closing_again_changes_nothing_and_succeeds(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create(b"x")
    first, second = await stream.close(), await stream.close()
    assert second.status == 204
    assert second["Stream-Closed"] == "true"
    assert second.next_offset == first.next_offset


async def test_the_last_append_closes_in_the_same_step(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create(b"first, ")
    answer = await stream.close(b"last")
    assert answer.status == 204
    assert answer["Stream-Closed"] == "true"
    read = await stream.read()
    assert read.body == b"first, last"
    assert read["Stream-Closed"] == "true"
    assert read.next_offset == answer.next_offset


@pytest.mark.parametrize("headers", [{}, {"stream_closed": "true"}], ids=["append", "close"])
async def test_an_append_to_a_closed_stream_is_refused_with_its_end(
    new_stream: NewStream, headers: dict[str, str]
) -> None:
    stream = new_stream(TEXT)
    await stream.create(b"all of it")
    closed = await stream.close()
    refused = await stream.append(b"more", **headers)
    assert_problem(refused, 409)
    assert refused["Stream-Closed"] == "true"
    assert refused.next_offset == closed.next_offset
    assert (await stream.read()).body == b"all of it"


async def test_being_closed_is_said_before_anything_else_that_is_wrong(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.append(b"x", stream_seq="5")
    await stream.close()
    for refused in (
        await stream.append(b"{}", content_type=JSON),
        await stream.append(b"y", stream_seq="1"),
        await stream.produce(b"y", "unknown", 0, 7),
    ):
        assert_problem(refused, 409)
        assert refused["Stream-Closed"] == "true"


@pytest.mark.parametrize("value", ["true", "TRUE", "True", "tRuE"])
async def test_the_value_true_is_read_in_any_case(new_stream: NewStream, value: str) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.append(b"x", stream_closed=value))["Stream-Closed"] == "true"


@pytest.mark.parametrize("value", ["false", "yes", "1", "", "truee", "true, true"])
async def test_any_other_value_is_as_if_the_header_were_absent(
    new_stream: NewStream, value: str
) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(stream_closed=value)
    assert created.status == 201
    appended = await stream.append(b"x", stream_closed=value)
    assert appended.status == 204
    assert_problem(await stream.append(b"", stream_closed=value), 400)
    for answer in (created, appended, await stream.head()):
        assert answer["Stream-Closed"] is None


async def test_closing_without_a_body_ignores_the_content_type(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.close(content_type=JSON)).status == 204


async def test_closing_no_stream_is_not_found(new_stream: NewStream) -> None:
    assert_problem(await new_stream().close(), 404)


async def test_a_refused_last_append_does_not_close(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    await stream.append(b"1", stream_seq="5")
    assert_problem(await stream.close(b"broken"), 400)
    assert_problem(await stream.close(b"2", content_type=TEXT), 409)
    assert_problem(await stream.close(b"2", stream_seq="5"), 409)
    assert (await stream.append(b"2")).status == 204


async def test_a_closed_stream_can_be_deleted_and_its_name_used_again(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create(b"old", closed=True)
    assert (await stream.delete()).status == 204
    assert (await stream.head()).status == 404
    assert (await stream.create()).status == 201
    assert (await stream.append(b"new")).status == 204


# Creation


@pytest.mark.parametrize("body", [None, b"the whole content"])
async def test_a_stream_may_be_created_closed(new_stream: NewStream, body: bytes | None) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(body, closed=True)
    assert created.status == 201
    assert created["Stream-Closed"] == "true"
    read = await stream.read()
    assert read.body == (body or b"")
    assert read["Stream-Closed"] == "true"
    assert_problem(await stream.append(b"more"), 409)


@pytest.mark.parametrize(
    ("is_closed", "asked_closed", "status"),
    [(False, False, 200), (True, True, 200), (False, True, 409), (True, False, 409)],
)
async def test_creating_again_must_agree_about_closure(
    new_stream: NewStream, is_closed: bool, asked_closed: bool, status: int
) -> None:
    stream = new_stream(TEXT)
    await stream.create(closed=is_closed)
    again = await stream.create(closed=asked_closed)
    assert again.status == status
    assert (await stream.head())["Stream-Closed"] == ("true" if is_closed else None)


async def test_closure_by_append_counts_when_a_stream_is_created_again(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.close()
    assert_problem(await stream.create(), 409)
    assert (await stream.create(closed=True)).status == 200


# Readers


async def test_metadata_say_whether_a_stream_is_closed(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.head())["Stream-Closed"] is None
    await stream.close()
    assert (await stream.head())["Stream-Closed"] == "true"


@pytest.mark.parametrize(("content_type", "empty"), [(TEXT, b""), (JSON, b"[]")])
async def test_at_the_end_of_a_closed_stream_a_read_is_empty_and_says_so(
    new_stream: NewStream, content_type: str, empty: bytes
) -> None:
    stream = new_stream(content_type)
    await stream.create(b"1")
    closed = await stream.close()
    for offset in (closed.next_offset, "now"):
        answer = await stream.read(offset)
        assert answer.status == 200
        assert answer.body == empty
        assert answer["Stream-Closed"] == "true"
        assert answer["Stream-Up-To-Date"] == "true"
        assert answer.next_offset == closed.next_offset


async def test_only_the_read_that_reaches_the_end_says_closed(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(TEXT)
    await stream.create()
    for _ in range(5):
        await stream.append(b"x" * 600)
    await stream.close()
    answers = await stream.read_to_the_tail()
    assert len(answers) == 3
    assert [answer["Stream-Closed"] for answer in answers] == [None, None, "true"]
    assert [answer["Stream-Up-To-Date"] for answer in answers] == [None, None, "true"]


async def test_closing_changes_the_validator_so_that_nobody_misses_it(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(b"x")
    for offset in (None, created.next_offset):
        before = await stream.read(offset)
        assert (await stream.read(offset, if_none_match=before.headers["ETag"])).status == 304
    tags = [(await stream.read(offset)).headers["ETag"] for offset in (None, created.next_offset)]
    await stream.close()
    for offset, tag in zip((None, created.next_offset), tags, strict=True):
        after = await stream.read(offset, if_none_match=tag)
        assert after.status == 200
        assert after["Stream-Closed"] == "true"
        assert after.headers["ETag"] != tag


# Producers


async def test_a_producer_closes_with_its_last_append(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answer = await stream.produce(b"final", "p", 0, 0, stream_closed="true")
    assert answer.status == 200
    assert answer["Stream-Closed"] == "true"
    assert answer["Producer-Seq"] == "0"


async def test_a_retry_of_the_closing_append_succeeds_and_the_first_body_stays(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    first = await stream.produce(b"first", "p", 0, 0, stream_closed="true")
    retry = await stream.produce(b"second", "p", 0, 0, stream_closed="true")
    assert retry.status == 204
    assert retry["Stream-Closed"] == "true"
    assert retry.next_offset == first.next_offset
    assert (await stream.read()).body == b"first"


@pytest.mark.parametrize(("producer", "seq"), [("p", 1), ("q", 0)])
async def test_any_other_producers_append_to_a_closed_stream_is_refused(
    new_stream: NewStream, producer: str, seq: int
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"final", "p", 0, 0, stream_closed="true")
    refused = await stream.produce(b"more", producer, 0, seq, stream_closed="true")
    assert_problem(refused, 409)
    assert refused["Stream-Closed"] == "true"


async def test_a_producer_may_close_without_a_last_append(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"x", "p", 0, 0)
    said = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "1"}
    for answer in (await stream.close(**said), await stream.close(**said)):
        assert answer.status == 204
        assert answer["Stream-Closed"] == "true"
        assert answer["Producer-Epoch"] == "0"
        assert answer["Producer-Seq"] == "1"


async def test_a_producer_of_a_past_epoch_cannot_close(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"x", "p", 4, 0)
    stale = {"producer_id": "p", "producer_epoch": "3", "producer_seq": "0"}
    refused = await stream.close(**stale)
    assert_problem(refused, 403)
    assert refused["Producer-Epoch"] == "4"
    assert (await stream.head())["Stream-Closed"] is None


async def test_of_racing_last_appends_exactly_one_is_the_last(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answers = await asyncio.gather(*(stream.close(b"%d" % n) for n in range(10)))
    assert sorted(answer.status for answer in answers) == [204] + [409] * 9
    winner = next(n for n, answer in enumerate(answers) if answer.status == 204)
    assert (await stream.read()).body == b"%d" % winner
