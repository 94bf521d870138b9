"""Buckets as the hot tier knows them: that they are there, and who is in them."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import msgspec

from tiering.hot.keys import ANY_BUCKET, bucket_keys, bucket_name, stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.replies import ancestors, unexpected
from tiering.membership import Member

_FACTS = ("log", "chain", "type", "tail", "closed", "created", "written", "deadline", "hidden")
# Ids have no NUL, and UTF-8 has no byte 0xff: every entry of an id lies between these two.
_FIRST, _LAST = b"\0", b"\0\xff"
_PROMISE = b"?"


class Facts(msgspec.Struct, frozen=True):
    """What a listing tells of a stream."""

    logs: frozenset[int]
    content_type: str
    tail: int
    closed: bool
    created_ms: int
    written_ms: int
    deadline_ms: int | None
    hidden: bool

    def is_visible(self, now_ms: int) -> bool:
        has_expired = self.deadline_ms is not None and self.deadline_ms <= now_ms
        return not (self.hidden or has_expired)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream that is in a bucket or has just been, told by its log; a promise is one that is
    about to be."""

    member: Member
    log: int
    is_promise: bool = False

    def encode(self) -> bytes:
        mark = _PROMISE if self.is_promise else b""
        return b"%b\0%016d%b" % (self.member.stream.encode(), self.log, mark)


class BucketDesk:
    """Each attempt to create a stream has an entry of its own, so that nobody takes another's
    away: an entry stands from before its stream is there until after it is gone. Who has seen
    that a promised stream is not there takes away the promise only: the stream may be there by
    now, and then it has the other entry."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def now_ms(self) -> int:
        seconds, microseconds = await self._pipe.call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def create(self, bucket: str, created_ms: int) -> bool:
        """False when it was there already."""
        meta = bucket_keys(bucket).meta
        return bool(await self._pipe.call("HSETNX", meta, "created", created_ms))

    async def created_ms(self, bucket: str) -> int | None:
        created = await self._pipe.call("HGET", bucket_keys(bucket).meta, "created")
        return None if created is None else int(created)

    async def count(self, bucket: str) -> int:
        return int(await self._pipe.call("ZCARD", bucket_keys(bucket).streams))

    async def raze(self, bucket: str) -> str:
        """What became of it: "ok", "missing" or "not_empty"."""
        keys = bucket_keys(bucket)
        reply = await self._pipe.run("raze", (keys.meta, keys.streams))
        return str(reply[0].decode())

    async def join(self, member: Member, log: int, *, exists: bool) -> bool:
        """False when there is no such bucket."""
        keys = bucket_keys(member.bucket)
        entries = (Entry(member, log).encode(), Entry(member, log, is_promise=True).encode())
        lowest = member.stream.encode() + _FIRST
        match reply := await self._pipe.run(
            "join", (keys.meta, keys.streams), *entries, lowest, "1" if exists else ""
        ):
            case [b"ok"]:
                return True
            case [b"missing"]:
                return False
            case _:
                raise unexpected("join", reply)

    async def leave(self, entry: Entry) -> None:
        """It has served its purpose."""
        await self._pipe.call("ZREM", bucket_keys(entry.member.bucket).streams, entry.encode())

    async def leave_up_to(self, member: Member, log: int) -> None:
        """All entries of a stream that is gone; a younger one may be about to take its place."""
        await self._pipe.call(
            "ZREMRANGEBYLEX",
            bucket_keys(member.bucket).streams,
            b"[" + member.stream.encode() + _FIRST,
            b"[" + Entry(member, log, is_promise=True).encode(),
        )

    async def entries(self, bucket: str, prefix: str, after: str, limit: int) -> list[Entry]:
        """In the order of their ids; `after` '' is before all of them."""
        beyond = after.encode() + _LAST if after else b""
        first = max(prefix.encode(), beyond)
        found = await self._pipe.call(
            "ZRANGEBYLEX",
            bucket_keys(bucket).streams,
            b"[" + first if first else b"-",
            b"(" + prefix.encode() + b"\xff" if prefix else b"+",
            "LIMIT",
            0,
            limit,
        )
        return [_parse(bucket, entry) for entry in found]

    async def entries_of(self, member: Member) -> set[int]:
        """The logs that a stream is known by."""
        streams, own = bucket_keys(member.bucket).streams, member.stream.encode()
        found = await self._pipe.call(
            "ZRANGEBYLEX", streams, b"[" + own + _FIRST, b"(" + own + _LAST
        )
        return {_parse(member.bucket, entry).log for entry in found}

    async def facts(self, members: Iterable[Member]) -> list[Facts | None]:
        """All in one go."""
        metas = (stream_keys(member.name).meta for member in members)
        replies = await self._pipe.call_all(("HMGET", meta, *_FACTS) for meta in metas)
        return [_facts(reply) for reply in replies]

    async def buckets(self) -> AsyncIterator[str]:
        """Every bucket, at least once."""
        async for key in self._pipe.scan(ANY_BUCKET):
            yield bucket_name(key)


def _parse(bucket: str, entry: bytes) -> Entry:
    stream, _, log = entry.rpartition(b"\0")
    number = log.removesuffix(_PROMISE)
    return Entry(Member(bucket, stream.decode()), int(number), is_promise=number != log)


def _facts(reply: list[bytes | None]) -> Facts | None:
    log, chain, content_type, tail, closed, created, written, deadline, hidden = reply
    if log is None:
        return None
    past = ancestors(chain or b"")
    return Facts(
        logs=frozenset({int(log), *(one.log for one in past if not one.name)}),
        content_type=(content_type or b"").decode(),
        tail=int(tail or 0),
        closed=closed == b"1",
        created_ms=int(created or 0),
        written_ms=int(written or 0),
        deadline_ms=int(deadline) if deadline else None,
        hidden=hidden == b"1",
    )
