"""What object storage holds of each stream, found by listing it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from tiering.cold.keys import (
    Piece,
    is_snapshot_key,
    manifest_key,
    parse_chunk_key,
    parse_manifest_key,
    parse_part_key,
)
from tiering.objects.store import ObjectStore
from tiering.stream import ContentType

_INDEX = "index/"


@dataclass(slots=True)
class Holdings:
    """The objects under one stream's name: bodies and snapshots with their sizes, and which body
    has an index."""

    name: str
    manifests: set[int] = field(default_factory=set)
    bodies: dict[str, int] = field(default_factory=dict)
    indexes: set[str] = field(default_factory=set)
    snapshots: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.manifests) + len(self.bodies) + len(self.indexes) + len(self.snapshots)

    @property
    def logs(self) -> set[int]:
        in_keys = (_log(key) for key in (*self.bodies, *self.indexes, *self.snapshots))
        return self.manifests.union(in_keys)

    def objects(self) -> Iterator[tuple[str, int]]:
        """Every object, with the log it belongs to."""
        for log in self.manifests:
            yield manifest_key(self.name, log), log
        for key in (*self.bodies, *self.snapshots):
            yield key, _log(key)
        for key in self.indexes:
            yield _INDEX + key, _log(key)

    def is_used(self, key: str, used: set[str]) -> bool:
        return key.startswith("manifest/") or key.removeprefix(_INDEX) in used

    def goes_on(self, log: int, end: int) -> bool:
        """Whether anything of the log lies beyond that end."""
        starts = (key.rsplit("_", 1)[1] for key in self.bodies if _log(key) == log)
        return any(int(start.partition("-")[0]) >= end for start in starts)

    def pieces(self, content_type: ContentType) -> Iterator[Piece]:
        """What can be read: bodies that have an index."""
        for key, size in self.bodies.items():
            piece = piece_of(key, size, content_type)
            if piece is not None and key in self.indexes:
                yield piece


def piece_of(key: str, size: int, content_type: ContentType) -> Piece | None:
    """A chunk's name does not say where it ends; its size does, if it is whole."""
    if (chunk := parse_chunk_key(key)) is None:
        return parse_part_key(key)
    name, log, start = chunk
    # A JSON body has one byte more than what is stored: see `messages.body`.
    return Piece("chunk", name, log, start, start + size - content_type.is_json)


def _log(key: str) -> int:
    return int(key.rsplit("/", 1)[1].partition("_")[0])


async def take(store: ObjectStore, segment: str = "") -> dict[str, Holdings]:
    """Of all streams, or of the one whose path segment is given."""
    folder = f"{segment}/" if segment else ""
    found: dict[str, Holdings] = {}
    for kind in ("manifest", "chunks", "parts", "index/chunks", "index/parts", "snapshots"):
        async for info in store.list(f"{kind}/{folder}"):
            name = unquote(info.key.removeprefix(f"{kind}/").partition("/")[0])
            _add(found.setdefault(name, Holdings(name)), info.key, info.size)
    return found


def _add(holdings: Holdings, key: str, size: int) -> None:
    if (manifest := parse_manifest_key(key)) is not None:
        holdings.manifests.add(manifest[1])
    elif key.startswith(_INDEX):
        holdings.indexes.add(key.removeprefix(_INDEX))
    elif is_snapshot_key(key):
        holdings.snapshots[key] = size
    else:
        holdings.bodies[key] = size


def longest_path(pieces: Iterable[Piece], start: int, limit: int | None) -> list[Piece]:
    """The pieces that lead furthest from `start` without a gap, within the limit.

    Of two that lead equally far a chunk is preferred: it is fetched with one request.
    """
    by_start: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.end > piece.start >= start and (limit is None or piece.end <= limit):
            by_start[piece.start].append(piece)
    furthest: dict[int, tuple[int, bool, Piece]] = {}
    for begin in sorted(by_start, reverse=True):
        furthest[begin] = max(
            ((_reach(furthest, one.end), one.kind == "chunk", one) for one in by_start[begin]),
            key=lambda found: found[:2],
        )
    path = []
    while start in furthest:
        path.append(furthest[start][2])
        start = path[-1].end
    return path


def _reach(furthest: dict[int, tuple[int, bool, Piece]], end: int) -> int:
    return furthest[end][0] if end in furthest else end
