"""The official PyPI client, durable-streams, with its asynchronous half."""

import asyncio
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from clients.cutting_proxy import CuttingProxy
from clients.kinds import KIND_OF_BYTES, KIND_OF_JSON, KIND_OF_TEXT
from clients.writing import write_until_all_is_cut
from durable_streams import (
    AsyncDurableStream,
    SeqConflictError,
    StreamExistsError,
    StreamNotFoundError,
    astream,
)
from support.client import BYTES, JSON, TEXT, NewStream

pytestmark = pytest.mark.timeout(60)
each_live_mode = pytest.mark.parametrize("live", ["auto", "long-poll", "sse"])


@pytest.fixture
def url(new_stream: NewStream) -> str:
    return new_stream(JSON).url


async def test_a_stream_is_created_found_described_and_deleted(url: str) -> None:
    async with await AsyncDurableStream.create(url, content_type=TEXT, body="first") as handle:
        with pytest.raises(StreamExistsError):
            await AsyncDurableStream.create(url, content_type=JSON)
        tail = (await handle.append(", second", seq="b")).next_offset
        with pytest.raises(SeqConflictError):
            await handle.append("never", seq="a")
        async with await AsyncDurableStream.connect(url) as connected:
            assert connected.content_type == TEXT
            assert (await connected.head()).offset == tail
        async with handle.stream() as response:
            assert await response.read_text() == "first, second"
        await handle.delete()
        with pytest.raises(StreamNotFoundError):
            await handle.head()


@pytest.mark.parametrize("batching", [True, False], ids=["batched", "one by one"])
async def test_concurrent_appends_all_arrive_once_and_each_writers_in_order(
    url: str, batching: bool
) -> None:
    writers, each = 8, 20
    posts = 0

    async def count(request: httpx.Request) -> None:
        nonlocal posts
        posts += request.method == "POST"

    async def write(writer: int) -> None:
        for n in range(each):
            await handle.append([writer, n])

    async with httpx.AsyncClient(event_hooks={"request": [count]}) as client:
        handle = await AsyncDurableStream.create(
            url, content_type=JSON, client=client, batching=batching
        )
        await asyncio.gather(*map(write, range(writers)))
        async with handle.stream() as response:
            items = await response.read_json()
    assert sorted(items) == [[writer, n] for writer in range(writers) for n in range(each)]
    for writer in range(writers):
        assert [n for by, n in items if by == writer] == list(range(each))
    assert posts < writers * each if batching else posts == writers * each


async def test_a_history_is_replayed_from_any_acknowledged_offset(url: str) -> None:
    messages = KIND_OF_JSON.messages(0, 100)
    async with await AsyncDurableStream.create(url, content_type=JSON) as handle:
        offsets = [(await handle.append(message)).next_offset for message in messages]
        for start, offset in ((0, "-1"), (50, offsets[49]), (99, offsets[98])):
            for live in (False, "auto", "long-poll"):
                async with (
                    handle.stream(offset=offset, live=live) as response,
                    aclosing(response.iter_json()) as items,
                ):
                    assert [await anext(items) for _ in messages[start:]] == messages[start:]
            async with handle.stream(offset=offset) as response:
                assert await response.read_json() == messages[start:]
                assert response.offset == offsets[-1]


async def test_text_and_bytes_are_replayed_as_they_were_written(new_stream: NewStream) -> None:
    texts = KIND_OF_TEXT.messages(0, 100)
    async with await AsyncDurableStream.create(new_stream(TEXT).url, content_type=TEXT) as handle:
        for text in texts:
            await handle.append(text)
        async with handle.stream() as response:
            assert await response.read_text() == "".join(texts)
    pieces = [KIND_OF_BYTES.body(message) for message in KIND_OF_BYTES.messages(0, 100)]
    async with await AsyncDurableStream.create(new_stream(BYTES).url, content_type=BYTES) as handle:
        for piece in pieces:
            await handle.append(piece)
        async with handle.stream() as response:
            assert await response.read_bytes() == b"".join(pieces)


@each_live_mode
async def test_followers_get_history_and_news(url: str, live: Any) -> None:
    messages = KIND_OF_JSON.messages(0, 30)

    async def follow() -> list[Any]:
        async with (
            astream(url, offset="-1", live=live, timeout=10) as response,
            aclosing(response.iter_json()) as items,
        ):
            return [await anext(items) for _ in messages]

    async with await AsyncDurableStream.create(url, content_type=JSON) as handle:
        followers = [asyncio.create_task(follow()) for _ in range(5)]
        for message in messages:
            await handle.append(message)
        for got in await asyncio.gather(*followers):
            assert got == messages


@each_live_mode
async def test_a_reader_that_reopens_at_its_offset_misses_and_repeats_nothing(
    url: str, live: Any
) -> None:
    got: list[Any] = []
    offset = "-1"
    async with await AsyncDurableStream.create(url, content_type=JSON) as handle:
        for n in range(100):
            await handle.append(n)
            if n % 10 == 9:
                got += (event := await one_event(handle, offset, live)).data
                offset = event.next_offset
        while len(got) < 100:  # An event may hold only a part of what there is.
            got += (event := await one_event(handle, offset, live)).data
            offset = event.next_offset
    assert got == list(range(100))


async def one_event(handle: AsyncDurableStream, offset: str, live: Any) -> Any:
    async with (
        handle.stream(offset=offset, live=live) as response,
        aclosing(response.iter_events(mode="json")) as events,
    ):
        return await anext(events)


@pytest.mark.parametrize("live", ["long-poll", "sse"])
async def test_a_reader_that_is_cut_off_gets_every_message_once_and_in_order(
    new_stream: NewStream, live: Any
) -> None:
    source = new_stream(JSON)
    await source.create()
    async with (
        CuttingProxy(source.url, live, of_each_kind=6) as proxy,
        asyncio.TaskGroup() as tasks,
    ):
        reading = tasks.create_task(read_to_the_last(proxy.url, live))
        messages = await write_until_all_is_cut(source, KIND_OF_JSON, proxy)
        await source.append(b'"the last"')
    got, sessions = reading.result()
    assert got == [*messages, "the last"]
    assert sessions > 1


async def read_to_the_last(url: str, live: Any) -> tuple[list[Any], int]:
    """Opens a new session at the last offset whenever one ends, as the client leaves it to us."""
    got: list[Any] = []
    offset = "-1"
    async with AsyncDurableStream(url, timeout=10) as handle:
        for session in range(1, 1000):
            try:
                async with (
                    handle.stream(offset=offset, live=live) as response,
                    aclosing(response.iter_events(mode="json")) as events,
                ):
                    async for event in events:
                        got += event.data
                        offset = event.next_offset
                        if got[-1] == "the last":
                            return got, session
            except httpx.TransportError:
                continue
    raise AssertionError(f"no end after {len(got)} messages")
