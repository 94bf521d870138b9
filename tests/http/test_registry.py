"""`__registry__`: the stream in which the official UI looks for all the others."""

import time
from typing import Any

import pytest
from support.client import JSON, TEXT, NewStream, Stream, eventually


@pytest.fixture
def registry(new_stream: NewStream) -> Stream:
    return new_stream(name="__registry__")


def name_of(stream: Stream) -> str:
    return stream.url.partition("/v1/stream/")[2]


async def changes_of(registry: Stream, stream: Stream) -> list[dict[str, Any]]:
    answers = await registry.read_to_the_tail("-1")
    changes = [change for answer in answers for change in answer.json()]
    return [change for change in changes if change["key"] == name_of(stream)]


async def test_a_created_stream_is_announced_with_its_type_and_time(
    registry: Stream, new_stream: NewStream
) -> None:
    stream = new_stream(TEXT)
    before = time.time_ns() // 1_000_000
    await stream.create()
    (change,) = await changes_of(registry, stream)
    created_at = change["value"].pop("createdAt")
    assert change == {
        "type": "stream",
        "key": name_of(stream),
        "value": {"path": name_of(stream), "contentType": TEXT},
        "headers": {"operation": "insert"},
    }
    assert before - 1000 <= created_at <= time.time_ns() // 1_000_000 + 1000


async def test_a_deleted_stream_is_taken_back(registry: Stream, new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    await stream.delete()
    changes = await changes_of(registry, stream)
    assert [change["headers"]["operation"] for change in changes] == ["insert", "delete"]
    assert changes[1]["type"] == "stream"


async def test_a_stream_created_anew_is_announced_again(
    registry: Stream, new_stream: NewStream
) -> None:
    stream = new_stream(TEXT)
    await stream.create()
    await stream.delete()
    await stream.create(content_type=JSON)
    changes = await changes_of(registry, stream)
    operations = [change["headers"]["operation"] for change in changes]
    assert operations == ["insert", "delete", "insert"]
    assert changes[2]["value"]["contentType"] == JSON


async def test_an_expired_stream_is_taken_back(registry: Stream, new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(stream_ttl="1")

    async def operations() -> list[str]:
        return [c["headers"]["operation"] for c in await changes_of(registry, stream)]

    await eventually(stream.head, lambda answer: answer.status == 404)
    await eventually(operations, lambda seen: seen == ["insert", "delete"])


async def test_nothing_is_announced_that_did_not_happen(
    registry: Stream, new_stream: NewStream
) -> None:
    stream, refused = new_stream(), new_stream()
    await stream.create()
    await stream.create()
    await stream.create(content_type=TEXT)
    await refused.create(b"broken")
    await refused.delete()
    assert len(await changes_of(registry, stream)) == 1
    assert await changes_of(registry, refused) == []


async def test_names_are_announced_as_people_wrote_them(
    registry: Stream, new_stream: NewStream
) -> None:
    prefix = name_of(new_stream())
    stream = new_stream(name=f"{prefix}/%C3%A9t%C3%A9/with%20space/%22quoted%22")
    await stream.create()
    answers = await registry.read_to_the_tail("-1")
    keys = [change["key"] for answer in answers for change in answer.json()]
    assert f'{prefix}/été/with space/"quoted"' in keys


async def test_the_registry_can_be_followed_like_any_stream(
    registry: Stream, new_stream: NewStream
) -> None:
    await new_stream().create()
    stream = new_stream()
    async with registry.follow("now") as following:
        await following.until_caught_up()
        await stream.create()
        await following.until(lambda event: name_of(stream) in event.data)
