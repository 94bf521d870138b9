"""The official PyPI client, durable-streams, with its synchronous half."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import Any

import httpx
import pytest
from clients.cutting_proxy import CuttingProxy
from clients.kinds import KIND_OF_BYTES, KIND_OF_JSON, KIND_OF_TEXT
from clients.writing import write_until_all_is_cut
from durable_streams import (
    DurableStream,
    SeqConflictError,
    StreamExistsError,
    StreamNotFoundError,
    stream,
)
from support.client import BYTES, JSON, TEXT, NewStream

pytestmark = pytest.mark.timeout(60)
each_live_mode = pytest.mark.parametrize("live", ["auto", "long-poll", "sse"])


@pytest.fixture
def url(new_stream: NewStream) -> str:
    return new_stream(JSON).url


def test_a_stream_is_created_found_described_and_deleted(url: str) -> None:
    with DurableStream.create(url, content_type=TEXT, body="first") as handle:
        DurableStream.create(url, content_type=TEXT).close()
        with pytest.raises(StreamExistsError):
            DurableStream.create(url, content_type=JSON)
        tail = handle.append(", second", seq="b").next_offset
        with pytest.raises(SeqConflictError):
            handle.append("never", seq="a")
        with DurableStream.connect(url) as connected:
            assert connected.content_type == TEXT
            assert connected.head().offset == tail
        with handle.stream() as response:
            assert response.read_text() == "first, second"
        handle.delete()
        with pytest.raises(StreamNotFoundError):
            handle.head()


@pytest.mark.parametrize("batching", [True, False], ids=["batched", "one by one"])
def test_concurrent_appends_all_arrive_once_and_each_writers_in_order(
    url: str, batching: bool
) -> None:
    writers, each = 8, 20
    requests: list[httpx.Request] = []
    with (
        httpx.Client(event_hooks={"request": [requests.append]}) as client,
        DurableStream.create(url, content_type=JSON, client=client, batching=batching) as handle,
        ThreadPoolExecutor(writers) as threads,
    ):

        def write(writer: int) -> list[str]:
            return [handle.append([writer, n]).next_offset for n in range(each)]

        acknowledged = list(threads.map(write, range(writers)))
        posts = sum(request.method == "POST" for request in requests)
        with handle.stream() as response:
            items = response.read_json()
    assert sorted(items) == [[writer, n] for writer in range(writers) for n in range(each)]
    for writer in range(writers):
        assert [n for by, n in items if by == writer] == list(range(each))
    for offsets in acknowledged:
        assert all(one < next_one for one, next_one in pairwise(offsets))
    assert posts < writers * each if batching else posts == writers * each


def test_a_history_is_replayed_from_any_acknowledged_offset(url: str) -> None:
    messages = KIND_OF_JSON.messages(0, 100)
    with DurableStream.create(url, content_type=JSON) as handle:
        offsets = [handle.append(message).next_offset for message in messages]
        for start, offset in ((0, "-1"), (50, offsets[49]), (99, offsets[98])):
            for live in (False, "auto", "long-poll"):
                with handle.stream(offset=offset, live=live) as response:
                    assert list(islice(response.iter_json(), 100 - start)) == messages[start:]
            with handle.stream(offset=offset) as response:
                assert response.read_json() == messages[start:]
                assert response.offset == offsets[-1]


def test_text_and_bytes_are_replayed_as_they_were_written(new_stream: NewStream) -> None:
    texts = KIND_OF_TEXT.messages(0, 100)
    with DurableStream.create(new_stream(TEXT).url, content_type=TEXT) as handle:
        for text in texts:
            handle.append(text)
        with handle.stream() as response:
            assert response.read_text() == "".join(texts)
    pieces = [KIND_OF_BYTES.body(message) for message in KIND_OF_BYTES.messages(0, 100)]
    with DurableStream.create(new_stream(BYTES).url, content_type=BYTES) as handle:
        for piece in pieces:
            handle.append(piece)
        with handle.stream() as response:
            assert response.read_bytes() == b"".join(pieces)


@each_live_mode
def test_a_follower_gets_history_and_news(url: str, live: Any) -> None:
    messages = KIND_OF_JSON.messages(0, 30)
    with (
        DurableStream.create(url, content_type=JSON) as handle,
        ThreadPoolExecutor(1) as writer,
        stream(url, offset="-1", live=live, timeout=10) as response,
    ):
        writer.submit(handle.append, messages[0])
        items = response.iter_json()
        for number, message in enumerate(messages):
            assert next(items) == message
            writer.submit(handle.append, KIND_OF_JSON.message(number + 1))


@each_live_mode
def test_a_follower_of_text_gets_history_and_news(url: str, live: Any) -> None:
    messages = KIND_OF_TEXT.messages(0, 30)
    with (
        DurableStream.create(url, content_type=TEXT) as handle,
        ThreadPoolExecutor(1) as writer,
        stream(url, offset="-1", live=live, timeout=10) as response,
    ):
        writer.submit(handle.append, messages[0])
        texts = response.iter_text()
        for number, message in enumerate(messages):
            assert next(texts) == message
            writer.submit(handle.append, KIND_OF_TEXT.message(number + 1))


@each_live_mode
def test_a_reader_that_reopens_at_its_offset_misses_and_repeats_nothing(
    url: str, live: Any
) -> None:
    got: list[Any] = []
    offset = "-1"
    with DurableStream.create(url, content_type=JSON) as handle:
        for n in range(100):
            handle.append(n)
            if n % 10 == 9:
                got += (event := one_event(handle, offset, live)).data
                offset = event.next_offset
        while len(got) < 100:  # An event may hold only a part of what there is.
            got += (event := one_event(handle, offset, live)).data
            offset = event.next_offset
    assert got == list(range(100))


def one_event(handle: DurableStream, offset: str, live: Any) -> Any:
    with handle.stream(offset=offset, live=live) as response:
        return next(response.iter_events(mode="json"))


def test_a_reader_reopens_where_the_server_ended_its_sse_connection(
    new_impatient_stream: NewStream,
) -> None:
    url = new_impatient_stream(JSON).url
    got: list[Any] = []
    offset = "-1"
    with DurableStream.create(url, content_type=JSON) as handle:
        handle.append(0)
        for _ in range(3):
            with handle.stream(offset=offset, live="sse") as response:
                for item in response.iter_json():
                    got.append(item)
                    handle.append(item + 1)
                offset = response.offset
        with handle.stream(offset=offset) as response:
            got += response.read_json()
    assert len(got) > 3
    assert got == list(range(len(got)))


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
        reading = tasks.create_task(asyncio.to_thread(read_to_the_last, proxy.url, live))
        messages = await write_until_all_is_cut(source, KIND_OF_JSON, proxy)
        await source.append(b'"the last"')
    got, sessions = reading.result()
    assert got == [*messages, "the last"]
    assert sessions > 1


def read_to_the_last(url: str, live: Any) -> tuple[list[Any], int]:
    """Opens a new session at the last offset whenever one ends, as the client leaves it to us."""
    got: list[Any] = []
    offset = "-1"
    with DurableStream(url, timeout=10) as handle:
        for session in range(1, 1000):
            try:
                with handle.stream(offset=offset, live=live) as response:
                    for event in response.iter_events(mode="json"):
                        got += event.data
                        offset = event.next_offset
                        if got[-1] == "the last":
                            return got, session
            except httpx.TransportError:
                continue
    raise AssertionError(f"no end after {len(got)} messages")
