"""Catch-up reads: their chunks, their validators, and what caches are told about them."""

import asyncio

import pytest
from support.client import BYTES, JSON, TEXT, NewStream, Stream, assert_problem
from support.model import IMMUTABLE, TAIL, UNNAMED_LOG, ModelStream, token

ZERO = token(0, 0)
KiB = 1024


async def test_reading_no_stream_is_not_found(new_stream: NewStream) -> None:
    stream = new_stream()
    for offset in (None, "-1", "now", ZERO):
        assert_problem(await stream.read(offset), 404)


@pytest.mark.parametrize(("content_type", "empty"), [(TEXT, b""), (JSON, b"[]")])
async def test_an_empty_stream_is_read_as_nothing_yet(
    new_stream: NewStream, content_type: str, empty: bytes
) -> None:
    stream = new_stream(content_type)
    created = await stream.create()
    answer = await stream.read()
    assert answer.status == 200
    assert answer.body == empty
    assert answer["Stream-Up-To-Date"] == "true"
    assert answer["Stream-Closed"] is None
    assert answer.next_offset == created.next_offset


async def test_the_beginning_has_three_names(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[1,2]")
    answers = [await stream.read(offset) for offset in (None, "-1", ZERO)]
    assert {answer.body for answer in answers} == {b"[1,2]"}
    assert len({answer["ETag"] for answer in answers}) == 1


@pytest.mark.parametrize(("content_type", "empty"), [(TEXT, b""), (JSON, b"[]")])
async def test_now_is_the_tail_without_any_data(
    new_stream: NewStream, content_type: str, empty: bytes
) -> None:
    stream = new_stream(content_type)
    created = await stream.create(b"1")
    answer = await stream.read("now")
    assert answer.status == 200
    assert answer.body == empty
    assert answer.next_offset == created.next_offset
    assert answer["Stream-Up-To-Date"] == "true"
    assert answer["ETag"] is None
    assert answer["Cache-Control"] == "no-store"
    await stream.append(b"2")
    assert (await stream.read(answer.next_offset)).body in (b"2", b"[2]")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "Text/Plain",
        "text/html; Charset=ISO-8859-1",
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/vnd.own+json; v=1",
        "image/png",
    ],
)
async def test_the_content_type_comes_back_exactly_as_it_was_given(
    new_stream: NewStream, content_type: str
) -> None:
    stream = new_stream(content_type)
    created = await stream.create(b"1")
    for answer in (created, await stream.read(), await stream.read("now"), await stream.head()):
        assert answer["Content-Type"] == content_type


async def test_a_stream_without_a_content_type_is_bytes(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    created = await stream.ask("PUT", b"\x00\xff")
    assert created.status == 201
    assert (await stream.read())["Content-Type"] == BYTES
    assert (await stream.read()).body == b"\x00\xff"


async def test_a_catch_up_read_carries_no_cursor(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    for offset in (None, "-1", "now"):
        assert (await stream.read(offset))["Stream-Cursor"] is None


async def test_metadata_are_never_kept_by_a_cache(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create(b"1")
    head = await stream.head()
    assert head.status == 200
    assert head.body == b""
    assert head.next_offset == created.next_offset
    assert head["Cache-Control"] == "no-store"
    assert (await new_stream().head()).status == 404


async def test_creation_names_the_place_of_the_stream_in_full(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create()
    assert created["Location"] == stream.url


@pytest.mark.parametrize(
    "path",
    [
        "a/b/c",
        "deep/" * 20 + "down",
        "with%20space",
        "%C3%A9t%C3%A9",
        "a.b-c~d_e",
        "1:2@3!$'()*+;=",
    ],
)
async def test_a_stream_may_have_slashes_and_foreign_letters_in_its_name(
    new_stream: NewStream, path: str
) -> None:
    stream = new_stream(name=f"{new_stream().url.rpartition('/')[2]}/{path}")
    created = await stream.create(b"[1]")
    assert created.status == 201
    async with stream.http.get(created.headers["Location"]) as response:
        assert await response.read() == b"[1]"
    sibling = Stream(stream.http, f"{stream.url}x")
    assert (await sibling.head()).status == 404


# Validators


async def test_the_validator_names_the_log_and_both_ends(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    created = await stream.create(b"abc")
    tag = (await stream.read_at(1)).headers["ETag"]
    log, start, end, *flags = tag.strip('"').split(":")
    assert (int(log), int(start), int(end)) == (created.log, 1, 3)
    assert flags == ["t"]


async def test_the_validator_of_a_complete_chunk_has_no_flags(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    await stream.create(b"x" * 1500)
    await stream.append(b"y")
    tag = (await stream.read()).headers["ETag"]
    assert tag.count(":") == 2


async def test_the_validator_of_a_closed_end_says_closed(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create(b"abc", closed=True)
    assert (await stream.read()).headers["ETag"].endswith(':c"')


async def test_a_reader_who_has_it_already_gets_304_without_a_body(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[1,2]")
    first = await stream.read()
    tag = first.headers["ETag"]
    for wanted in (tag, f"W/{tag}", f'"other", {tag}', f'"other" , W/{tag},"more"', "*"):
        again = await stream.read(if_none_match=wanted)
        assert again.status == 304
        assert again.body == b""
        assert again["ETag"] == tag
        assert again["Cache-Control"] == first["Cache-Control"]


@pytest.mark.parametrize("wanted", ['"other"', '"a", "b"', "", "x", '"', "W/"])
async def test_a_reader_who_has_something_else_gets_it_all(
    new_stream: NewStream, wanted: str
) -> None:
    stream = new_stream()
    await stream.create(b"[1,2]")
    answer = await stream.read(if_none_match=wanted)
    assert answer.status == 200
    assert answer.body == b"[1,2]"


async def test_an_append_changes_the_validator_of_what_ended_at_the_tail(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    created = await stream.create(b"[1]")
    offsets = ("-1", created.next_offset)
    tags = {offset: (await stream.read(offset)).headers["ETag"] for offset in offsets}
    await stream.append(b"2")
    for offset, tag in tags.items():
        assert (await stream.read(offset, if_none_match=tag)).status == 200


async def test_a_chunk_that_stops_being_the_tail_stops_saying_up_to_date(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create(b"x" * 1024)
    at_tail = await stream.read(token(created.log, 0))
    assert at_tail["Stream-Up-To-Date"] == "true"
    await stream.append(b"y")
    complete = await stream.read(token(created.log, 0), if_none_match=at_tail.headers["ETag"])
    assert complete.status == 200
    assert complete["Stream-Up-To-Date"] is None
    assert complete.next_offset == at_tail.next_offset


# What caches are told


async def test_a_complete_chunk_is_immutable_where_the_url_names_its_log(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create(b"x" * 1500)
    await stream.append(b"y")
    for position in (0, 1, 1499):
        answer = await stream.read(token(created.log, position))
        assert answer["Cache-Control"] == IMMUTABLE
        assert answer["Stream-Up-To-Date"] is None


@pytest.mark.parametrize("offset", [None, "-1", ZERO])
async def test_a_complete_chunk_is_kept_shortly_where_the_url_does_not_name_its_log(
    new_small_chunk_stream: NewStream, offset: str | None
) -> None:
    stream = new_small_chunk_stream(BYTES)
    await stream.create(b"x" * 1500)
    await stream.append(b"y")
    assert (await stream.read(offset))["Cache-Control"] == UNNAMED_LOG


async def test_what_ends_at_the_tail_is_kept_for_one_second(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create(b"x" * 1024)
    offsets = [None, "-1", ZERO, token(created.log, 0), token(created.log, 5), created.next_offset]
    for offset in offsets:
        answer = await stream.read(offset)
        assert answer["Cache-Control"] == TAIL
        assert answer["Stream-Up-To-Date"] == "true"


async def test_the_end_of_a_closed_stream_is_kept_as_a_complete_chunk_is(
    new_stream: NewStream,
) -> None:
    stream = new_stream(BYTES)
    created = await stream.create(b"x", closed=True)
    for offset in (token(created.log, 0), created.next_offset):
        assert (await stream.read(offset))["Cache-Control"] == IMMUTABLE
    for offset in (None, "-1", ZERO):
        assert (await stream.read(offset))["Cache-Control"] == UNNAMED_LOG
    assert (await stream.read("now"))["Cache-Control"] == "no-store"


# Chunks


async def test_a_read_ends_at_the_first_append_that_reaches_the_grid(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    await stream.create()
    for size in (1000, 23, 1, 1, 2000, 500, 600):
        await stream.append(b"x" * size)
    ends = [answer.position for answer in await stream.read_to_the_tail()]
    assert ends == [1024, 3025, 3525, 4125]


async def test_an_append_over_several_grid_lines_is_one_chunk(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create(b"x" * (10 * KiB))
    await stream.append(b"y")
    for position in (0, 1, 1024, 5000, 10 * KiB - 1):
        answer = await stream.read(token(created.log, position))
        assert answer.position == 10 * KiB
        assert len(answer.body) == 10 * KiB - position


async def test_the_messages_of_one_batch_fall_into_as_many_chunks_as_they_fill(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    model = ModelStream(JSON, KiB, (await stream.create()).log)
    batches = [
        [b'"%s"' % (b"a" * size) for size in (100, 5000, 100, 900, 21, 1, 2500)],
        [b'"%s"' % (b"b" * 97)] * 100,
        [b'"%s"' % (b"c" * (KiB - 3))] * 5,
    ]
    for batch in batches:
        await stream.append(b"[" + b",".join(batch) + b"]")
        model.add(batch)
    for start in [0, *model.ends]:
        expected = model.read(start)
        answer = await stream.read(token(model.log, start))
        assert answer.position == expected.end
        assert answer.body == expected.body
    assert len(await stream.read_to_the_tail()) > 10


async def test_readers_who_start_anywhere_come_to_ask_for_the_same_urls(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create()
    for n in range(40):
        await stream.append(bytes([n]) * 300)
    from_start = [answer.next_offset for answer in await stream.read_to_the_tail()]
    for position in (1, 299, 1024, 3333, 8191, 11_999):
        elsewhere = await stream.read_to_the_tail(token(created.log, position))
        assert from_start[-len(elsewhere) :] == [answer.next_offset for answer in elsewhere]


async def test_a_chunk_is_the_same_whether_read_while_growing_or_afterwards(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    created = await stream.create()
    follower, position = b"", token(created.log, 0)
    for n in range(60):
        await stream.append(bytes([n]) * 101)
        answer = await stream.read(position)
        follower, position = follower + answer.body, answer.next_offset
    follower += b"".join(answer.body for answer in await stream.read_to_the_tail(position))
    assert follower == b"".join(bytes([n]) * 101 for n in range(60))
    assert follower == b"".join(answer.body for answer in await stream.read_to_the_tail())


async def test_many_readers_of_one_long_stream_all_get_it_whole(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream(BYTES)
    await stream.create()
    written = bytes(range(256)) * 200
    for at in range(0, len(written), 777):
        await stream.append(written[at : at + 777])
    readings = await asyncio.gather(*(stream.read_to_the_tail() for _ in range(20)))
    for answers in readings:
        assert b"".join(answer.body for answer in answers) == written
