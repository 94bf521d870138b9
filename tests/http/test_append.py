"""Appends: what is taken, what is refused, and that a refusal leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from support.client import BYTES, JSON, TEXT, NewStream, Stream, assert_problem
from support.model import token

MiB = 1024 * 1024
LARGEST_INTEGER = 2**53 - 1


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def everything(stream: Stream) -> bytes:
    return b"".join(answer.body for answer in await stream.read_to_the_tail())


async def test_an_append_answers_204_with_the_new_tail(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answer = await stream.append(b"hello")
    assert answer.status == 204
    assert answer.body == b""
    assert answer.next_offset == (await stream.head()).next_offset
    assert answer["Stream-Closed"] is None


async def test_what_was_appended_is_read_at_once_over_any_connection(
    new_stream: NewStream,
) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    written = b""
    for n in range(10):
        await stream.append(b"%d;" % n)
        written += b"%d;" % n
        answers = await asyncio.gather(*(stream.read() for _ in range(8)))
        assert {answer.body for answer in answers} == {written}


async def test_an_append_to_no_stream_is_not_found(new_stream: NewStream) -> None:
    assert_problem(await new_stream().append(b"1"), 404)


async def test_an_empty_append_is_refused(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert_problem(await stream.append(b""), 400)
    assert_problem(await stream.append(in_pieces()), 400)


async def test_an_append_without_a_content_type_is_refused(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert_problem(await stream.ask("POST", b"hello"), 400)
    assert (await stream.head()).position == 0


async def test_an_append_of_another_content_type_is_a_conflict(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert_problem(await stream.append(b"{}", content_type=JSON), 409)
    assert (await stream.head()).position == 0


@pytest.mark.parametrize("spelling", ["TEXT/PLAIN", "Text/Plain", "text/plain; charset=utf-8"])
async def test_content_types_are_compared_by_what_they_mean(
    new_stream: NewStream, spelling: str
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.append(b"hello", content_type=spelling)).status == 204
    assert (await stream.read())["Content-Type"] == TEXT


# Bodies


async def test_a_body_in_chunked_transfer_encoding_is_one_append(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    pieces = [bytes([n % 256]) * (n % 97 + 1) for n in range(500)]
    answer = await stream.append(in_pieces(*pieces))
    assert answer.status == 204
    assert answer.position == sum(map(len, pieces))
    assert (await stream.read()).body == b"".join(pieces)


async def test_a_json_message_may_be_cut_anywhere_by_chunked_transfer_encoding(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create()
    body = '[{"é":"\\u00e9"},1.10]'.encode()
    await stream.append(in_pieces(*(body[at : at + 1] for at in range(len(body)))))
    assert (await stream.read()).body == body


async def test_five_mebibytes_in_one_append_come_back_byte_for_byte(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    body = bytes(range(256)) * (5 * MiB // 256)
    appended = await stream.append(body)
    assert appended.status == 204
    answers = await stream.read_to_the_tail()
    assert b"".join(answer.body for answer in answers) == body
    assert answers[-1].next_offset == appended.next_offset


async def test_an_append_is_never_divided_between_two_chunks_but_by_its_reader(
    new_stream: NewStream,
) -> None:
    stream = new_stream(BYTES)
    created = await stream.create(b"a" * (3 * MiB))
    await stream.append(b"b" * (2 * MiB))
    await stream.append(b"c")
    whole = await stream.read(token(created.log, 0))
    assert whole.position == 5 * MiB
    middle = await stream.read(token(created.log, 4 * MiB))
    assert middle.body == b"b" * MiB
    assert middle.next_offset == whole.next_offset


async def test_every_byte_value_survives(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    for value in range(256):
        await stream.append(bytes([value]))
    assert (await stream.read()).body == bytes(range(256))


async def test_a_body_that_stops_half_way_leaves_nothing_behind(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create(b"before")
    address = urlsplit(stream.url)
    for framing in (
        "Content-Length: 1000\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf",
    ):
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Content-Type: {BYTES}\r\n{framing}".encode()
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    await stream.append(b", after")
    assert (await stream.read()).body == b"before, after"


async def test_a_body_too_large_is_refused_before_it_is_sent(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    address = urlsplit(stream.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: {BYTES}\r\nContent-Length: 1000000000000\r\n\r\n".encode()
    )
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


# Stream-Seq


async def test_stream_seq_must_grow_from_append_to_append(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.append(b"1", stream_seq="001")).status == 204
    assert (await stream.append(b"2", stream_seq="002")).status == 204
    assert_problem(await stream.append(b"x", stream_seq="001"), 409)
    assert_problem(await stream.append(b"x", stream_seq="002"), 409)
    assert (await stream.append(b"3", stream_seq="003")).status == 204
    assert (await stream.read()).body == b"123"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("2", "10", 409),
        ("09", "10", 204),
        ("a", "B", 409),
        ("B", "a", 204),
        ("a", "aa", 204),
        ("aa", "a", 409),
        ("9", "~", 204),
    ],
)
async def test_stream_seq_is_compared_byte_by_byte(
    new_stream: NewStream, first: str, second: str, status: int
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.append(b"1", stream_seq=first)
    assert (await stream.append(b"2", stream_seq=second)).status == status


async def test_appends_without_stream_seq_stand_between_those_with_one(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.append(b"1", stream_seq="5")
    assert (await stream.append(b"2")).status == 204
    assert_problem(await stream.append(b"x", stream_seq="5"), 409)
    assert (await stream.append(b"3", stream_seq="6")).status == 204


async def test_a_refused_append_does_not_advance_stream_seq(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    await stream.append(b"1", stream_seq="1")
    assert_problem(await stream.append(b"broken", stream_seq="9"), 400)
    assert_problem(await stream.append(b"2", stream_seq="9", content_type=TEXT), 409)
    assert (await stream.append(b"2", stream_seq="2")).status == 204


async def test_of_writers_racing_with_one_stream_seq_exactly_one_wins(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answers = await asyncio.gather(*(stream.append(b"x", stream_seq="1") for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [204] + [409] * 19
    assert (await stream.read()).body == b"x"


# Idempotent producers


async def test_a_producers_append_answers_200_and_its_retry_204(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    new, retry = [await stream.produce(b"one", "p", 0, 0) for _ in range(2)]
    assert (new.status, retry.status) == (200, 204)
    for answer in (new, retry):
        assert answer["Producer-Epoch"] == "0"
        assert answer["Producer-Seq"] == "0"
        assert answer["Stream-Next-Offset"] is not None
    assert (await stream.read()).body == b"one"


async def test_a_retry_is_told_the_highest_sequence_number_accepted(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    for seq in range(3):
        await stream.produce(b"%d" % seq, "p", 0, seq)
    retry = await stream.produce(b"1", "p", 0, 1)
    assert retry.status == 204
    assert retry["Producer-Seq"] == "2"
    assert (await stream.read()).body == b"012"


async def test_a_retry_with_another_body_leaves_the_first_one(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"first", "p", 0, 0)
    assert (await stream.produce(b"second", "p", 0, 0)).status == 204
    assert (await stream.read()).body == b"first"


async def test_a_retry_counts_as_one_even_when_its_stream_seq_is_old(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert (await stream.produce(b"one", "p", 0, 0, stream_seq="1")).status == 200
    assert (await stream.produce(b"one", "p", 0, 0, stream_seq="1")).status == 204


async def test_a_gap_in_the_sequence_is_refused_with_what_was_expected(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"0", "p", 0, 0)
    answer = await stream.produce(b"2", "p", 0, 2)
    assert_problem(answer, 409)
    assert answer["Producer-Expected-Seq"] == "1"
    assert answer["Producer-Received-Seq"] == "2"
    assert (await stream.produce(b"1", "p", 0, 1)).status == 200
    assert (await stream.read()).body == b"01"


async def test_a_producer_begins_at_sequence_zero(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answer = await stream.produce(b"1", "p", 0, 1)
    assert_problem(answer, 409)
    assert answer["Producer-Expected-Seq"] == "0"


async def test_append_from_a_stale_epoch_is_refused_with_the_current_one(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"old", "p", 0, 0)
    assert (await stream.produce(b"new", "p", 3, 0)).status == 200
    zombie = await stream.produce(b"zombie", "p", 0, 1)
    assert_problem(zombie, 403)
    assert zombie["Producer-Epoch"] == "3"
    assert (await stream.read()).body == b"oldnew"


async def test_a_new_epoch_begins_at_sequence_zero(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"0", "p", 0, 0)
    assert_problem(await stream.produce(b"x", "p", 1, 1), 400)
    assert (await stream.produce(b"1", "p", 0, 1)).status == 200
    assert (await stream.produce(b"2", "p", 1, 0)).status == 200


async def test_producers_do_not_know_of_each_other(new_stream: NewStream) -> None:
    stream, other = new_stream(TEXT), new_stream(TEXT)
    await stream.create()
    await other.create()
    assert (await stream.produce(b"a", "a", 5, 0)).status == 200
    assert (await stream.produce(b"b", "b", 0, 0)).status == 200
    assert (await other.produce(b"a", "a", 0, 0)).status == 200
    assert (await stream.read()).body == b"ab"


async def test_producers_are_forgotten_with_their_stream(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.produce(b"x", "p", 7, 0)
    await stream.delete()
    await stream.create()
    assert (await stream.produce(b"x", "p", 0, 0)).status == 200


async def test_the_largest_epoch_is_the_largest_integer_of_javascript(
    new_stream: NewStream,
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answer = await stream.produce(b"x", "p", LARGEST_INTEGER, 0)
    assert answer.status == 200
    assert answer["Producer-Epoch"] == str(LARGEST_INTEGER)
    stale = await stream.produce(b"x", "p", LARGEST_INTEGER - 1, 0)
    assert stale.status == 403
    assert stale["Producer-Epoch"] == str(LARGEST_INTEGER)


@pytest.mark.parametrize(
    "number", ["", "1abc", "0xyz", "1e3", "-1", "+1", "1.0", "٣", " ", "9" * 16, str(2**53)]
)
async def test_a_malformed_producer_number_is_refused(new_stream: NewStream, number: str) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert_problem(await stream.produce(b"x", "p", number, 0), 400)
    assert_problem(await stream.produce(b"x", "p", 0, number), 400)
    assert (await stream.head()).position == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"producer_id": "p"},
        {"producer_epoch": "0"},
        {"producer_seq": "0"},
        {"producer_id": "p", "producer_epoch": "0"},
        {"producer_id": "p", "producer_seq": "0"},
        {"producer_epoch": "0", "producer_seq": "0"},
        {"producer_id": "", "producer_epoch": "0", "producer_seq": "0"},
    ],
    ids=str,
)
async def test_producer_headers_come_all_or_not_at_all(
    new_stream: NewStream, headers: dict[str, str]
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    assert_problem(await stream.append(b"x", **headers), 400)
    assert_problem(await stream.close(**headers), 400)
    assert (await stream.head())["Stream-Closed"] is None


async def test_retries_that_race_are_appended_once(new_stream: NewStream) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    answers = await asyncio.gather(*(stream.produce(b"x", "p", 0, 0) for _ in range(50)))
    assert sorted(answer.status for answer in answers) == [200] + [204] * 49
    assert (await stream.read()).body == b"x"


# Many writers


async def test_of_many_writers_every_append_is_there_once_where_its_answer_says(
    new_stream: NewStream,
) -> None:
    stream = new_stream(BYTES)
    log = (await stream.create()).log
    bodies = [b"<%d:%s>" % (n, b"." * (n % 50)) for n in range(300)]
    answers = await asyncio.gather(*(stream.append(body) for body in bodies))
    written = (await stream.read()).body
    assert len(written) == sum(map(len, bodies))
    for body, answer in zip(bodies, answers, strict=True):
        assert answer.log == log
        assert written[answer.position - len(body) : answer.position] == body


async def test_a_batch_is_never_parted_by_another_writer(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    batches = [[[writer, n] for n in range(20)] for writer in range(40)]
    await asyncio.gather(*(stream.append(str(batch).encode()) for batch in batches))
    messages = (await stream.read()).json()
    read = [messages[at : at + 20] for at in range(0, len(messages), 20)]
    assert sorted(read) == batches


async def test_readers_during_writes_see_only_whole_appends(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()

    async def write() -> None:
        for n in range(50):
            await stream.append(bytes([n]) * 100)

    async def watch(writing: asyncio.Task[None]) -> None:
        seen = b""
        while not writing.done():
            body = (await stream.read()).body
            assert body.startswith(seen)
            assert len(body) % 100 == 0
            seen = body

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, watch(writing), watch(writing))
    assert await everything(stream) == b"".join(bytes([n]) * 100 for n in range(50))
