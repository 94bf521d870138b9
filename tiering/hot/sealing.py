"""The hot tier as a sealer sees it: what is unsealed, what is due, and the commit."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from tiering import snapshot as snapshots
from tiering.cold.index import Index, Producers, Record
from tiering.cold.keys import Piece
from tiering.cold.manifest import UNKNOWN, VERSION, Manifest
from tiering.errors import Corrupt
from tiering.hot.just_appended import JustAppended
from tiering.hot.keys import ANY_META, SCHEDULE, SWEEP, StreamKeys, stream_keys, stream_name
from tiering.hot.pipe import Pipe
from tiering.hot.replies import ancestors
from tiering.hot.scripts import BLOCK_BYTES
from tiering.stream import ContentType

_RECORDS_PER_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Survey:
    """What a sealer must know of a stream, of one instant."""

    manifest: Manifest
    base: int
    cut: int | None
    begins_chunk: bool
    oldest_ms: int | None
    producers: Producers
    seq: str
    noted_manifest: str
    deadline_ms: int | None
    lent: int
    now_ms: int

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def log(self) -> int:
        return self.manifest.log

    @property
    def sealed(self) -> int:
        return self.manifest.sealed

    @property
    def tail(self) -> int:
        return self.manifest.tail

    @property
    def content_type(self) -> ContentType:
        return ContentType(self.manifest.content_type)

    @property
    def is_settled(self) -> bool:
        """Nothing is left to seal, and the manifest says all there is to say."""
        return self.sealed == self.tail and self.noted_manifest == self.manifest.mark

    @property
    def position(self) -> tuple[int, int, int, str]:
        """Where the stream stands: another answer means that it has moved."""
        return self.log, self.sealed, self.tail, self.noted_manifest

    @property
    def has_manifest(self) -> bool:
        """And it is known what that says."""
        return self.noted_manifest not in ("", UNKNOWN)

    @property
    def has_noted_closure(self) -> bool:
        """The last append and the closure are one step: a bucket must not know half of it."""
        return not self.manifest.closed or self.noted_manifest.split(":")[2:3] == ["1"]

    @property
    def has_noted_retention(self) -> bool:
        """Object storage knows what stands for the part of the stream that is not kept."""
        noted, now = self.noted_manifest.split(":")[3:], self.manifest.mark.split(":")[3:]
        return self.manifest.snapshot is None or noted == now

    @property
    def has_objects(self) -> bool:
        own = self.sealed > self.manifest.border
        manifest = self.manifest
        return bool(own or self.noted_manifest or manifest.ancestors or manifest.snapshot)

    @property
    def is_wanted(self) -> bool:
        """A fork's own data are not stored before what it reads through its parent."""
        return self.lent > self.sealed

    @property
    def has_expired(self) -> bool:
        return self.deadline_ms is not None and self.deadline_ms <= self.now_ms

    @property
    def logs(self) -> frozenset[int]:
        return self.manifest.logs


Outcome = Literal["ok", "gone", "moved", "hidden"]


class SealingDesk:
    def __init__(self, pipe: Pipe, just_appended: JustAppended | None = None) -> None:
        self._pipe = pipe
        self._just_appended = just_appended or JustAppended(0)

    @property
    def run_id(self) -> str:
        """Which run of Redis this is."""
        return self._pipe.run_id

    async def survey(self, name: str) -> Survey | None:
        keys = stream_keys(name)
        match await self._pipe.run("survey", _survey_keys(keys)):
            case [b"ok", *facts]:
                try:
                    return _survey(name, *facts)
                except (KeyError, ValueError) as error:
                    raise Corrupt(f"What Redis says of {name} is damaged: {error!r}.") from error
            case _:
                return None

    async def frontier(self, name: str) -> tuple[int, int, int] | None:
        """The log, how far it is sealed, and how far it goes."""
        meta = stream_keys(name).meta
        log, sealed, tail = await self._pipe.call("HMGET", meta, "log", "sealed", "tail")
        return (int(log), int(sealed), int(tail)) if log else None

    async def records(self, survey: Survey, end: int) -> list[Record]:
        """The appends from the frontier on, up to the one that reaches `end`."""
        key = stream_keys(survey.name).records
        found: list[Record] = []
        after = survey.sealed
        while after < end:
            page = await self._pipe.call("XRANGE", key, after + 1, "+", "COUNT", _RECORDS_PER_PAGE)
            if not page:
                break
            found.extend(Record.parse(entry_id, fields) for entry_id, fields in page)
            after = found[-1].end
        return [record for record in found if record.has_data and record.begin < end]

    async def message_ends(self, name: str, position: int) -> list[int]:
        """Of some messages from an unsealed position on."""
        key = stream_keys(name).records
        page = await self._pipe.call("XRANGE", key, position + 1, "+", "COUNT", _RECORDS_PER_PAGE)
        records = (Record.parse(entry_id, fields) for entry_id, fields in page)
        return [end for one in records if one.has_data for end in one.message_ends()]

    async def record_after(self, name: str, position: int) -> Record | None:
        """The append that the bytes from an unsealed position on belong to."""
        key = stream_keys(name).records
        found = await self._pipe.call("XRANGE", key, position + 1, "+", "COUNT", 1)
        return Record.parse(*found[0]) if found else None

    async def loans(self, name: str) -> dict[str, int]:
        """Who reads through the stream, and since when (ms)."""
        flat = await self._pipe.call("ZRANGE", stream_keys(name).loans, 0, -1, "WITHSCORES")
        return _scores(flat)

    async def stored(self, survey: Survey, end: int) -> bytes:
        """The unsealed bytes up to `end`; fewer when another sealer was faster."""
        if held := self._just_appended.take(self.run_id, survey.log, survey.sealed, end):
            return b"".join(held)
        keys = stream_keys(survey.name)
        start, ranges = survey.sealed, []
        while start < end:
            block = max(survey.base, start - start % BLOCK_BYTES)
            stop = min(end, start - start % BLOCK_BYTES + BLOCK_BYTES)
            key = keys.block(survey.log, block)
            ranges.append(self._pipe.call("GETRANGE", key, start - block, stop - block - 1))
            start = stop
        return b"".join(await asyncio.gather(*ranges))

    async def seal(self, piece: Piece, index: Index, before: Producers) -> Outcome:
        keys = stream_keys(piece.name)
        changed = {
            producer: state
            for producer, state in index.producers.items()
            if before.get(producer) != state
        }
        reply = await self._pipe.run(
            "seal",
            (keys.meta, keys.records, keys.cuts, keys.blocks, keys.sealed, keys.folded),
            piece.log,
            piece.start,
            piece.end,
            piece.kind,
            index.seq,
            *(word for name, (epoch, seq) in changed.items() for word in (name, f"{epoch}:{seq}")),
        )
        outcome: Outcome = reply[0].decode()
        return outcome

    async def manifest(self, manifest: Manifest, mark: str) -> bool:
        keys = stream_keys(manifest.name)
        reply = await self._pipe.run("manifest", (keys.meta,), manifest.log, mark)
        return bool(reply[0] == b"ok")

    async def pieces(self, name: str, start: int, end: int) -> list[Piece]:
        """The sealed pieces that hold `[start, end)`, in order."""
        _, *found = await self._pipe.run("pieces", (stream_keys(name).sealed,), start, end)
        return [piece_of(name, member.decode()) for member in found]

    async def all_pieces(self, name: str) -> list[Piece]:
        members = await self._pipe.call("ZRANGE", stream_keys(name).sealed, 0, -1)
        return [piece_of(name, member.decode()) for member in members]

    async def demote(self, chunk: Piece, *, is_cut: bool) -> bool:
        keys = stream_keys(chunk.name)
        reply = await self._pipe.run(
            "demote",
            (keys.meta, keys.sealed, keys.cuts),
            sealed_member(chunk),
            chunk.start,
            chunk.end,
            chunk.log,
            "1" if is_cut else "",
        )
        return bool(reply[0] == b"ok")

    async def held_bytes(self, survey: Survey) -> int:
        """How many bytes Redis holds from the frontier on."""
        keys = stream_keys(survey.name)
        start, held = survey.sealed, 0
        while start < survey.tail:
            block = max(survey.base, start - start % BLOCK_BYTES)
            length = await self._pipe.call("STRLEN", keys.block(survey.log, block))
            held += max(0, block + length - start)
            start = start - start % BLOCK_BYTES + BLOCK_BYTES
        return held

    async def last_record_end(self, survey: Survey) -> int | None:
        key = stream_keys(survey.name).records
        found = await self._pipe.call("XREVRANGE", key, "+", "-", "COUNT", 1)
        return Record.parse(*found[0]).end if found else None

    async def lease(self, name: str, holder: str, milliseconds: int) -> bool:
        """Also to the holder of one that could not be released when Redis was away."""
        key = stream_keys(name).lease
        if await self._claim(key, holder, milliseconds):
            return True
        return bool(await self._pipe.call("GET", key) == holder.encode())

    async def release(self, name: str) -> None:
        await self._pipe.call("DEL", stream_keys(name).lease)

    async def schedule(self, due_ms: dict[str, int]) -> None:
        """A stream that is due earlier already stays so."""
        words = (word for name, score in due_ms.items() for word in (score, name))
        await self._pipe.call("ZADD", SCHEDULE, "LT", *words)

    async def due(self, first: int | str, last: int | str, limit: int) -> list[tuple[str, str]]:
        """Streams scheduled between two times, each with the score to settle it by."""
        found = await self._pipe.call(
            "ZRANGEBYSCORE", SCHEDULE, first, last, "WITHSCORES", "LIMIT", 0, limit
        )
        return [(n.decode(), s.decode()) for n, s in zip(found[::2], found[1::2], strict=True)]

    async def sweeps(self, milliseconds: int) -> bool:
        """True for the one sealer that looks after everybody's streams for that time."""
        return await self._claim(SWEEP, "1", milliseconds)

    async def _claim(self, key: str, holder: str, milliseconds: int) -> bool:
        """A claim that would last longer than any is of a time before the clock went back."""
        if await self._pipe.call("SET", key, holder, "NX", "PX", milliseconds):
            return True
        if await self._pipe.call("PTTL", key) <= milliseconds:
            return False
        await self._pipe.call("SET", key, holder, "PX", milliseconds)
        return True

    async def names(self) -> AsyncIterator[str]:
        """Every stream there is, at least once."""
        async for key in self._pipe.scan(ANY_META):
            yield stream_name(key)

    async def counts(self, name: str) -> tuple[int, int]:
        """How many chunks and parts a stream has in object storage."""
        pieces = await self.all_pieces(name)
        chunks = sum(piece.kind == "chunk" for piece in pieces)
        return chunks, len(pieces) - chunks

    async def settle(self, name: str, score: str, next_due_ms: int | None) -> None:
        following = "" if next_due_ms is None else next_due_ms
        await self._pipe.run("settle", (SCHEDULE,), name, score, following)


def _scores(flat: list[bytes]) -> dict[str, int]:
    return {m.decode(): int(score) for m, score in zip(flat[::2], flat[1::2], strict=True)}


def _survey_keys(keys: StreamKeys) -> tuple[str, ...]:
    return (keys.meta, keys.records, keys.cuts, keys.sealed, keys.folded)


def _survey(
    name: str,
    now: bytes,
    cut: bytes,
    begins: bytes,
    oldest: bytes,
    facts: list[bytes],
    folded: list[bytes],
) -> Survey:
    fields = _pairs(facts)
    return Survey(
        manifest=_manifest(name, fields),
        base=int(fields["base"]),
        cut=int(cut) if cut != b"-1" else None,
        begins_chunk=begins == b"1",
        oldest_ms=int(oldest) if oldest != b"-1" else None,
        producers={producer: _state(text) for producer, text in _pairs(folded).items()},
        seq=fields["sealed_seq"],
        noted_manifest=fields["manifest"],
        deadline_ms=int(fields["deadline"]) if fields["deadline"] else None,
        lent=int(fields["lent"]),
        now_ms=int(now),
    )


def _pairs(flat: list[bytes]) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2], strict=True)}


def _state(text: str) -> tuple[int, int]:
    epoch, seq = text.split(":")
    return int(epoch), int(seq)


def _manifest(name: str, fields: dict[str, str]) -> Manifest:
    return Manifest(
        version=VERSION,
        name=name,
        log=int(fields["log"]),
        content_type=fields["type"],
        grid=int(fields["grid"]),
        created_ms=int(fields["created"]),
        tail=int(fields["tail"]),
        sealed=int(fields["sealed"]),
        ancestors=ancestors(fields["chain"]),
        ttl_secs=int(fields["ttl"]) if fields["ttl"] else None,
        expires_ms=int(fields["expires"]) if fields["expires"] else None,
        expires_text=fields["expires_text"],
        closed=fields["closed"] == "1",
        closed_by=fields["closed_by"],
        earliest=int(fields["earliest"]),
        deleted=fields["hidden"] == "1",
        snapshot=snapshots.decode(fields["snapshot"]),
    )


def sealed_member(piece: Piece) -> str:
    return f"{piece.kind}:{piece.start}:{piece.end}:{piece.log}"


def piece_of(name: str, member: str) -> Piece:
    """The piece that is listed so."""
    kind, start, end, log = member.split(":")
    assert kind in ("chunk", "part")
    return Piece(kind, name, int(log), int(start), int(end))  # type: ignore[arg-type]
