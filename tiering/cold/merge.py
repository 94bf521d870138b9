"""Several pieces as one: the same bytes, the same messages, fewer objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tiering.cold import index as indexes
from tiering.cold.index import Index
from tiering.cold.keys import Piece, piece_metadata
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.gather import gather
from tiering.messages import body, pack_lengths, unpack_lengths
from tiering.objects.store import ObjectStore, named
from tiering.stream import ContentType


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be put in the place of what. Nothing but object storage is needed to do it."""

    content_type: str
    ends: bool
    old: tuple[Piece, ...]
    new: Piece

    @property
    def size(self) -> int:
        return self.new.end - self.new.start


@dataclass(frozen=True, slots=True)
class Ground:
    """What a stream is made of, of one instant."""

    manifest: Manifest
    pieces: Sequence[Piece]
    cuts: frozenset[int]

    @property
    def begins_at_the_beginning(self) -> bool:
        return bool(self.pieces) and self.pieces[0].start == self.manifest.border

    @property
    def closed_end(self) -> int | None:
        whole = self.manifest.closed and self.manifest.sealed == self.manifest.tail
        return self.manifest.tail if whole else None


def plan(ground: Ground) -> list[Task]:
    """A chunk that is complete in parts becomes one object; what there is of the chunk that is
    still open becomes one part."""
    return [task for run in _runs(ground) if (task := _task(ground, *run)) is not None]


def _runs(ground: Ground) -> Iterator[tuple[bool, list[Piece]]]:
    """Parts of one chunk and one log that follow each other; and whether a chunk begins there."""
    run: list[Piece] = []
    # Of a chunk whose beginning is not retained any more, the rest is never one.
    begins, is_at_chunk_start = False, ground.begins_at_the_beginning
    for piece in ground.pieces:
        if not run:
            begins = is_at_chunk_start
        ends_chunk = piece.kind == "chunk" or piece.end in ground.cuts
        if run and (piece.kind == "chunk" or piece.log != run[-1].log):
            yield begins, run
            run, begins = [], False
        if piece.kind == "part":
            run.append(piece)
        if ends_chunk and run:
            yield begins, run
            run = []
        is_at_chunk_start = ends_chunk
    if run:
        yield begins, run


def _task(ground: Ground, begins: bool, run: list[Piece]) -> Task | None:
    first, last, manifest = run[0], run[-1], ground.manifest
    is_complete = last.end in ground.cuts or last.end == ground.closed_end
    kind: Literal["chunk", "part"] = "chunk" if begins and is_complete else "part"
    if kind == "part" and len(run) == 1:
        return None
    new = Piece(kind, first.name, first.log, first.start, last.end)
    return Task(manifest.content_type, manifest.ends, tuple(run), new)


@dataclass(frozen=True, slots=True)
class Merged:
    """How many bytes, indexes and bodies, stand in the place of how many."""

    old_bytes: int
    new_bytes: int


async def merge(store: ObjectStore, task: Task) -> Merged:
    """Index before body, as sealers do. Whoever does the same writes the same."""
    content_type = ContentType(task.content_type)
    found = await gather(_read(store, piece) for piece in task.old)
    stored = b"".join(_stored(content_type, content) for _, content, _ in found)
    content = body(content_type, stored)
    index = join([index for index, _, _ in found], content)
    metadata = piece_metadata(task.new, task.content_type, ends=task.ends)
    encoded = index.encode()
    await _put_index(store, task.new.index_key, index, encoded)
    await _put(store, task.new.key, content, metadata)
    return Merged(sum(size for _, _, size in found), len(encoded) + len(content))


async def _read(store: ObjectStore, piece: Piece) -> tuple[Index, bytes, int]:
    """Index, body, and the bytes of both as they are stored."""
    with named(piece.index_key):
        encoded = await store.get(piece.index_key)
    index = indexes.decode(encoded, piece.index_key)
    with named(piece.key):
        content = await store.get(piece.key)
    if indexes.checksums(content) != index.checksums:
        raise Corrupt(f"{piece.key}: Its bytes are not those that were written.")
    return index, content, len(encoded) + len(content)


async def _put_index(store: ObjectStore, key: str, index: Index, encoded: bytes) -> None:
    """Another machine may compress the same in another way."""
    if await store.put_if_absent(key, encoded):
        return
    if indexes.decode(await store.get(key), key) != index:
        raise Corrupt(f"{key} holds something else than what it should.")


async def _put(store: ObjectStore, key: str, content: bytes, metadata: dict[str, str]) -> None:
    if not await store.put_if_absent(key, content, metadata) and await store.get(key) != content:
        raise Corrupt(f"{key} holds something else than what it should.")


def _stored(content_type: ContentType, content: bytes) -> bytes:
    return content[1:-1] + b"," if content_type.is_json else content


def join(parts: Sequence[Index], content: bytes) -> Index:
    """Parts of one chunk: only its end can divide an append."""
    assert all(before.end == after.start for before, after in pairwise(parts))
    assert not any(part.divides_append for part in parts[:-1])
    lengths: list[int] = []
    messages: dict[int, bytes] = {}
    for part in parts:
        messages |= {len(lengths) + n: packed for n, packed in part.message_lengths.items()}
        lengths += unpack_lengths(part.append_lengths)
    first, last = parts[0], parts[-1]
    return Index(
        start=first.start,
        end=last.end,
        body_bytes=len(content),
        checksums=indexes.checksums(content),
        append_lengths=pack_lengths(lengths),
        append_times_ms=b"".join(part.append_times_ms for part in parts),
        message_lengths=messages,
        producers=last.producers,
        seq=last.seq,
        divides_append=last.divides_append,
    )
