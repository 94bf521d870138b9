"""The hot tier: every verb is one script in one hash slot of Redis."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import msgspec

from tiering.errors import (
    Conflict,
    Fenced,
    Invalid,
    NotFound,
    SequenceGap,
    StreamClosed,
    TooLarge,
)
from tiering.hot.keys import LOG_COUNTER, StreamKeys, stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import BACKLOG_BYTES, Pressure
from tiering.hot.scripts import BLOCK_BYTES
from tiering.messages import Payload
from tiering.offset import NOW, START, Offset, ReadFrom
from tiering.stream import (
    Ancestor,
    Configuration,
    ContentType,
    Lifetime,
    Producer,
    Stream,
    View,
)

LOG_EPOCH_MS = 1_728_432_000_000
INLINE_BYTES = 16 * 1024

_keys = lru_cache(maxsize=4096)(stream_keys)
_content_type = lru_cache(maxsize=1024)(ContentType)


class Attention(Enum):
    """When a sealer should look after a stream."""

    NOW = b"now"
    LATER = b"later"


class Expired(Exception):
    """The stream's time is over, but it has not been removed yet."""


@dataclass(frozen=True, slots=True)
class Append:
    payload: Payload
    media: str
    closes: bool = False
    seq: str = ""
    producer: Producer | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    tail: Offset
    closed: bool
    duplicate: bool = False
    highest_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Created:
    tail: Offset
    content_type: ContentType
    is_new: bool
    replaced_expired: bool = False


class HotTier:
    def __init__(
        self,
        writes: Pipe,
        reads: Pipe,
        pressure: Pressure,
        *,
        grid: int,
        max_stream_bytes: int = 0,
    ) -> None:
        self._writes = writes
        self._reads = reads
        self._pressure = pressure
        self._grid = grid
        self._max_stream_bytes = max_stream_bytes
        self.attend: Callable[[str, Attention], None] = lambda name, attention: None

    async def mint(self) -> int:
        reply = await self._writes.run("mint", (LOG_COUNTER,), LOG_EPOCH_MS)
        return int(reply[1])

    async def create(self, name: str, wanted: Configuration, payload: Payload) -> Created:
        await self._pressure.admit(len(payload.data))
        if 0 < self._max_stream_bytes < len(payload.data):
            raise TooLarge(_STREAM_TOO_LARGE)
        lifetime = wanted.lifetime
        reply = await self._writes.run(
            "create",
            _all(_keys(name)),
            await self.mint(),
            wanted.content_type.text,
            wanted.content_type.media,
            self._grid,
            _optional(lifetime.ttl_secs),
            _optional(lifetime.expires_ms),
            lifetime.expires_text,
            _flag(wanted.closed),
            payload.data,
            payload.lengths,
        )
        match reply:
            case [b"created" | b"created_over_expired" as outcome, log, tail]:
                self.attend(name, Attention.NOW if wanted.closed else Attention.LATER)
                end = Offset(int(log), int(tail))
                over_expired = outcome == b"created_over_expired"
                return Created(end, wanted.content_type, True, over_expired)
            case [b"exists", log, tail, content_type]:
                known = ContentType(content_type.decode())
                return Created(Offset(int(log), int(tail)), known, False)
            case [b"conflict", what]:
                raise Conflict(f"The stream exists with another {what.decode()}.")
            case _:
                raise _unexpected("create", reply)

    async def append(self, name: str, append: Append) -> Appended:
        if append.payload.data:
            await self._pressure.admit(len(append.payload.data))
        producer = append.producer
        reply = await self._writes.run(
            "append",
            _all(_keys(name)),
            append.payload.data,
            append.media,
            append.payload.lengths,
            _flag(append.closes),
            append.seq,
            producer.id if producer else "",
            producer.epoch if producer else "",
            producer.seq if producer else "",
            self._max_stream_bytes,
            INLINE_BYTES,
        )
        match reply:
            case [b"ok", log, tail, closed, attention, unsealed]:
                if attention:
                    self.attend(name, Attention(attention))
                if int(unsealed) > BACKLOG_BYTES:
                    await self._pressure.pace(int(unsealed))
                highest = producer.seq if producer else None
                return Appended(Offset(int(log), int(tail)), closed == b"1", False, highest)
            case [b"duplicate", log, tail, closed, highest]:
                return Appended(Offset(int(log), int(tail)), closed == b"1", True, int(highest))
            case [b"missing"]:
                raise NotFound(_NO_SUCH_STREAM)
            case [b"expired"]:
                raise Expired
            case [b"closed", log, tail]:
                raise StreamClosed(Offset(int(log), int(tail)))
            case [b"other_type", content_type]:
                raise Conflict(f"The stream's content type is {content_type.decode()}.")
            case [b"stale_epoch", current]:
                raise Fenced(int(current))
            case [b"epoch_start"]:
                raise Invalid("A new producer epoch starts with Producer-Seq 0.")
            case [b"gap", expected]:
                assert producer is not None
                raise SequenceGap(int(expected), producer.seq)
            case [b"seq_regression", last]:
                raise Conflict(f"Stream-Seq must come after {last.decode(errors='replace')!r}.")
            case [b"too_large"]:
                raise TooLarge(_STREAM_TOO_LARGE)
            case _:
                raise _unexpected("append", reply)

    async def look(self, name: str, source: ReadFrom, *, renew: bool) -> View:
        """The stream, seen from `source`; `Gone` or `Invalid` when that is no place in it."""
        keys = _keys(name)
        reply = await self._reads.run(
            "look",
            (keys.meta, keys.records, keys.cuts, keys.sealed),
            _place(source),
            _flag(renew),
        )
        match reply:
            case [b"missing"]:
                raise NotFound(_NO_SUCH_STREAM)
            case [b"expired"]:
                raise Expired
            case [b"ok", *facts]:
                return _view(name, source, facts)
            case _:
                raise _unexpected("look", reply)

    async def delete(self, name: str, log: int | None = None) -> bool:
        """False when only an expired stream was left to remove."""
        match reply := await self._writes.run("delete", _all(_keys(name)), "", log or ""):
            case [b"ok", _]:
                return True
            case [b"expired", _]:
                return False
            case [b"other_log"]:
                raise Conflict("The stream was replaced while it was being deleted.")
            case [b"missing"]:
                raise NotFound(_NO_SUCH_STREAM)
            case _:
                raise _unexpected("delete", reply)

    async def remove_expired(self, name: str) -> bool:
        """True for the one caller that removed it."""
        reply = await self._writes.run("delete", _all(_keys(name)), "1", "")
        return bool(reply[0] == b"expired")

    async def fetch(self, name: str, log: int, base: int, start: int, end: int) -> bytes:
        """Stored bytes of one block; fewer than asked for when the block has been dropped."""
        block = max(base, start - start % BLOCK_BYTES)
        if start < block:
            return b""
        assert end <= block - block % BLOCK_BYTES + BLOCK_BYTES
        key = _keys(name).block(log, block)
        reply = await self._reads.call("GETRANGE", key, start - block, end - block - 1)
        assert isinstance(reply, bytes)
        return reply

    async def ping(self) -> None:
        await asyncio.gather(self._writes.call("PING"), self._reads.call("PING"))


_NO_SUCH_STREAM = "There is no such stream."
_STREAM_TOO_LARGE = "The stream would grow beyond the largest size this server allows."


def _all(keys: StreamKeys) -> tuple[str, ...]:
    return (
        keys.meta,
        keys.records,
        keys.cuts,
        keys.producers,
        keys.blocks,
        keys.live,
        keys.sealed,
        keys.folded,
    )


def _flag(value: bool) -> str:
    return "1" if value else ""


def _optional(value: int | None) -> int | str:
    return "" if value is None else value


def _place(source: ReadFrom) -> int | str:
    if source is START:
        return "start"
    if source is NOW:
        return "now"
    assert isinstance(source, Offset)
    return source.position


def _int_or_none(text: bytes) -> int | None:
    return int(text) if text else None


def _view(name: str, source: ReadFrom, facts: list[bytes]) -> View:
    now, log, chain, content_type, ttl, expires, expires_text, deadline = facts[:8]
    closed, tail, earliest, sealed, base, position, chunk_end, object_start = facts[8:16]
    stream = Stream(
        name=name,
        log=int(log),
        ancestors=_ancestors(chain),
        content_type=_content_type(content_type.decode()),
        lifetime=Lifetime(_int_or_none(ttl), _int_or_none(expires), expires_text.decode()),
        deadline_ms=_int_or_none(deadline),
        closed=closed == b"1",
        tail=int(tail),
        earliest=int(earliest),
        sealed=int(sealed),
        base=int(base),
        now_ms=int(now),
    )
    start = stream.position_of(source) if isinstance(source, Offset) else int(position)
    on_boundary = facts[16]
    if not on_boundary:
        raise Invalid("The offset lies inside a message.")
    end = stream.tail if chunk_end == b"-1" else int(chunk_end)
    whole = int(object_start) if object_start != b"-1" else None
    return View(stream, start, end, whole, needs_boundary_check=on_boundary == b"?")


def _ancestors(chain: bytes) -> tuple[Ancestor, ...]:
    return msgspec.json.decode(chain, type=tuple[Ancestor, ...]) if chain else ()


def _unexpected(verb: str, reply: object) -> RuntimeError:
    return RuntimeError(f"the {verb} script answered {reply!r}")
