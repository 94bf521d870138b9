"""A bucket is deleted or swept at the worst moment for a stream that is being created in it."""

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest
from support.client import unique_name
from support.external_redis import ExternalRedis

from tiering.buckets import Buckets
from tiering.errors import Conflict, NotFound
from tiering.hot.buckets import BucketDesk, Facts
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.membership import Member
from tiering.objects.directory import DirectoryStore

LOG = 7
THERE = Facts(
    logs=frozenset({LOG}),
    content_type="text/plain",
    tail=0,
    closed=False,
    created_ms=0,
    written_ms=0,
    deadline_ms=None,
    hidden=False,
)


@pytest.fixture(scope="module")
def redis() -> Iterator[ExternalRedis]:
    """Without a server, whose own sweep would find that the streams of these tests do not exist."""
    with ExternalRedis() as running:
        yield running


class Meanwhile(BucketDesk):
    """Sees no stream at first; before its caller can act on that, one is created."""

    def __init__(self, pipe: Pipe, member: Member) -> None:
        super().__init__(pipe)
        self._member = member
        self._is_there = False

    async def facts(self, members: Iterable[Member]) -> list[Facts | None]:
        known = [THERE if self._is_there and one == self._member else None for one in members]
        assert await self.join(self._member, LOG, exists=True)
        self._is_there = True
        return known


@pytest.fixture
async def pipe(redis: ExternalRedis) -> AsyncIterator[Pipe]:
    pipe = Pipe(Address.parse(redis.url), timeout_secs=30)
    await pipe.open()
    yield pipe
    await pipe.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DirectoryStore]:
    async with DirectoryStore(tmp_path) as store:
        yield store


async def promised(pipe: Pipe, store: DirectoryStore) -> tuple[Member, Buckets]:
    """A stream that is about to be created in a bucket of its own."""
    member = Member(unique_name("b"), "a")
    buckets = Buckets(Meanwhile(pipe, member), store)
    await buckets.create(member.bucket)
    await buckets.admit(member.name, LOG)
    return member, buckets


async def test_a_bucket_is_not_deleted_when_a_stream_has_just_come(
    pipe: Pipe, store: DirectoryStore
) -> None:
    member, buckets = await promised(pipe, store)
    with pytest.raises(Conflict):
        await buckets.delete(member.bucket)
    assert await BucketDesk(pipe).entries_of(member) == {LOG}
    assert await BucketDesk(pipe).count(member.bucket) == 1


async def test_the_sweep_takes_away_no_stream_that_has_just_come(
    pipe: Pipe, store: DirectoryStore
) -> None:
    member, buckets = await promised(pipe, store)
    await buckets.sweep()
    assert await BucketDesk(pipe).entries_of(member) == {LOG}


async def test_a_stream_that_comes_too_late_is_told_so(pipe: Pipe, store: DirectoryStore) -> None:
    """A promise alone keeps no bucket; who made it finds out."""
    member = Member(unique_name("b"), "a")
    buckets = Buckets(BucketDesk(pipe), store)
    await buckets.create(member.bucket)
    await buckets.admit(member.name, LOG)
    await buckets.delete(member.bucket)
    assert not await buckets.confirm(member.name, LOG)
    with pytest.raises(NotFound):
        await buckets.admit(member.name, LOG)
    assert await BucketDesk(pipe).count(member.bucket) == 0


async def test_a_stream_that_was_not_made_leaves_no_promise(
    pipe: Pipe, store: DirectoryStore
) -> None:
    member = Member(unique_name("b"), "a")
    buckets = Buckets(BucketDesk(pipe), store)
    await buckets.create(member.bucket)
    await buckets.admit(member.name, LOG)
    await buckets.refuse(member.name, LOG)
    await buckets.admit(member.name, LOG + 1)
    assert await buckets.confirm(member.name, LOG + 1)
    assert await BucketDesk(pipe).entries_of(member) == {LOG + 1}
    await buckets.forget(member.name, LOG + 1)
    assert await BucketDesk(pipe).count(member.bucket) == 0
