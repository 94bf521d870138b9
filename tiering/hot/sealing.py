"""The hot tier as a sealer sees it: what is unsealed, what is due, and the commit."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from tiering.cold.index import Index, Producers, Record
from tiering.cold.keys import Piece
from tiering.cold.manifest import VERSION, Manifest
from tiering.hot.keys import ANY_META, SCHEDULE, SWEEP, StreamKeys, stream_keys, stream_name
from tiering.hot.pipe import Pipe
from tiering.hot.scripts import BLOCK_BYTES
from tiering.stream import Ancestor, ContentType

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
    now_ms: int

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
    def has_objects(self) -> bool:
        return bool(self.noted_manifest) or self.sealed > 0


Outcome = Literal["ok", "gone", "moved"]


class SealingDesk:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def survey(self, name: str) -> Survey | None:
        keys = stream_keys(name)
        match await self._pipe.run("survey", _survey_keys(keys)):
            case [b"ok", now, cut, begins, oldest, facts, folded]:
                fields = _pairs(facts)
                return Survey(
                    manifest=_manifest(name, fields),
                    base=int(fields["base"]),
                    cut=int(cut) if cut != b"-1" else None,
                    begins_chunk=begins == b"1",
                    oldest_ms=int(oldest) if oldest != b"-1" else None,
                    producers={name: _state(text) for name, text in _pairs(folded).items()},
                    seq=fields["sealed_seq"],
                    noted_manifest=fields["manifest"],
                    now_ms=int(now),
                )
            case _:
                return None

    async def records(self, survey: Survey, end: int) -> list[Record]:
        """The appends from the frontier on, up to the one that reaches `end`."""
        key = stream_keys(survey.manifest.name).records
        found: list[Record] = []
        after = survey.sealed
        while after < end:
            page = await self._pipe.call("XRANGE", key, after + 1, "+", "COUNT", _RECORDS_PER_PAGE)
            if not page:
                break
            found.extend(Record.parse(entry_id, fields) for entry_id, fields in page)
            after = found[-1].end
        return [record for record in found if record.has_data and record.begin < end]

    async def stored(self, survey: Survey, end: int) -> bytes:
        """The unsealed bytes up to `end`; fewer when another sealer was faster."""
        keys = stream_keys(survey.manifest.name)
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

    async def pieces(self, name: str, log: int, start: int, end: int) -> list[Piece]:
        """The sealed pieces that hold `[start, end)`, in order."""
        key = stream_keys(name).sealed
        first = await self._pipe.call("ZREVRANGEBYSCORE", key, start, "-inf", "LIMIT", 0, 1)
        rest = await self._pipe.call("ZRANGEBYSCORE", key, f"({start}", f"({end}")
        return [_piece(name, log, member) for member in (*first, *rest)]

    async def lease(self, name: str, holder: str, milliseconds: int) -> bool:
        key = stream_keys(name).lease
        return bool(await self._pipe.call("SET", key, holder, "NX", "PX", milliseconds))

    async def release(self, name: str) -> None:
        await self._pipe.call("DEL", stream_keys(name).lease)

    async def schedule(self, due_ms: dict[str, int]) -> None:
        """A stream that is due earlier already stays so."""
        words = (word for name, score in due_ms.items() for word in (score, name))
        await self._pipe.call("ZADD", SCHEDULE, "LT", *words)

    async def due(self, until_ms: int | None, limit: int) -> list[tuple[str, str]]:
        """Streams whose time has come, each with the score to settle it by."""
        highest = "+inf" if until_ms is None else until_ms
        found = await self._pipe.call(
            "ZRANGEBYSCORE", SCHEDULE, "-inf", highest, "WITHSCORES", "LIMIT", 0, limit
        )
        return [(n.decode(), s.decode()) for n, s in zip(found[::2], found[1::2], strict=True)]

    async def sweeps(self, milliseconds: int) -> bool:
        """True for the one sealer that looks after everybody's streams for that time."""
        return bool(await self._pipe.call("SET", SWEEP, "1", "NX", "PX", milliseconds))

    async def names(self) -> AsyncIterator[str]:
        """Every stream there is, at least once."""
        cursor = b"0"
        while True:
            cursor, keys = await self._pipe.call("SCAN", cursor, "MATCH", ANY_META, "COUNT", 512)
            for key in keys:
                yield stream_name(key.decode())
            if cursor == b"0":
                return

    async def counts(self, name: str) -> tuple[int, int]:
        """How many chunks and parts a stream has in object storage."""
        key = stream_keys(name).sealed
        members = await self._pipe.call("ZRANGE", key, 0, -1)
        chunks = sum(member.startswith(b"chunk") for member in members)
        return chunks, len(members) - chunks

    async def settle(self, name: str, score: str, next_due_ms: int | None) -> None:
        following = "" if next_due_ms is None else next_due_ms
        await self._pipe.run("settle", (SCHEDULE,), name, score, following)


def _survey_keys(keys: StreamKeys) -> tuple[str, ...]:
    return (keys.meta, keys.records, keys.cuts, keys.sealed, keys.folded)


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
        ancestors=_ancestors(fields["chain"]),
        ttl_secs=int(fields["ttl"]) if fields["ttl"] else None,
        expires_ms=int(fields["expires"]) if fields["expires"] else None,
        expires_text=fields["expires_text"],
        closed=fields["closed"] == "1",
        closed_by=fields["closed_by"],
        earliest=int(fields["earliest"]),
    )


def _ancestors(chain: str) -> tuple[Ancestor, ...]:
    return msgspec.json.decode(chain, type=tuple[Ancestor, ...]) if chain else ()


def _piece(name: str, log: int, member: bytes) -> Piece:
    kind, start, end = member.decode().split(":")
    assert kind in ("chunk", "part")
    return Piece(kind, name, log, int(start), int(end))  # type: ignore[arg-type]
