"""The server stops behind the edge, and comes back."""

import asyncio
from collections.abc import Callable, Iterator

import aiohttp
import pytest
from support.client import Stream, assert_problem, eventually, unique_name
from support.edge_stack import Stack, embedded, joined
from support.joiner import Joiner


@pytest.fixture
def stack() -> Iterator[Stack]:
    with embedded("varnish", "nginx") as running:
        yield running


async def test_readers_replay_what_the_edge_has_and_live_readers_go_on_afterwards(
    stack: Stack, http: aiohttp.ClientSession, at: Callable[..., Stream]
) -> None:
    url = stack.edges["varnish"].url
    replayed, followed = at(url), at(url)
    name = replayed.url.rpartition("/")[2]
    expected = await stack.written(http, name)
    passed_by_nginx = at(stack.edges["nginx"].url, name)
    first = await replayed.read_to_the_tail()
    assert joined(await passed_by_nginx.read_to_the_tail()) == expected
    await followed.create()
    readers = [Joiner(followed) for _ in range(10)]
    for reader in readers:
        await reader.catch_up()
    following = [asyncio.create_task(reader.follow(4)) for reader in readers]
    for number in range(2):
        await followed.append(b"%d" % number)

    stack.server.stop()

    again = await replayed.read_to_the_tail()
    assert joined(again) == joined(first) == expected
    assert {answer["X-Cache"] for answer in again} == {"HIT"}
    assert joined(await passed_by_nginx.read_to_the_tail()) == expected
    refused = await at(url, unique_name()).read()
    assert_problem(refused, 503)
    assert refused["Access-Control-Allow-Origin"] == "*"

    stack.server.start()

    await eventually(lambda: followed.append(b"2"), lambda answer: answer.status == 204)
    await followed.append(b"3")
    await asyncio.gather(*following)
    assert [reader.messages for reader in readers] == [[0, 1, 2, 3]] * len(readers)
