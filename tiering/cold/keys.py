"""Every object key of this project."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

DEPLOYMENT = "deployment"
BUCKETS = "buckets/"

_NUMBER = "[0-9]{16}"
_CHUNK = re.compile(f"chunks/([^/]+)/({_NUMBER})_({_NUMBER})")
_PART = re.compile(f"parts/([^/]+)/({_NUMBER})_({_NUMBER})-({_NUMBER})")
_SNAPSHOT = re.compile(f"snapshots/([^/]+)/({_NUMBER})_({_NUMBER})-([0-9a-f]{{32}})")
_MANIFEST = re.compile(f"manifest/([^/]+)/({_NUMBER})")


# Object stores take keys of 1,024 bytes, and a name must leave room for what stands around it.
LONGEST_NAME = 800


def segment(name: str) -> str:
    """A stream's name as one path segment."""
    return quote(name, safe="")


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """A sealed range of a log: a whole chunk, or a part of one."""

    kind: Literal["chunk", "part"]
    name: str
    log: int
    start: int
    end: int

    @property
    def key(self) -> str:
        place = f"{segment(self.name)}/{self.log:016d}_{self.start:016d}"
        if self.kind == "chunk":
            return f"chunks/{place}"
        return f"parts/{place}-{self.end:016d}"

    @property
    def index_key(self) -> str:
        return f"index/{self.key}"


def piece_metadata(piece: Piece, content_type: str, *, ends: bool) -> dict[str, str]:
    """For edges that hand a body out by themselves, and for people."""
    metadata = {
        "stream-content-type": content_type,
        "stream-next-offset": f"{piece.log:016d}_{piece.end:016d}",
    }
    # An edge that fetches chunks without asking must ask for these.
    if ends:
        metadata["stream-lifetime"] = "ends"
    return metadata


def chunks_of(name: str, log: int) -> str:
    """What the keys of a log's chunks begin with."""
    return f"chunks/{segment(name)}/{log:016d}_"


def snapshots_of(name: str, log: int | None = None) -> str:
    """What the keys of a stream's snapshots begin with, or of one log's."""
    return f"snapshots/{segment(name)}/{'' if log is None else f'{log:016d}_'}"


def snapshot_key(name: str, log: int, position: int, ticket: str) -> str:
    """Every attempt to publish one has a ticket of its own, 32 hexadecimal digits."""
    return f"{snapshots_of(name, log)}{position:016d}-{ticket}"


def manifest_key(name: str, log: int) -> str:
    return f"manifest/{segment(name)}/{log:016d}"


def bucket_key(bucket: str) -> str:
    return f"{BUCKETS}{bucket}"


def body_prefixes(name: str, log: int) -> tuple[str, ...]:
    """Where all bodies of a log are found."""
    return chunks_of(name, log), f"parts/{segment(name)}/{log:016d}_"


def index_prefixes(name: str, log: int) -> tuple[str, ...]:
    return tuple(f"index/{prefix}" for prefix in body_prefixes(name, log))


def parse_manifest_key(key: str) -> tuple[str, int] | None:
    match = _MANIFEST.fullmatch(key)
    return (unquote(match[1]), int(match[2])) if match else None


def is_snapshot_key(key: str) -> bool:
    return _SNAPSHOT.fullmatch(key) is not None


def parse_part_key(key: str) -> Piece | None:
    match = _PART.fullmatch(key)
    if match is None:
        return None
    return Piece("part", unquote(match[1]), int(match[2]), int(match[3]), int(match[4]))


def parse_chunk_key(key: str) -> tuple[str, int, int] | None:
    """Name, log and start: where a chunk ends is said by its index."""
    match = _CHUNK.fullmatch(key)
    return (unquote(match[1]), int(match[2]), int(match[3])) if match else None
