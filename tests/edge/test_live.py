"""Live reads through Varnish: many readers who ask the same cost the server one answer."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest
from support.client import Answer, Stream, eventually, live_followers, unique_name
from support.edge_stack import Stack
from support.joiner import Joiner

CROWD = 60


@pytest.fixture
async def streams(embedded_stack: Stack, at: Callable[..., Stream]) -> tuple[Stream, Stream]:
    """One stream, at the server and at the edge."""
    name = unique_name()
    stream = at(embedded_stack.server.url, name)
    await stream.create()
    return stream, at(embedded_stack.edges["varnish"].url, name)


async def waiting(stream: Stream, count: int) -> None:
    await eventually(lambda: live_followers(stream), lambda found: found >= count)


async def test_long_polls_on_one_url_cost_one_request_for_each_message(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    direct, edge = streams
    offset, cursor = (await direct.head()).next_offset, None
    for number in range(3):
        before = embedded_stack.reads()
        polls = [asyncio.create_task(edge.long_poll(offset, cursor)) for _ in range(CROWD)]
        await waiting(direct, 1)
        await direct.append(b"%d" % number)
        answers = await asyncio.gather(*polls)
        assert {answer.body for answer in answers} == {b"[%d]" % number}
        offset, cursor = only(answers, "Stream-Next-Offset"), only(answers, "Stream-Cursor")
        assert (embedded_stack.reads() - before).total() <= 5


def only(answers: list[Answer], header: str) -> str:
    [value] = {answer[header] for answer in answers}
    assert value is not None
    return value


async def test_long_polls_that_nothing_came_for_cost_one_request_and_do_not_loop(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    direct, edge = streams
    offset, cursor = (await direct.head()).next_offset, None
    before = embedded_stack.reads()
    cursors = []
    for _ in range(2):
        answers = await asyncio.gather(*(edge.long_poll(offset, cursor) for _ in range(CROWD)))
        assert {answer.status for answer in answers} == {204}
        cursor = only(answers, "Stream-Cursor")
        cursors.append(int(cursor))
    assert cursors[0] < cursors[1]
    assert (embedded_stack.reads() - before)["long_poll_empty"] <= 4


async def test_sse_readers_on_one_url_share_one_connection(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    direct, edge = streams
    before = embedded_stack.reads()
    offset = (await direct.head()).next_offset
    crowd = [Joiner(edge, offset=offset) for _ in range(CROWD)]
    following = [asyncio.create_task(joiner.follow(20)) for joiner in crowd]
    await waiting(direct, 1)
    for number in range(20):
        await direct.append(b"%d" % number)
    await asyncio.gather(*following)
    assert all(joiner.messages == list(range(20)) for joiner in crowd)
    assert (embedded_stack.reads() - before)["sse"] <= 5


async def test_who_joins_a_shared_answer_late_gets_everything_from_its_offset(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    direct, edge = streams
    offset = (await direct.head()).next_offset
    async with edge.follow(offset) as first:
        await first.until_caught_up()
        for number in range(10):
            await direct.append(b"%d" % number)
        before = embedded_stack.reads()
        late = Joiner(edge, offset=offset)
        await late.follow(10)
    assert late.messages == list(range(10))
    assert (embedded_stack.reads() - before)["sse"] <= 1


async def test_the_first_reader_may_leave_and_the_others_stay(
    streams: tuple[Stream, Stream],
) -> None:
    direct, edge = streams
    offset = (await direct.head()).next_offset
    async with edge.follow(offset) as second:
        async with edge.follow(offset) as first:
            await first.until_caught_up()
        await second.until_caught_up()
        await direct.append(b"1")
        events = await second.until_caught_up()
    assert events[0].data == "[1]"


async def test_a_planned_end_loses_nothing_and_makes_no_loop(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    direct, edge = streams
    before = embedded_stack.reads()
    crowd = [Joiner(edge, offset=(await direct.head()).next_offset) for _ in range(10)]
    async with writing(direct) as written:
        following = [asyncio.create_task(joiner.follow(10**9)) for joiner in crowd]
        await eventually(lambda: fewest(crowd), lambda connections: connections >= 2)
    await eventually(lambda: fewest_messages(crowd), lambda count: count >= len(written))
    for task in following:
        task.cancel()
    assert all(joiner.messages == written for joiner in crowd)
    assert max(joiner.connections for joiner in crowd) <= 3
    assert (embedded_stack.reads() - before)["sse"] <= 5


async def fewest(crowd: list[Joiner]) -> int:
    return min(joiner.connections for joiner in crowd)


async def fewest_messages(crowd: list[Joiner]) -> int:
    return min(len(joiner.messages) for joiner in crowd)


@contextlib.asynccontextmanager
async def writing(stream: Stream) -> AsyncIterator[list[int]]:
    """Appends numbers, about fifty a second."""
    written: list[int] = []

    async def write() -> None:
        while True:
            assert (await stream.append(b"%d" % len(written))).status == 204
            written.append(len(written))
            await asyncio.sleep(0.02)

    task = asyncio.create_task(write())
    try:
        yield written
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_joiners_of_a_stream_that_is_being_written_miss_and_repeat_nothing(
    embedded_stack: Stack, streams: tuple[Stream, Stream]
) -> None:
    """The edge asks for the tail once a second, and once a second for what follows it."""
    direct, edge = streams
    for number in range(300):
        await direct.append(b'"%0200d"' % number)
    prologue = [f"{number:0200d}" for number in range(300)]
    before, began = embedded_stack.reads(), time.monotonic()
    crowd = [Joiner(edge) for _ in range(CROWD)]
    async with writing(direct) as written:
        following = []
        for joiner in crowd:
            following.append(asyncio.create_task(joiner.join(300 + 150)))
            await asyncio.sleep(0.02)
        await asyncio.gather(*following)
    asked, seconds = embedded_stack.reads() - before, time.monotonic() - began
    for joiner in crowd:
        assert joiner.messages == (prologue + written)[: len(joiner.messages)]
    assert asked["tail"] + asked["sse"] <= 3 * (seconds + 1), asked


@pytest.mark.parametrize("live", ["sse", "long-poll"])
async def test_now_is_not_shared(
    embedded_stack: Stack, streams: tuple[Stream, Stream], live: str
) -> None:
    """What one reader calls now is the past of the next."""
    direct, edge = streams
    await direct.append(b"0")
    before = embedded_stack.reads()
    answers = [await edge.read("now") for _ in range(3)]
    assert {answer["X-Cache"] for answer in answers} == {"PASS"}
    assert (embedded_stack.reads() - before)["tail"] == 3
    polls = [asyncio.create_task(edge.read(query=f"offset=now&live={live}")) for _ in range(3)]
    await waiting(direct, 3)
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
