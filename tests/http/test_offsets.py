"""An offset is a log and a position in it; each names one point for ever, or names nothing."""

import re
import time
from urllib.parse import quote

import pytest
from support.client import BYTES, JSON, NewStream, assert_problem
from support.model import parse_token, token

ZERO = "0000000000000000_0000000000000000"
NINES = "9999999999999999_9999999999999999"
LOG_EPOCH_MS = 1_728_432_000_000


async def test_an_offset_is_two_numbers_of_sixteen_digits(new_stream: NewStream) -> None:
    stream = new_stream()
    created = await stream.create(b"[1,2]")
    assert re.fullmatch(r"[0-9]{16}_[0-9]{16}", created.next_offset)


async def test_a_new_stream_begins_at_position_zero_of_a_log_of_its_own(
    new_stream: NewStream,
) -> None:
    one, other = await new_stream().create(), await new_stream().create()
    assert one.position == other.position == 0
    assert one.log != other.log


async def test_logs_grow_with_time_even_if_everything_before_is_forgotten(
    new_stream: NewStream,
) -> None:
    a_minute_ago = time.time_ns() // 1_000_000 - 60_000
    logs = [(await new_stream().create()).log for _ in range(3)]
    assert logs == sorted(set(logs))
    assert logs[0] > (a_minute_ago - LOG_EPOCH_MS) * 4096


async def test_positions_count_the_bytes_of_a_byte_stream(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    assert (await stream.create(b"abc")).position == 3
    assert (await stream.append(b"\x00" * 1000)).position == 1003


async def test_positions_count_each_json_message_and_one_separator(new_stream: NewStream) -> None:
    stream = new_stream()
    assert (await stream.create(b'[1,"two"]')).position == len('1,"two",')
    assert (await stream.append(b"3")).position == len('1,"two",3,')
    assert (await stream.append(b' [ {"four": 4} ] ')).position == len('1,"two",3,{"four": 4},')


async def test_offsets_sort_as_text_in_the_order_of_the_appends(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    await stream.create()
    offsets = [(await stream.append(b"x" * 7)).next_offset for _ in range(30)]
    assert offsets == sorted(set(offsets))


async def test_every_offset_ever_given_resumes_at_the_byte_after_it(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    created = await stream.create()
    offsets, written = [created.next_offset], b""
    for piece in (b"one", b"2" * 300, b"\xff", b"four"):
        offsets.append((await stream.append(piece)).next_offset)
        written += piece
    for offset in offsets:
        _, position = parse_token(offset)
        assert (await stream.read(offset)).body == written[position:]


async def test_a_byte_stream_can_be_read_from_any_position(new_stream: NewStream) -> None:
    stream = new_stream(BYTES)
    written = b"0123456789"
    await stream.create(written[:4])
    await stream.append(written[4:])
    for position in range(len(written) + 1):
        assert (await stream.read_at(position)).body == written[position:]


async def test_each_message_of_a_batch_begins_at_an_offset(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[11,22,33]")
    assert (await stream.read_at(0)).body == b"[11,22,33]"
    assert (await stream.read_at(3)).body == b"[22,33]"
    assert (await stream.read_at(6)).body == b"[33]"
    assert (await stream.read_at(9)).body == b"[]"


async def test_an_offset_inside_a_json_message_is_refused(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b'["abc",[1,2],7]')
    boundaries = {0, 6, 12, 14}
    for position in set(range(15)) - boundaries:
        assert_problem(await stream.read_at(position), 400)


@pytest.mark.parametrize("live", ["long-poll", "sse"])
async def test_an_offset_inside_a_json_message_is_refused_to_followers_too(
    new_stream: NewStream, live: str
) -> None:
    stream = new_stream()
    await stream.create(b'["abc"]')
    inside = await stream.token(2)
    assert_problem(await stream.read(query=f"offset={inside}&live={live}"), 400)


@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
@pytest.mark.parametrize("content_type", [JSON, BYTES])
async def test_an_offset_beyond_the_tail_is_refused(
    new_stream: NewStream, content_type: str, live: str
) -> None:
    stream = new_stream(content_type)
    created = await stream.create(b"123")
    beyond = token(created.log, created.position + 1)
    assert_problem(await stream.read(query=f"offset={beyond}{live}"), 400)


async def test_the_all_zero_offset_is_the_beginning_of_every_stream(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[1,2]")
    answer = await stream.read(ZERO)
    assert answer.body == b"[1,2]"
    assert answer.log != 0


@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
async def test_an_offset_of_another_streams_log_is_gone(new_stream: NewStream, live: str) -> None:
    older, stream, newer = new_stream(), new_stream(), new_stream()
    foreign = [(await older.create(b"1")).next_offset]
    await stream.create(b"[1,2]")
    foreign.append((await newer.create(b"1")).next_offset)
    foreign += [token(parse_token(offset)[0], 0) for offset in foreign]
    for offset in foreign:
        assert_problem(await stream.read(query=f"offset={offset}{live}"), 410)


async def test_a_reader_whose_log_is_gone_is_told_where_to_go_on(new_stream: NewStream) -> None:
    other, stream = new_stream(), new_stream()
    foreign = (await other.create(b"1")).next_offset
    await stream.create(b"[1,2]")
    gone = await stream.read(foreign)
    assert (await stream.read(gone.next_offset)).status == 200


async def test_a_stream_created_anew_never_accepts_an_offset_of_the_one_before(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    first = await stream.create(b"[1,2]")
    await stream.delete()
    second = await stream.create(b"[3,4]")
    assert second.log > first.log
    assert second.position == first.position
    assert_problem(await stream.read(first.next_offset), 410)
    assert_problem(await stream.read(token(first.log, 0)), 410)
    assert (await stream.read(second.next_offset)).status == 200


async def test_an_offset_that_nobody_can_have_been_given_is_malformed(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(NINES), 400)


@pytest.mark.parametrize(
    "offset",
    [
        "",
        " ",
        "0,1",
        "/",
        "..",
        "../../etc/passwd",
        "\0",
        "-2",
        "--1",
        "-1 ",
        "-1\n",
        "NOW",
        "Now",
        "now\n",
        "0",
        "1",
        "abc",
        "0_0",
        "0000000000000000",
        ZERO + "\n",
        " " + ZERO,
        ZERO + "0",
        "0" + ZERO,
        ZERO.replace("_", "-"),
        ZERO.replace("_", ""),
        "+" + ZERO[1:],
        "-" + ZERO[1:],
        "000000000000000x_0000000000000000",
        "\u0660" * 16 + "_" + "\u0660" * 16,
        "0" * 15 + "²_" + "0" * 16,
        "é",
        "x" * 3000,
        "{}",
        "1e3",
    ],
    ids=lambda offset: repr(offset[:40]),
)
async def test_a_malformed_offset_is_refused(new_stream: NewStream, offset: str) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(query=f"offset={quote(offset, safe='')}"), 400)


@pytest.mark.parametrize("raw", ["%", "%zz", "%ff", "%c3%28", "-1%00", "+-1"])
async def test_an_offset_that_is_no_text_is_refused(new_stream: NewStream, raw: str) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(query=f"offset={raw}"), 400)


@pytest.mark.parametrize(
    "query", ["offset=-1&offset=-1", "offset=-1&offset=now", "offset=&offset="]
)
async def test_two_offsets_are_refused(new_stream: NewStream, query: str) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(query=query), 400)


async def test_unknown_query_parameters_are_ignored(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert (await stream.read(query="offset=-1&color=green&offsets=3")).body == b"[1]"


async def test_an_unknown_way_of_following_is_refused(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    assert_problem(await stream.read(query="offset=-1&live=carrier-pigeon"), 400)


async def test_sentinels_are_never_given_out_as_offsets(new_stream: NewStream) -> None:
    stream = new_stream()
    answers = [
        await stream.create(),
        await stream.read(),
        await stream.read("-1"),
        await stream.read("now"),
        await stream.head(),
    ]
    assert len({answer.next_offset for answer in answers}) == 1
    assert parse_token(answers[0].next_offset)[0] > 0
