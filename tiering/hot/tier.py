"""The hot tier: every verb is one script in one hash slot of Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache

import msgspec

from tiering.errors import Conflict, NotFound, TooLarge
from tiering.hot import replies
from tiering.hot.appends import append_keys, append_words, is_plain
from tiering.hot.connection import LARGE_BYTES, Argument, Reply
from tiering.hot.just_appended import JustAppended
from tiering.hot.keys import stream_keys
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe, Receiver
from tiering.hot.pressure import Pressure
from tiering.hot.scripts import BLOCK_BYTES
from tiering.hot.staging import Staging
from tiering.hot.terms import Append, Appended, Attention, Created, Hidden, Origin, Remains
from tiering.hot.together import Together
from tiering.messages import Payload
from tiering.offset import NOW, START, Offset, ReadFrom
from tiering.stream import Configuration, ContentType, Stream, View

_keys = lru_cache(maxsize=4096)(stream_keys)


class HotTier:
    def __init__(
        self,
        writes: Pipe,
        reads: Pipe,
        pressure: Pressure,
        logs: Logs,
        *,
        grid: int,
        max_stream_bytes: int = 0,
        just_appended: JustAppended | None = None,
        is_cached: bool = False,
    ) -> None:
        """`is_cached`: edges or caches may have what is deleted."""
        self._writes = writes
        self._reads = reads
        self._pressure = pressure
        self._grid = grid
        self._max_stream_bytes = max_stream_bytes
        self._logs = logs
        self._staging = Staging()
        self._together = Together(writes, logs, max_stream_bytes)
        self._just_appended = just_appended or JustAppended(0)
        self._is_cached = is_cached
        self.attend: Callable[[str, Attention], None] = lambda name, attention: None

    async def create(
        self,
        name: str,
        wanted: Configuration,
        payload: Payload,
        log: int,
        origin: Origin | None = None,
    ) -> Created:
        """`log` was minted for it; `origin` is what the stream is a fork of."""
        await self._pressure.admit(len(payload.data))
        if 0 < self._max_stream_bytes < len(payload.data):
            raise TooLarge(replies.STREAM_TOO_LARGE)
        lifetime = wanted.lifetime
        reply = await self._writes.run(
            "create",
            _keys(name).all,
            log,
            wanted.content_type.text,
            wanted.content_type.media,
            origin.grid if origin else self._grid,
            _optional(lifetime.ttl_secs),
            _optional(lifetime.expires_ms),
            lifetime.expires_text,
            _flag(wanted.closed),
            payload.data,
            payload.lengths,
            self._logs.run,
            msgspec.json.encode(origin.ancestors) if origin else "",
            origin.border if origin else 0,
            origin.name if origin else "",
            _flag(origin is not None and origin.was_asked_for),
            origin.earliest if origin else 0,
            origin.snapshot.encode() if origin and origin.snapshot else "",
        )
        match reply:
            case [b"created" | b"created_over_expired" as outcome, _, tail]:
                is_due = wanted.closed or len(payload.data) >= self._grid
                self.attend(name, Attention.NOW if is_due else Attention.LATER)
                end = Offset(log, int(tail))
                over_expired = outcome == b"created_over_expired"
                return Created(end, wanted.content_type, True, over_expired)
            case [b"exists", known_log, tail, content_type]:
                known = ContentType(content_type.decode())
                return Created(Offset(int(known_log), int(tail)), known, False)
            case [b"hidden"]:
                raise Conflict("A stream of this name was deleted, and forks of it still exist.")
            case [b"conflict", what]:
                raise Conflict(f"The stream exists with another {what.decode()}.")
            case _:
                raise replies.unexpected("create", reply)

    async def append(self, name: str, append: Append) -> Appended:
        size = len(append.payload.data)
        if size:
            await self._pressure.admit(size)
        reply = await self._send(name, append)
        settled = self.settle(name, append, reply)
        if settled is not None:
            done, pause_secs = settled
            if pause_secs:
                await asyncio.sleep(pause_secs)
            return done
        match reply:
            case [b"other_run", log]:
                if await self._logs.relog(name, int(log), "tail"):
                    self.attend(name, Attention.NOW)
                return await self.append(name, append)
            case _:
                raise replies.append_refusal(append, reply)

    def start_append(self, name: str, append: Append, receiver: Receiver) -> bool:
        """For small appends, without a task that waits: the receiver gets a reply to `settle`.
        False, or an error: nothing was sent, because there would be more to it."""
        size = len(append.payload.data)
        if not 0 < size < LARGE_BYTES or not self._pressure.admits_at_once(size):
            return False
        if is_plain(append):
            self._together.join(name, append, receiver)
        else:
            self._writes.send(self._together.alone(name, append), receiver)
        return True

    def settle(self, name: str, append: Append, reply: Reply) -> tuple[Appended, float] | None:
        """What was done, and for how long the writer is to wait; None if nothing was appended."""
        match reply:
            case [b"ok", log, tail, closed, attention, unsealed]:
                if attention:
                    self.attend(name, Attention(attention))
                highest = append.producer.seq if append.producer else None
                done = Appended(Offset(int(log), int(tail)), closed == b"1", False, highest)
                return done, self._pressure.pace_secs(int(unsealed))
            case [b"duplicate", log, tail, closed, highest]:
                end = Offset(int(log), int(tail))
                return Appended(end, closed == b"1", True, int(highest)), 0.0
            case _:
                return None

    def _send(self, name: str, append: Append) -> Awaitable[Reply]:
        if is_plain(append):
            return self._together.append_together(name, append)
        data = append.payload.data
        if len(data) >= LARGE_BYTES:
            return self._append_large(name, append)
        return self._writes.run("append", append_keys(name), *self._words(append, data))

    async def _append_large(self, name: str, append: Append) -> Reply:
        whole, size = append.payload.data, len(append.payload.data)
        data, staged = self._staging.split(name, whole)
        words = (*self._words(append, data), *((len(staged), size) if staged else ()))
        reply = await self._writes.run_large("append", append_keys(name), *words, staged=staged)
        match reply:
            case [b"ok", log, tail, *_]:
                self._staging.learn(name, size, int(tail), was_split=bool(staged))
                start, run_id = int(tail) - size, self._writes.run_id
                self._just_appended.note(run_id, int(log), start, whole)
        return reply

    def _words(self, append: Append, data: bytes | memoryview) -> tuple[Argument, ...]:
        return append_words(append, data, self._max_stream_bytes, self._logs.run)

    async def mint(self) -> int:
        return await self._logs.mint()

    async def lend(self, source: Stream, position: int, loan: str) -> bool:
        """A fork will read through the stream up to the position. False: the stream is not any
        more what it was when it was looked at."""
        words = (source.log, position, loan, source.earliest)
        keys = _keys(source.name)
        match reply := await self._writes.run("lend", (keys.meta, keys.loans), *words):
            case [b"ok"]:
                self.attend(source.name, Attention.NOW)
                return True
            case [b"moved" | b"expired" | b"hidden" | b"missing" | b"other_log"]:
                return False
            case _:
                raise replies.unexpected("lend", reply)

    async def renew_loan(self, name: str, position: int, loan: str) -> None:
        """A fork reads through the stream already, whatever became of that."""
        keys = _keys(name)
        reply = await self._writes.run("lend", (keys.meta, keys.loans), "", position, loan, "")
        if reply != [b"ok"]:
            raise NotFound("The source of the fork does not exist any more.")

    async def release(self, name: str, loans: Iterable[str]) -> Remains | None:
        """What is left of the stream if nobody needed it any more, and it went."""
        match reply := await self._writes.run("release", _keys(name).all, *loans):
            case [b"removed", log, chain]:
                return replies.remains(name, log, chain)
            case [b"ok"] | [b"missing"]:
                return None
            case _:
                raise replies.unexpected("release", reply)

    async def look(self, name: str, source: ReadFrom, *, renew: bool) -> View:
        """The stream, seen from `source`; `Gone` or `Invalid` when that is no place in it."""
        token = source if isinstance(source, Offset) else None
        view = await self._look(name, _place(source), token, _flag(renew), "")
        if source is START and view.stream.earliest > 0:
            raise view.stream.no_longer_retained()
        return view

    async def look_for_fork(self, name: str, position: int) -> View:
        """A stream that forks read through is there for them when it is gone for others."""
        return await self._look(name, position, None, "", "1")

    async def _look(
        self, name: str, place: int | str, token: Offset | None, renew: str, for_fork: str
    ) -> View:
        keys = _keys(name)
        reply = await self._reads.run(
            "look",
            (keys.meta, keys.records, keys.cuts, keys.sealed),
            place,
            renew,
            for_fork,
        )
        match reply:
            case [b"ok", *facts]:
                return replies.view(name, token, facts)
            case _:
                raise replies.view_refusal(reply)

    async def delete(self, name: str, log: int | None = None) -> tuple[bool, Remains | None]:
        """Whether it was alive (an expired one was not), and what is left; None if forks still
        read through it."""
        match reply := await self._delete(name, "", log or ""):
            case [b"ok" | b"expired" as outcome, number, chain]:
                return outcome == b"ok", replies.remains(name, number, chain)
            case [b"hidden"]:
                return True, None
            case _:
                raise replies.deletion_refusal(reply)

    async def remove_expired(self, name: str) -> Remains | None:
        """What is left, for the one caller that removed it."""
        match await self._delete(name, "1", ""):
            case [b"expired", number, chain]:
                return replies.remains(name, number, chain)
            case [b"hidden"] | [b"already_hidden"]:
                raise Hidden
            case _:
                return None

    async def _delete(self, name: str, only_if_expired: str, only_log: int | str) -> list[bytes]:
        keys, flag = _keys(name), _flag(self._is_cached)
        names = (*keys.all, keys.recalls)
        reply: list[bytes] = await self._writes.run(
            "delete", names, only_if_expired, only_log, flag
        )
        return reply

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
