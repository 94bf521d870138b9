"""The official npm client on a line that is cut again and again."""

import asyncio

import pytest
from clients.cutting_proxy import CuttingProxy
from clients.kinds import KIND_OF_JSON, KINDS, Kind
from clients.node import play
from clients.writing import write_until_all_is_cut
from support.client import JSON, NewStream


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("live", ["long-poll", "sse"])
async def test_a_reader_that_is_cut_off_gets_every_message_once_and_in_order(
    new_stream: NewStream, kind: Kind, live: str
) -> None:
    stream = new_stream(kind.content_type)
    await stream.create()
    async with (
        CuttingProxy(stream.url, f"{kind} {live}", of_each_kind=6) as proxy,
        asyncio.TaskGroup() as tasks,
    ):
        reading = tasks.create_task(play("read", url=proxy.url, kind=kind.name, live=live))
        messages = await write_until_all_is_cut(stream, kind, proxy)
        await stream.close()
    verdict = reading.result()
    assert verdict["content"] == kind.content(messages)
    assert verdict["sessions"] > 1


@pytest.mark.parametrize("in_flight", [1, 5])
async def test_a_producer_that_is_cut_off_duplicates_nothing(
    new_stream: NewStream, in_flight: int
) -> None:
    kind, stream = KIND_OF_JSON, new_stream(JSON)
    await stream.create()
    async with CuttingProxy(stream.url, f"{in_flight} in flight", of_each_kind=6) as proxy:
        verdict = await play(
            "produce",
            url=proxy.url,
            kind=kind.name,
            messages=kind.messages(0, 300),
            last=kind.message(300),
            fetch="persistent",
            options={"maxBatchBytes": 100, "maxInFlight": in_flight},
        )
        assert proxy.is_done
    assert verdict["errors"] == []
    assert verdict["retries"] > 0
    assert verdict["duplicates"] > 0
    answers = await stream.read_to_the_tail()
    assert kind.answered(answers) == kind.messages(0, 301)
    assert answers[-1].next_offset == verdict["finalOffset"]
