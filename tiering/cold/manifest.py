"""What a bucket must know of a stream besides its data, to give it back alone."""

from collections.abc import Iterator

import msgspec

from tiering.errors import Corrupt
from tiering.snapshot import Snapshot
from tiering.stream import Ancestor, parent_of

VERSION = 1
# Noted in the hot tier while a manifest may be there, and may say anything.
UNKNOWN = "?"

_CHANGING = ("tail", "sealed", "closed", "closed_by", "earliest", "deleted", "snapshot")


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    name: str
    log: int
    content_type: str
    grid: int
    created_ms: int
    tail: int
    sealed: int
    ancestors: tuple[Ancestor, ...] = ()
    ttl_secs: int | None = None
    expires_ms: int | None = None
    expires_text: str = ""
    closed: bool = False
    closed_by: str = ""
    earliest: int = 0
    deleted: bool = False
    snapshot: Snapshot | None = None

    @property
    def mark(self) -> str:
        """Changes with everything in here that can change."""
        flags = f"{self.deleted:d}:{self.snapshot is not None:d}"
        return f"{self.tail}:{self.sealed}:{self.closed:d}:{self.earliest}:{flags}"

    @property
    def ends(self) -> bool:
        """Whether the stream has a lifetime."""
        return self.ttl_secs is not None or self.expires_ms is not None

    @property
    def parent(self) -> Ancestor | None:
        return parent_of(self.ancestors)

    @property
    def border(self) -> int:
        """Where the stream's own data begin: before it, a fork reads through its parent."""
        return self.parent.border if self.parent is not None else 0

    @property
    def is_complete(self) -> bool:
        """Nothing will be sealed any more."""
        return self.closed and self.sealed == self.tail

    def is_over(self, now_ms: int) -> bool:
        """Deleted, or past the time it was made for."""
        has_expired = self.expires_ms is not None and self.expires_ms <= now_ms
        return self.deleted or has_expired

    @property
    def logs(self) -> frozenset[int]:
        """The stream's own log, and those under its name that went before."""
        return frozenset(log for log, _ in self.own_logs())

    def own_logs(self) -> Iterator[tuple[int, int | None]]:
        """The same in the order of time, each with the position where the next one goes on."""
        for ancestor in self.ancestors:
            if ancestor.kind == "recovery" and not ancestor.name:
                yield ancestor.log, ancestor.border
        yield self.log, None

    def is_earlier_state_of(self, now: "Manifest") -> bool:
        """Whether a stream can have come from here to there: its log only grew."""
        grown = self.tail <= now.tail and self.sealed <= now.sealed
        grown = grown and self.earliest <= now.earliest and self.closed <= now.closed
        changing = {name: getattr(now, name) for name in _CHANGING}
        return grown and msgspec.structs.replace(self, **changing) == now

    def says_the_same(self, other: "Manifest") -> bool:
        """But for the tail: that of a busy stream is another one every time."""
        return msgspec.structs.replace(self, tail=other.tail) == other

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


class _Version(msgspec.Struct):
    version: int


def decode(data: bytes, key: str) -> Manifest:
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise Corrupt(f"{key} has format version {version}; this server knows {VERSION}.")
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{key} is not a manifest: {error}.") from error


def tombstone(manifest: Manifest) -> Manifest:
    """Says that the stream was deleted and must not come back."""
    return msgspec.structs.replace(manifest, deleted=True)
