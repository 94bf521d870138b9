"""Forks of streams that are not there any more."""

import itertools

from support.client import TEXT, Answer, NewStream, Stream, assert_problem, eventually
from yarl import URL

LONG = "3600"


async def fork(source: Stream, name: Stream) -> Answer:
    return await name.ask("PUT", stream_forked_from=URL(source.url).path, stream_ttl=LONG)


async def test_an_expired_stream_cannot_be_forked(new_stream: NewStream) -> None:
    """Nobody has asked for it since its time was over: it is the fork that finds out."""
    source, made = new_stream(TEXT), new_stream(TEXT)
    await source.create(b"data", stream_ttl="0")
    assert_problem(await fork(source, made), 404)
    assert (await made.head()).status == 404
    assert (await source.create(b"anew")).status == 201
    assert (await fork(source, made)).status == 201


async def test_an_expired_stream_that_others_are_forks_of_is_a_conflict(
    new_stream: NewStream,
) -> None:
    """Forking renews nothing: one of the forks is the first to come too late."""
    source, first = new_stream(TEXT), new_stream(TEXT)
    await source.create(b"data", stream_ttl="1")
    assert (await fork(source, first)).status == 201
    later = (new_stream(TEXT) for _ in itertools.count())
    refused = await eventually(
        lambda: fork(source, next(later)), lambda answer: answer.status != 201
    )
    assert_problem(refused, 409)
    assert_problem(await source.read(), 410)
    assert (await first.read()).body == b"data"
