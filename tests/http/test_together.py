"""Crowds that append to one stream at once: what travels together is taken one by one."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
from collections.abc import Iterator, Sequence

import aiohttp
import pytest
from support.checker import Order, violations
from support.client import BYTES, JSON, Answer, Stream
from support.extensions import bootstrap, new_bucket
from support.history import History, Outcome
from support.load import Party
from support.producers import until
from support.raw import Raw, head, whole
from support.repairs import NEVER, seal_all
from support.server import RunningServer
from support.writers import Manner, Producer, Writer
from yarl import URL

HASTY = Manner(0.0, (0, 0, 20, 20, 90, 700))
WRITERS = 16
APPENDS = 300
CHUNK = 4096


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[RunningServer]:
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER) as running:
        yield running


def crowd(stream: Stream) -> Party:
    kinds = [Writer] * WRITERS + [Producer] * 2
    return Party.of(stream, random.Random(7), kinds, HASTY)


async def play(party: Party) -> None:
    """Until enough was appended, and everybody who follows has it."""
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        writing = [group.create_task(one.run(enough)) for one in party.writers]
        reading = [group.create_task(one.run()) for one in party.readers]
        await until(lambda: sum(one.done for one in party.writers) >= APPENDS, "appends")
        enough.set()
        await asyncio.gather(*writing)
        await party.reached_by_followers()
        for task in reading:
            task.cancel()
    await party.settle()


def assert_told_their_own_ends(history: History) -> None:
    places = Order(history).first_places
    for append, start in places.items():
        if append.outcome is Outcome.ACKNOWLEDGED:
            assert append.tail == start + sum(map(len, append.units))


def messages_of(history: History) -> list[bytes]:
    """Of bytes each append is one message, of JSON each unit."""
    order = Order(history)
    if history.separator == b",":
        return [unit[:-1] for _, unit in order.units]
    return [b"".join(append.units) for _, append in order.places]


@pytest.mark.parametrize("lifetime", [{}, {"stream_ttl": "600"}], ids=["ever", "ttl"])
@pytest.mark.parametrize("kind", [JSON, BYTES])
async def test_a_crowd_is_told_the_truth_and_followed_to_the_byte(
    small_chunks: RunningServer, http: aiohttp.ClientSession, kind: str, lifetime: dict[str, str]
) -> None:
    bucket = await new_bucket(http, small_chunks.url)
    party = crowd(bucket.stream(content_type=kind))
    assert (await party.stream.create(**lifetime)).status == 201
    await play(party)
    assert not violations(party.history)
    assert_told_their_own_ends(party.history)
    assert len(party.history.content) > 3 * CHUNK
    assert (await bootstrap(party.stream)).messages == messages_of(party.history)
    await asyncio.to_thread(seal_all, small_chunks)
    assert (await bootstrap(party.stream)).messages == messages_of(party.history)


@contextlib.contextmanager
def standing_still(server: RunningServer) -> Iterator[None]:
    """What is sent meanwhile is there at once when the workers go on."""
    pids = server.worker_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def burst(server: RunningServer, requests: Sequence[bytes]) -> list[Answer]:
    """All at once, each on a connection of its own."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Raw(server.url)) for _ in requests]
        with standing_still(server):
            for wire, request in zip(wires, requests, strict=True):
                wire.send(request)
        return [wire.answer() for wire in wires]


def post(stream: Stream, body: bytes, *fields: str, kind: str = BYTES) -> bytes:
    target = URL(stream.url).raw_path
    return whole("POST", target, f"Content-Type: {kind}", *fields, body=body)


TEXTS = [b"<%d>" % number for number in range(40)]


async def test_who_comes_before_the_closing_is_in_and_nobody_else(
    small_chunks: RunningServer, http: aiohttp.ClientSession
) -> None:
    bucket = await new_bucket(http, small_chunks.url)
    for _ in range(3):
        stream = bucket.stream(content_type=BYTES)
        await stream.create()
        requests = [post(stream, text) for text in TEXTS]
        requests.insert(20, post(stream, b"end", "Stream-Closed: true"))
        answers = await asyncio.to_thread(burst, small_chunks, requests)
        assert answers.pop(20).status == 204
        assert {answer.status for answer in answers} <= {204, 409}
        content = (await stream.read()).body
        pairs = [*zip(TEXTS, answers, strict=True)]
        taken = {text: answer.position for text, answer in pairs if answer.status == 204}
        assert content == b"".join(sorted(taken, key=taken.__getitem__)) + b"end"
        assert all(content[: taken[text]].endswith(text) for text in taken)
        for refused in (answer for answer in answers if answer.status == 409):
            assert refused["Stream-Closed"] == "true"
            assert refused.position == len(content)


async def test_who_appends_to_what_is_being_deleted_is_taken_or_refused(
    small_chunks: RunningServer, http: aiohttp.ClientSession
) -> None:
    bucket = await new_bucket(http, small_chunks.url)
    for _ in range(3):
        stream = bucket.stream(content_type=BYTES)
        await stream.create()
        requests = [post(stream, text) for text in TEXTS]
        requests.insert(20, head("DELETE", URL(stream.url).raw_path))
        answers = await asyncio.to_thread(burst, small_chunks, requests)
        assert {answer.status for answer in answers} <= {204, 404}
        assert (await stream.read()).status == 404
        refused = await asyncio.to_thread(burst, small_chunks, requests[:20])
        assert {answer.status for answer in refused} == {404}


async def test_of_two_kinds_that_come_at_once_only_the_stream_s_own_is_taken(
    small_chunks: RunningServer, http: aiohttp.ClientSession
) -> None:
    stream = (await new_bucket(http, small_chunks.url)).stream(content_type=JSON)
    await stream.create()
    own = [post(stream, b"[%d, %d]" % (n, n), kind=JSON) for n in range(20)]
    foreign = [post(stream, b"x")] * 20
    mixed = [request for pair in zip(own, foreign, strict=True) for request in pair]
    answers = await asyncio.to_thread(burst, small_chunks, mixed)
    assert [answer.status for answer in answers] == [204, 409] * 20
    messages = (await stream.read()).json()
    assert messages[::2] == messages[1::2]
    assert sorted(messages[::2]) == [*range(20)]
    ends = sorted(answer.position for answer in answers[::2])
    lengths = [len(b"%d,%d," % (n, n)) for n in messages[::2]]
    assert ends == [*itertools.accumulate(lengths)]
