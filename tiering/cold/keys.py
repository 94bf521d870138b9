"""Every object key of this project."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

DEPLOYMENT = "deployment"

_NUMBER = "[0-9]{16}"
_CHUNK = re.compile(f"chunks/([^/]+)/({_NUMBER})_({_NUMBER})")
_PART = re.compile(f"parts/([^/]+)/({_NUMBER})_({_NUMBER})-({_NUMBER})")
_MANIFEST = re.compile(f"manifest/([^/]+)/({_NUMBER})")


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


def manifest_key(name: str, log: int) -> str:
    return f"manifest/{segment(name)}/{log:016d}"


def parse_manifest_key(key: str) -> tuple[str, int] | None:
    match = _MANIFEST.fullmatch(key)
    return (unquote(match[1]), int(match[2])) if match else None


def parse_part_key(key: str) -> Piece | None:
    match = _PART.fullmatch(key)
    if match is None:
        return None
    return Piece("part", unquote(match[1]), int(match[2]), int(match[3]), int(match[4]))


def parse_chunk_key(key: str) -> tuple[str, int, int] | None:
    """Name, log and start: where a chunk ends is said by its index."""
    match = _CHUNK.fullmatch(key)
    return (unquote(match[1]), int(match[2]), int(match[3])) if match else None
