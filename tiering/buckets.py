"""Namespaces for streams: made by hand, listed in order, deleted when empty."""

import contextlib
import logging
from dataclasses import dataclass

import msgspec

from tiering.cold.keys import BUCKETS, bucket_key
from tiering.errors import Conflict, NotFound
from tiering.hot.buckets import BucketDesk, Entry, Facts
from tiering.hot.sealing import Survey
from tiering.membership import Member, member_of
from tiering.objects.store import ObjectStore

log = logging.getLogger(__name__)

VERSION = 1
NO_SUCH_BUCKET = "There is no such bucket."

_SWEPT_AT_ONCE = 500
_COUNTED_ONE_BY_ONE = 1000


class Bucket(msgspec.Struct, frozen=True):
    """As object storage knows it."""

    version: int
    bucket_id: str
    created_ms: int

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class Page:
    streams: list[tuple[str, Facts]]
    has_more: bool


class Buckets:
    """Redis decides whether a bucket is there; its object is for the day when Redis is gone."""

    def __init__(self, desk: BucketDesk, store: ObjectStore) -> None:
        self._desk = desk
        self._store = store

    async def create(self, bucket: str) -> None:
        now = await self._desk.now_ms()
        if not await self._desk.create(bucket, now):
            raise Conflict("The bucket exists already.")
        await self._store.put(bucket_key(bucket), Bucket(VERSION, bucket, now).encode())

    async def describe(self, bucket: str) -> tuple[int, int]:
        """When it was created (ms), and how many streams it has."""
        created_ms = await self._desk.created_ms(bucket)
        if created_ms is None:
            raise NotFound(NO_SUCH_BUCKET)
        return created_ms, await self._count(bucket)

    async def _count(self, bucket: str) -> int:
        """Exact as long as it costs no more than a page; beyond that, what the last sweep left."""
        entries = await self._desk.entries(bucket, "", "", _COUNTED_ONE_BY_ONE + 1)
        if len(entries) > _COUNTED_ONE_BY_ONE:
            return await self._desk.count(bucket)
        return len(await self._visible(entries))

    async def delete(self, bucket: str) -> None:
        """Entries of streams that never came to be, or have expired, do not keep it."""
        outcome = await self._desk.raze(bucket)
        if outcome == "not_empty" and not await self._has_streams(bucket):
            outcome = await self._desk.raze(bucket)
        if outcome == "missing":
            raise NotFound(NO_SUCH_BUCKET)
        if outcome == "not_empty":
            raise Conflict("The bucket has streams in it.")
        await self._store.delete([bucket_key(bucket)])

    async def page(self, bucket: str, prefix: str, after: str, limit: int) -> Page:
        """The streams that are there now, in the order of their ids."""
        if await self._desk.created_ms(bucket) is None:
            raise NotFound(NO_SUCH_BUCKET)
        found = dict[str, Facts]()
        while len(found) <= limit:
            entries = await self._desk.entries(bucket, prefix, after, limit + 1)
            if not entries:
                break
            found |= await self._visible(entries)
            after = entries[-1].member.stream
        return Page(list(found.items())[:limit], len(found) > limit)

    async def _visible(self, entries: list[Entry]) -> dict[str, Facts]:
        """The streams that are there, each once, in the order of the entries."""
        now = await self._desk.now_ms()
        members = dict.fromkeys(entry.member for entry in entries)
        found = zip(members, await self._desk.facts(members), strict=True)
        return {
            member.stream: facts
            for member, facts in found
            if facts is not None and facts.is_visible(now)
        }

    async def admit(self, name: str, number: int) -> None:
        """Before a stream is created with that log."""
        member = member_of(name)
        if member is not None and not await self._desk.join(member, number, exists=False):
            raise NotFound(NO_SUCH_BUCKET)

    async def confirm(self, name: str, number: int) -> bool:
        """After it was created. False: the bucket was deleted meanwhile."""
        member = member_of(name)
        return member is None or await self._desk.join(member, number, exists=True)

    async def refuse(self, name: str, number: int) -> None:
        """When it was not created."""
        member = member_of(name)
        if member is not None:
            await self._desk.leave(Entry(member, number, is_promise=True))

    async def forget(self, name: str, number: int) -> None:
        """When the stream that had that log is gone."""
        member = member_of(name)
        if member is not None:
            await self._desk.leave_up_to(member, number)

    async def check(self, survey: Survey) -> None:
        """Whether the bucket knows of a stream, after a crash in between."""
        member = member_of(survey.name)
        if member is None:
            return
        if survey.manifest.deleted or survey.has_expired:
            await self._desk.leave_up_to(member, survey.log)
            return
        first = next(number for number, _ in survey.manifest.own_logs())
        if not await self._desk.join(member, first, exists=True):
            await self._make_again(member, first)

    async def _make_again(self, member: Member, number: int) -> None:
        """A bucket that was deleted in the moment that a stream came into it."""
        if (await self._desk.facts([member]))[0] is not None:
            log.error("%s is in a bucket that does not exist: it is made again", member.name)
            with contextlib.suppress(Conflict):
                await self.create(member.bucket)
            await self._desk.join(member, number, exists=True)

    async def sweep(self) -> None:
        """Makes Redis and object storage agree on buckets, and drops entries of no stream."""
        known = {bucket async for bucket in self._desk.buckets()}
        stored = {info.key async for info in self._store.list(BUCKETS)}
        for bucket in known:
            if bucket_key(bucket) not in stored:
                await self._store_again(bucket)
            await self._sweep(bucket)
        for key in stored - {bucket_key(bucket) for bucket in known}:
            if await self._desk.created_ms(key.removeprefix(BUCKETS)) is None:
                await self._store.delete([key])

    async def _store_again(self, bucket: str) -> None:
        created_ms = await self._desk.created_ms(bucket)
        if created_ms is not None:
            await self._store.put(bucket_key(bucket), Bucket(VERSION, bucket, created_ms).encode())

    async def _sweep(self, bucket: str) -> None:
        after = ""
        while entries := await self._desk.entries(bucket, "", after, _SWEPT_AT_ONCE):
            await self._remove_stale(entries)
            after = entries[-1].member.stream

    async def _has_streams(self, bucket: str) -> bool:
        while entries := await self._desk.entries(bucket, "", "", _SWEPT_AT_ONCE):
            if await self._remove_stale(entries) < len(entries):
                return True
        return False

    async def _remove_stale(self, entries: list[Entry]) -> int:
        """How many there were."""
        now = await self._desk.now_ms()
        facts = await self._desk.facts(entry.member for entry in entries)
        stale = [
            entry
            for entry, found in zip(entries, facts, strict=True)
            if found is None or entry.log not in found.logs or not found.is_visible(now)
        ]
        for entry in stale:
            await self._desk.leave(entry)
        return len(stale)
