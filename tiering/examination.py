"""One look at one stream: every object against its index, the stream against its objects."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Literal

import msgspec

from tiering.cold import index as indexes
from tiering.cold import manifest as manifests
from tiering.cold.index import SLAB_BYTES, Index
from tiering.cold.inventory import Holdings
from tiering.cold.keys import Piece, manifest_key
from tiering.errors import Corrupt
from tiering.exposure import Exposure
from tiering.forks import loan
from tiering.hot.buckets import BucketDesk
from tiering.hot.graveyard import Graveyard
from tiering.hot.sealing import SealingDesk, Survey
from tiering.membership import member_of
from tiering.messages import body_length
from tiering.objects.store import ObjectMissing, ObjectStore

Kind = Literal[
    "missing body",
    "damaged body",
    "missing index",
    "damaged index",
    "missing manifest",
    "damaged manifest",
    "gap",
    "overlap",
    "hot tail",
    "producers",
    "fork",
    "bucket",
    "snapshot",
    "exposed",
    "orphan",
    "lost stream",
    "damaged stream",
]


class Problem(msgspec.Struct, frozen=True, order=True):
    stream: str
    kind: Kind
    key: str
    what: str


class Findings(msgspec.Struct):
    """`leftovers` are objects that are not used any more but have their reason to be there."""

    leftovers: int = 0
    checked_bytes: int = 0
    problems: list[Problem] = msgspec.field(default_factory=list)


class Examiner:
    """`exposure` where edges read the bucket."""

    def __init__(
        self,
        desk: SealingDesk,
        graves: Graveyard,
        buckets: BucketDesk,
        store: ObjectStore,
        exposure: Exposure | None = None,
    ) -> None:
        self._exposure = exposure
        self._desk = desk
        self._graves = graves
        self._buckets = buckets
        self._store = store

    async def look(self, name: str, survey: Survey | None, holdings: Holdings) -> Findings:
        tiers = (self._desk, self._graves, self._buckets, self._store)
        look = _Look(*tiers, name, survey, holdings)
        look.findings.problems = [problem async for problem in look.problems()]
        if self._exposure is not None:
            what = "the stream is deleted, and edges can read it"
            keys = await self._exposure.keys(survey, holdings)
            look.findings.problems += [Problem(name, "exposed", key, what) for key in keys]
        return look.findings


class _Look:
    def __init__(
        self,
        desk: SealingDesk,
        graves: Graveyard,
        buckets: BucketDesk,
        store: ObjectStore,
        name: str,
        survey: Survey | None,
        holdings: Holdings,
    ) -> None:
        self._desk = desk
        self._graves = graves
        self._buckets = buckets
        self._store = store
        self._name = name
        self._survey = survey
        self._holdings = holdings
        self.findings = Findings()

    async def problems(self) -> AsyncIterator[Problem]:
        pieces: list[Piece] = []
        if self._survey is not None:
            pieces = await self._desk.all_pieces(self._name)
            async for problem in self._stream_problems(self._survey, pieces):
                yield problem
        used = {piece.key for piece in pieces}
        if self._survey is not None and self._survey.manifest.snapshot is not None:
            used.add(self._survey.manifest.snapshot.key)
        async for problem in self._strangers(used):
            yield problem

    async def _stream_problems(self, survey: Survey, pieces: list[Piece]) -> AsyncIterator[Problem]:
        name = survey.name
        if survey.has_manifest:
            async for problem in self._manifest_problems(survey):
                yield problem
        retained = max(survey.manifest.earliest, survey.manifest.border)
        position = min(pieces[0].start, retained) if pieces else retained
        last: Index | None = None
        for piece in pieces:
            if piece.start > max(position, retained):
                place = f"{max(position, retained)} to {piece.start}"
                yield Problem(name, "gap", piece.key, f"nothing covers {place}")
            if piece.start < position:
                yield Problem(name, "overlap", piece.key, f"{piece.start} is covered before it")
            position = piece.end
            last = None
            async for found in self._piece_problems(survey, piece):
                if isinstance(found, Problem):
                    yield found
                else:
                    last = found
        if (end := max(position, retained)) < survey.sealed:
            yield Problem(name, "gap", "", f"nothing covers {end} to {survey.sealed}")
        if last is not None and (last.producers, last.seq) != (survey.producers, survey.seq):
            yield Problem(name, "producers", pieces[-1].index_key, "Redis and the index disagree")
        async for problem in self._hot_problems(survey):
            yield problem
        for look in (self._fork_problem, self._bucket_problem, self._snapshot_problem):
            if (broken := await look(survey)) is not None:
                yield broken

    async def _fork_problem(self, survey: Survey) -> Problem | None:
        """A fork needs its source, and the source must know."""
        manifest = survey.manifest
        parent = manifest.parent
        if parent is None or parent.border == 0:
            return None
        source = await self._desk.survey(parent.name)
        if source is None or source.tail < parent.border:
            return Problem(manifest.name, "fork", "", f"{parent.name} has not what it inherits")
        first = next(log for log, _ in manifest.own_logs())
        if loan(manifest.name, first) not in await self._desk.loans(parent.name):
            return Problem(manifest.name, "fork", "", f"{parent.name} does not know of it")
        return None

    async def _bucket_problem(self, survey: Survey) -> Problem | None:
        member, manifest = member_of(survey.name), survey.manifest
        if member is None or manifest.deleted or survey.has_expired:
            return None
        known = await self._buckets.entries_of(member)
        if survey.logs.isdisjoint(known):
            return Problem(survey.name, "bucket", "", f"{member.bucket} does not know of it")
        return None

    async def _snapshot_problem(self, survey: Survey) -> Problem | None:
        snapshot = survey.manifest.snapshot
        if snapshot is None:
            return None
        digest, size = hashlib.blake2b(digest_size=16), 0
        try:
            async with aclosing(self._store.stream(snapshot.key)) as pieces:
                async for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
        except ObjectMissing:
            return Problem(survey.name, "snapshot", snapshot.key, "there is no such object")
        except Corrupt as error:
            return Problem(survey.name, "snapshot", snapshot.key, str(error))
        if (size, digest.hexdigest()) != (snapshot.size, snapshot.digest):
            return Problem(survey.name, "snapshot", snapshot.key, "it is not what was published")
        self.findings.checked_bytes += size
        return None

    async def _manifest_problems(self, survey: Survey) -> AsyncIterator[Problem]:
        known = survey.manifest
        key = manifest_key(known.name, known.log)
        try:
            stored = manifests.decode(await self._store.get(key), key)
        except ObjectMissing:
            yield Problem(known.name, "missing manifest", key, "there is no such object")
            return
        except Corrupt as error:
            yield Problem(known.name, "damaged manifest", key, str(error))
            return
        if not stored.is_earlier_state_of(known):
            yield Problem(known.name, "damaged manifest", key, "it does not describe the stream")

    async def _piece_problems(self, survey: Survey, piece: Piece) -> AsyncIterator[Problem | Index]:
        """Ends with the index, if that is as it should be."""
        name = survey.name
        try:
            index = indexes.decode(await self._store.get(piece.index_key), piece.index_key)
        except ObjectMissing:
            yield Problem(name, "missing index", piece.index_key, "there is no such object")
            return
        except Corrupt as error:
            yield Problem(name, "damaged index", piece.index_key, str(error))
            return
        if not _describes(index, piece, survey):
            yield Problem(name, "damaged index", piece.index_key, "it describes something else")
            return
        if (wrong := await self._body_problem(name, piece, index)) is not None:
            yield wrong
        yield index

    async def _body_problem(self, name: str, piece: Piece, index: Index) -> Problem | None:
        """Read whole, slab by slab."""
        try:
            info = await self._store.head(piece.key)
            if info is None:
                return Problem(name, "missing body", piece.key, "there is no such object")
            if info.size != index.body_bytes:
                sizes = f"{info.size} bytes instead of {index.body_bytes}"
                return Problem(name, "damaged body", piece.key, sizes)
            number = 0
            async for slab in self._slabs(piece.key):
                if indexes.checksum(slab) != index.checksums[number]:
                    place = f"its MiB {number} is not what was written"
                    return Problem(name, "damaged body", piece.key, place)
                number += 1
        except ObjectMissing:
            return Problem(name, "missing body", piece.key, "there is no such object")
        except Corrupt as error:
            return Problem(name, "damaged body", piece.key, str(error))
        self.findings.checked_bytes += index.body_bytes
        return None

    async def _slabs(self, key: str) -> AsyncIterator[bytes]:
        slab = bytearray()
        async with aclosing(self._store.stream(key)) as pieces:
            async for piece in pieces:
                slab += piece
                while len(slab) >= SLAB_BYTES:
                    yield bytes(slab[:SLAB_BYTES])
                    del slab[:SLAB_BYTES]
        if slab:
            yield bytes(slab)

    async def _hot_problems(self, survey: Survey) -> AsyncIterator[Problem]:
        name = survey.name
        held = await self._desk.held_bytes(survey)
        if held != survey.tail - survey.sealed:
            missing = survey.tail - survey.sealed - held
            yield Problem(name, "hot tail", "", f"{missing} unsealed bytes are not in Redis")
        last = await self._desk.last_record_end(survey)
        if survey.tail > survey.sealed and last != survey.tail:
            yield Problem(name, "hot tail", "", "the last record does not end at the tail")

    async def _strangers(self, used: set[str]) -> AsyncIterator[Problem]:
        """What lies under the stream's name and is no part of it."""
        dead = await self._graves.dead(self._name)
        alive = self._survey.logs if self._survey else frozenset()
        for key, log in self._holdings.objects():
            if log in dead or log in alive:
                is_used = log in alive and self._holdings.is_used(key, used)
                self.findings.leftovers += not is_used
            elif await self._store.head(key) is not None:
                yield self._stranger(key, log)

    def _stranger(self, key: str, log: int) -> Problem:
        if self._survey is None and key == manifest_key(self._name, log):
            return Problem(self._name, "lost stream", key, "Redis knows nothing of it")
        what = f"it belongs to no stream that is or was (log {log})"
        return Problem(self._name, "orphan", key, what)


def _describes(index: Index, piece: Piece, survey: Survey) -> bool:
    length = piece.end - piece.start
    appends, messages = index.append_ends(), index.message_ends()
    return (
        (index.start, index.end) == (piece.start, piece.end)
        and index.body_bytes == body_length(survey.content_type, length)
        and len(index.checksums) == -(-index.body_bytes // SLAB_BYTES)
        and len(index.times_ms()) == len(appends)
        and appends[-1:] == messages[-1:] == [piece.end]
    )
